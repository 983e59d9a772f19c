"""The contract of the governor (DESIGN §4): one shared limiter for every worker.

A caller asks for a slot, waits until its turn, makes one call and settles. Slots are handed out in order of
arrival. Policy (what to ask for, what to do when the store is away) is in `governor.py` and knows no Redis;
stores (`redis.py`, `local.py`) hold the arithmetic and know no policy."""

from __future__ import annotations

import dataclasses
import math
from typing import Protocol

from workers.errors import InputError


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one provider allows. None means no limit of that kind.

    `burst` is how many requests may start at once after a quiet time; the rest are spaced evenly."""

    requests_per_minute: float | None = None
    concurrency: int | None = None
    burst: int = 1

    def __post_init__(self) -> None:
        """Raises: `InputError` for a limit that would let nobody through."""
        if self.requests_per_minute is not None and not 0 < self.requests_per_minute < math.inf:
            raise InputError(
                f"requests_per_minute is {self.requests_per_minute}; give a number above 0, or none at all"
            )
        if self.concurrency is not None and self.concurrency < 1:
            raise InputError(f"concurrency is {self.concurrency}; give 1 or more, or none at all")
        if self.burst < 1:
            raise InputError(f"burst is {self.burst}; give 1 (evenly spaced) or more")


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
    """A reserved slot: start `wait_seconds` from now; give `lease_id` back when the call has ended.

    `paused_seconds` is what the store's `paused_seconds(key)` said when this start was reserved: whatever has
    been added since, the start is put off by."""

    lease_id: str
    wait_seconds: float
    paused_seconds: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """What the rate-limit headers of one answer said is left, and in how many seconds it is refilled.

    None: not said. Tokens without a side count as input, for that is where a long prompt is felt."""

    requests_remaining: int | None = None
    requests_reset_seconds: float | None = None
    input_tokens_remaining: int | None = None
    input_tokens_reset_seconds: float | None = None
    output_tokens_remaining: int | None = None
    output_tokens_reset_seconds: float | None = None


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

    def paused_seconds(self, key: str) -> float:
        """By how much blocks have put off every reserved start on `key` in total, as last heard (no I/O)."""
        ...
