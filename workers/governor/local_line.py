"""One key in one process, for while Redis is away: its places, its debts, its two queues. No policy, no Redis."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
from collections.abc import Iterator
from typing import Final

from aiolimiter import AsyncLimiter

from workers.governor.base import CALM_SECONDS, Demand, Lane, Limits, Settlement

RESERVE: Final = 8
"""One place in eight, at least one, is left to interactive calls (as in `acquire.lua`)."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a running call took, for giving exactly that back."""

    day: int
    input_seconds: float
    output_seconds: float


class Bucket:
    """Units that are paid after the start: free again when the debts so far are paid (GCRA, as `acquire.lua`)."""

    def __init__(self) -> None:
        self.unit_seconds = 0.0
        self.paid_at = 0.0
        self._pace_seconds = 0.0
        self._pace_until = 0.0

    def keep_pace(self, unit_seconds: float, *, until: float) -> None:
        """Between units at least this long, until then: what a provider's headers asked for."""
        self._pace_seconds, self._pace_until = unit_seconds, until

    def owe(self, until: float) -> None:
        """Debts that were made elsewhere are paid then."""
        self.paid_at = max(self.paid_at, until)

    def book(self, now: float, units: int) -> float:
        """Seconds by which the debts grow."""
        unit_seconds = self.unit_seconds
        if max(self.paid_at, now) < self._pace_until:
            unit_seconds = max(unit_seconds, self._pace_seconds)
        taken = units * unit_seconds
        # Also for no units: what is settled later counts from here.
        self.paid_at = max(self.paid_at, now) + taken
        return taken

    def settle(self, taken_seconds: float, expected: int, spent: int) -> None:
        """`spent` units instead of `expected`: nothing spent gives exactly back what was taken."""
        if expected and taken_seconds:
            self.paid_at += taken_seconds * (spent - expected) / expected
        else:
            self.paid_at += spent * self.unit_seconds


class LocalLine:
    """`turn` is the queue of a lane; whoever holds it is next there. `changed` tells the two of them to look again."""

    def __init__(self) -> None:
        self.turn = {lane: asyncio.Lock() for lane in Lane}
        self.waiting = dict.fromkeys(Lane, 0)
        self.changed = asyncio.Event()
        self.running: dict[str, Taken] = {}
        self.blocked_until = 0.0
        #: Until then starts are under way that another store has granted.
        self.begins_at = 0.0
        self.limiter: AsyncLimiter | None = None
        #: Only the pace of headers; the limit itself is the limiter's.
        self.requests = Bucket()
        self.input = Bucket()
        self.output = Bucket()
        self._share: Limits | None = None
        self._cap: int | None = None
        self._cut_at = -math.inf
        self._successes = 0
        self._day = 0
        self._today = 0

    def adopt(self, share: Limits) -> None:
        """Use new limits from now on; an unchanged limiter keeps what it has counted."""
        if share == self._share:
            return
        self._share = share
        self.limiter = None
        if share.requests_per_minute is not None:
            # A bucket that holds `burst` calls and leaks at the limit: the rest is spaced evenly.
            self.limiter = AsyncLimiter(share.burst, 60 * share.burst / share.requests_per_minute)
        self.input.unit_seconds = _unit_seconds(share.input_tokens_per_minute)
        self.output.unit_seconds = _unit_seconds(share.output_tokens_per_minute)

    @property
    def places(self) -> int | None:
        """How many calls may run at once now; None for no limit."""
        configured = self._share.concurrency if self._share else None
        if configured is None or self._cap is None:
            return configured
        return min(configured, self._cap)

    def has_place(self, lane: Lane) -> bool:
        """Batch calls leave some places free, and go only when nobody waits in the interactive lane."""
        places = self.places
        if lane is Lane.BATCH:
            if self.waiting[Lane.INTERACTIVE]:
                return False
            if places is not None:
                places = max(1, places - math.ceil(places / RESERVE))
        return places is None or len(self.running) < places

    def rates_free_at(self, requests: int, input_tokens: int, output_tokens: int) -> float:
        """When blocks and debts are over for a call that needs these; the limiter is asked separately."""
        needs = ((self.requests, requests), (self.input, input_tokens), (self.output, output_tokens))
        return max(
            self.blocked_until, self.begins_at, *(bucket.paid_at for bucket, units in needs if units), 0.0
        )

    @contextlib.contextmanager
    def waiting_in(self, lane: Lane) -> Iterator[None]:
        self.waiting[lane] += 1
        try:
            yield
        finally:
            self.waiting[lane] -= 1
            self.notify()

    def notify(self) -> None:
        """Whoever is next in either lane looks again."""
        self.changed.set()
        self.changed = asyncio.Event()

    def count_of(self, day: int) -> int:
        return self._today if day == self._day else 0

    def count(self, day: int, requests: int) -> None:
        self._day, self._today = day, self.count_of(day) + requests

    def settle(self, demand: Demand, taken: Taken, settlement: Settlement) -> None:
        """A start that was not used is lost: the limiter takes none back."""
        if not settlement.is_sent:
            self.input.settle(taken.input_seconds, demand.input_tokens, 0)
            self.output.settle(taken.output_seconds, demand.output_tokens, 0)
            if self._day == taken.day:
                self._today -= 1
            return
        if settlement.spent is not None:
            self.input.settle(taken.input_seconds, demand.input_tokens, settlement.spent.input_tokens)
            self.output.settle(taken.output_seconds, demand.output_tokens, settlement.spent.output_tokens)
        if settlement.is_success and self._cap is not None:
            self._restore(self._cap)

    def cut(self, now: float) -> None:
        """Multiplicative decrease: once for everything that is refused within `CALM_SECONDS`."""
        places = self.places
        if places is not None and now - self._cut_at >= CALM_SECONDS:
            self._cap, self._cut_at, self._successes = max(1, places // 2), now, 0

    def _restore(self, cap: int) -> None:
        """Additive increase: one more place for each round of successes, until the configured ones are back."""
        self._successes += 1
        if self._successes >= cap:
            self._cap, self._successes = cap + 1, 0
            if self._share is not None and self._cap >= (self._share.concurrency or 0):
                self._cap = None


def _unit_seconds(per_minute: float | None) -> float:
    return 0.0 if per_minute is None else 60 / per_minute
