"""The contract of the governor (DESIGN §4): one shared limiter for every worker.

A caller asks for a slot, waits until its turn, makes one call and settles. Slots are handed out in order of
arrival. Policy (what to ask for, what to do when the store is away) is in `governor.py` and knows no Redis;
stores (`redis.py`, `local.py`) hold the arithmetic and know no policy."""

from __future__ import annotations

import dataclasses
from typing import Protocol


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one provider allows. None means no limit of that kind.

    `burst` is how many requests may start at once after a quiet time; the rest are spaced evenly."""

    requests_per_minute: float | None = None
    concurrency: int | None = None
    burst: int = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One call's claim on a provider. `key` names the bucket (provider today; provider, key and model family
    once limits differ by them). `input_tokens`/`output_tokens` are estimates, settled afterwards."""

    key: str
    limits: Limits
    input_tokens: int = 0
    output_tokens: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A reserved slot: start `wait_seconds` from now; give `lease_id` back when the call has ended."""

    lease_id: str
    wait_seconds: float


class GovernorStore(Protocol):
    """Where slots are kept. Implementations: Redis (shared), aiolimiter (this process only)."""

    async def acquire(self, demand: Demand, *, deadline_seconds: float) -> Grant:
        """Wait for a place among the running calls, in order of arrival, and reserve a start time.

        Raises: `SlotTimeoutError` if that would take longer than `deadline_seconds`;
        `StoreLostError` if the store does not answer.
        """
        ...

    async def release(self, demand: Demand, grant: Grant) -> None:
        """Give the slot back. Safe to repeat; never raises for a lease that has ended."""
        ...

    async def block(self, key: str, seconds: float) -> None:
        """Nobody may start on `key` for that long: a 429 seen by one is heard by all."""
        ...
