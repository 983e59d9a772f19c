"""What reached the simulator, for benchmarks: the last requests one by one, and counts of all of them."""

from __future__ import annotations

import dataclasses
from collections import Counter, deque
from typing import Any

MAX_ARRIVALS = 100_000
_MODEL_CHARACTERS = 100


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """One request. `arrived_seconds` is the machine's monotonic clock before the body was read; `model` the
    one asked for; `status` 0 where no status was sent; tokens are those of the whole reply, 0 if refused."""

    arrived_seconds: float
    model: str
    key_digest: str
    status: int
    fault: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0


class Arrivals:
    """A ring of the last `capacity` arrivals, and counts since the start or the last `clear`."""

    def __init__(self, *, capacity: int = MAX_ARRIVALS) -> None:
        self._ring: deque[Arrival] = deque(maxlen=capacity)
        self.clear()

    def clear(self) -> None:
        self._ring.clear()
        self._count = 0
        self._by_status: Counter[int] = Counter()
        self._by_fault: Counter[str] = Counter()
        self._tokens = [0, 0]

    def record(self, arrival: Arrival) -> None:
        self._ring.append(arrival)
        self._count += 1
        self._by_status[arrival.status] += 1
        if arrival.fault is not None:
            self._by_fault[arrival.fault] += 1
        self._tokens[0] += arrival.input_tokens
        self._tokens[1] += arrival.output_tokens

    def listed(self) -> dict[str, Any]:
        """The ring in order of decision, and how many older ones it no longer holds."""
        rows = [
            {
                "arrived_seconds": arrival.arrived_seconds,
                "model": arrival.model[:_MODEL_CHARACTERS],
                "key_digest": arrival.key_digest,
                "status": arrival.status,
                "fault": arrival.fault,
                "input_tokens": arrival.input_tokens,
                "output_tokens": arrival.output_tokens,
            }
            for arrival in self._ring
        ]
        return {"arrivals": rows, "dropped": self._count - len(rows)}

    def stats(self) -> dict[str, Any]:
        """Counts by status ("0": none was sent) and by fault."""
        return {
            "requests": self._count,
            "by_status": {str(status): count for status, count in sorted(self._by_status.items())},
            "by_fault": dict(sorted(self._by_fault.items())),
            "input_tokens": self._tokens[0],
            "output_tokens": self._tokens[1],
        }
