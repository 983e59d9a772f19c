"""The contract of the governor (DESIGN §4): one shared limiter for every worker.

A caller asks for a slot, waits until its turn, makes one call and settles. Slots are handed out in order of
arrival within each lane. Policy (what to ask for, what to do when the store is away) is in `governor.py` and
knows no Redis; stores (`redis.py`, `local.py`) hold the arithmetic and know no policy."""

from __future__ import annotations

import dataclasses
import enum
import math
from typing import Final, Protocol

from workers.errors import InputError

BATCH_HORIZON_SECONDS: Final = 1.0
"""How far ahead a batch call may book. An interactive call waits behind at most this much batch work and one call."""
CALM_SECONDS: Final = 2.0
"""Refusals that come within this time of a cut answer the same overload and cut no further."""


class Lane(enum.StrEnum):
    """Two lines before one provider: people wait in one, big batches in the other."""

    INTERACTIVE = "interactive"
    BATCH = "batch"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one provider allows one key and model family. None means no limit of that kind.

    `burst` is how many requests may start at once after a quiet time; the rest are spaced evenly. Tokens are
    paid after the start: a call starts as soon as the tokens of those before it are paid, however big it is."""

    requests_per_minute: float | None = None
    input_tokens_per_minute: float | None = None
    output_tokens_per_minute: float | None = None
    requests_per_day: int | None = None
    concurrency: int | None = None
    burst: int = 1

    def __post_init__(self) -> None:
        """Raises: `InputError` for a limit that would let nobody through."""
        for name in ("requests_per_minute", "input_tokens_per_minute", "output_tokens_per_minute"):
            rate = getattr(self, name)
            if rate is not None and not 0 < rate < math.inf:
                raise InputError(f"{name} is {rate}; give a number above 0, or none at all")
        for name in ("requests_per_day", "concurrency"):
            count = getattr(self, name)
            if count is not None and count < 1:
                raise InputError(f"{name} is {count}; give 1 or more, or none at all")
        if self.burst < 1:
            raise InputError(f"burst is {self.burst}; give 1 (evenly spaced) or more")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """Tokens of one call, as expected or as billed. Input includes what came from a cache only if that counts
    toward the provider's limit."""

    input_tokens: int = 0
    output_tokens: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """One call's claim on a provider. `key` names the bucket: provider, API key and model family.
    `input_tokens` and `output_tokens` are estimates, settled afterwards."""

    key: str
    limits: Limits
    lane: Lane = Lane.INTERACTIVE
    input_tokens: int = 0
    output_tokens: int = 0

    def __post_init__(self) -> None:
        """Raises: `InputError` for fewer than no tokens."""
        if self.input_tokens < 0 or self.output_tokens < 0:
            raise InputError(
                f"{self.input_tokens} input and {self.output_tokens} output tokens are expected; give 0 or more"
            )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """A reserved slot: start `wait_seconds` from now; give `lease_id` back when the call has ended.

    `paused_seconds` is what the store's `paused_seconds(key)` said when this start was reserved: whatever has
    been added since, the start is put off by. A negative wait: the start has gone by before it was heard of."""

    lease_id: str
    wait_seconds: float
    paused_seconds: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Debts:
    """For how many seconds from now what has been granted on a key still counts, per dimension."""

    requests_seconds: float = 0.0
    input_seconds: float = 0.0
    output_seconds: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Settlement:
    """How a call ended. `spent` None: as estimated. Not `is_sent`: it reached nobody, everything it took comes
    back. `is_success`: the provider served it, which restores adaptive concurrency."""

    spent: Spent | None = None
    is_sent: bool = True
    is_success: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Headroom:
    """What the rate-limit headers of one answer said is left, and for how long. None: it did not say.

    "Tokens" headers that name no side count as input."""

    requests_remaining: int | None = None
    requests_reset_seconds: float | None = None
    input_tokens_remaining: int | None = None
    input_tokens_reset_seconds: float | None = None
    output_tokens_remaining: int | None = None
    output_tokens_reset_seconds: float | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """Keep `unit_seconds` between units (requests or tokens) for the next `seconds`."""

    unit_seconds: float
    seconds: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """What a provider's answer means for everybody: no starts for `block_seconds`, half the adaptive
    concurrency (`is_overload`), a slower pace per dimension."""

    block_seconds: float = 0.0
    is_overload: bool = False
    requests: Pace | None = None
    input_tokens: Pace | None = None
    output_tokens: Pace | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One key as an operator sees it. `is_shared` False: Redis is away, and these are this process's numbers.

    `running` counts calls that hold a lease; a key that limits nothing but requests a minute gives none.
    `next_start_seconds`: how long a caller that comes now would wait for the rates alone.
    `requests_remaining`: today (UTC); None without a daily limit."""

    is_shared: bool
    running: int
    waiting_interactive: int
    waiting_batch: int
    blocked_seconds: float
    next_start_seconds: float
    concurrency: int | None
    adaptive_concurrency: int | None
    requests_today: int
    requests_remaining: int | None


class GovernorStore(Protocol):
    """Where slots are kept. Implementations: Redis (shared), and this process's share of it."""

    async def acquire(self, demand: Demand, *, deadline_seconds: float) -> Grant:
        """Wait for a place in the demand's lane, in order of arrival, and reserve a start time.

        Requests, tokens, the day's count and the place are taken together or not at all.
        Raises: `SlotTimeoutError` if that would take longer than `deadline_seconds`;
        `StoreLostError` if the store does not answer.
        """
        ...

    async def release(self, demand: Demand, grant: Grant, settlement: Settlement) -> None:
        """Give the slot back and settle it. Safe to repeat; never raises for a lease that has ended."""
        ...

    async def hear(self, key: str, limits: Limits, signal: Signal) -> None:
        """Take account of what a provider said: one caller hears it for all. Never shortens a block that stands."""
        ...

    def paused_seconds(self, key: str) -> float:
        """By how much blocks have put off every reserved start on `key` in total, as last heard (no I/O)."""
        ...

    def debts(self, key: str, limits: Limits) -> Debts:
        """What all starts that this store has granted on `key` leave to be paid, as far as is known here (no I/O)."""
        ...

    def assume(self, key: str, limits: Limits, debts: Debts) -> None:
        """The other store has granted so much: grant nothing that comes on top of it (no I/O). Never less than
        what is owed here already."""
        ...

    async def snapshot(self, key: str, limits: Limits) -> Snapshot:
        """How the key stands now. Raises: `StoreLostError`."""
        ...
