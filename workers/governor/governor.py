"""The governor: what to ask of the stores, and what to do when the shared one is away (DESIGN §4).

It knows no Redis. The shared store is authoritative; while it is lost, this process keeps to its local share,
and asks the shared one again every `probe_after_seconds`.

At both switches, and whenever a start comes later than it was reserved, the rule is: rather a share unused than a
limit exceeded."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import structlog

from workers import metrics
from workers.errors import SlotTimeoutError, StoreLostError
from workers.governor.base import (
    Demand,
    GovernorStore,
    Grant,
    Headroom,
    Lane,
    Limits,
    Settlement,
    Signal,
    Snapshot,
)
from workers.governor.pacing import ARRIVAL_JITTER_SECONDS, binds, bounded_block, paced, signal_of
from workers.governor.slot import Slot

_log = structlog.get_logger()


class Governor:
    """Hands out slots of every key. `limits(key)` is asked each time, so limits may change at any time; they are
    what the provider publishes, and starts are spaced so that its arrivals keep to them (`pacing.py`).

    `clock` (seconds, any origin) and `sleep` belong together. One event loop only."""

    def __init__(
        self,
        shared: GovernorStore,
        local: GovernorStore,
        limits: Callable[[str], Limits],
        *,
        probe_after_seconds: float = 2.0,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._shared = shared
        self._local = local
        self._limits = limits
        self._probe_after_seconds = probe_after_seconds
        self._clock = clock
        self._sleep = sleep
        self._probe_at: float | None = None
        self._slowed: set[str] = set()
        self._returns: set[asyncio.Task[None]] = set()
        self._outages = 0
        self._losses = 0
        #: By key: the outage for which the share knows what was granted before, the loss after which the shared
        #: store has been told what the share granted.
        self._began: dict[str, int] = {}
        self._told: dict[str, int] = {}
        #: In order of arrival: who is moved to the shared store when it is back.
        self._waiting_here: dict[asyncio.Task[Grant], None] = {}
        self._prober: asyncio.Task[None] | None = None

    @contextlib.asynccontextmanager
    async def slot(
        self,
        key: str,
        *,
        lane: Lane = Lane.INTERACTIVE,
        input_tokens: int = 0,
        output_tokens: int = 0,
        deadline_seconds: float = 20.0,
    ) -> AsyncIterator[Slot]:
        """Wait for a slot on `key`, hold it for the body, give it back and settle it however the body ends.

        The tokens are what the call is expected to use; `Slot.settle` says what it used.
        Raises: `SlotTimeoutError` if the body could not start within `deadline_seconds`; its
        `wait_seconds` says when asking again makes sense.
        """
        demand = Demand(
            key=key,
            limits=paced(self._limits(key)),
            lane=lane,
            input_tokens=input_tokens,
            output_tokens=output_tokens,
        )
        asked_at = self._clock()
        give_up_at = asked_at + deadline_seconds
        store, grant = await self._start(demand, give_up_at)
        settlement = Settlement(is_sent=False)
        try:
            slot, ended_well = Slot(self._clock() - asked_at), False
            try:
                yield slot
                ended_well = True
            finally:
                settlement = slot.settlement(ended_well=ended_well)
        finally:
            await self._give_back(store, demand, grant, settlement)

    async def block(self, key: str, seconds: float) -> None:
        """Nobody may start on `key` for that long. Never raises, and never shortens a block that stands."""
        await self._hear(key, Signal(block_seconds=bounded_block(seconds)))

    async def rate_limited(self, key: str, seconds: float) -> None:
        """A 429 that asks for `seconds`: nobody starts before, and fewer run at once afterwards. Never raises."""
        await self._hear(key, Signal(block_seconds=bounded_block(seconds), is_overload=True))

    async def overloaded(self, key: str) -> None:
        """A 503 or 529: half as many calls at once, restored one by one as calls succeed. Never raises."""
        await self._hear(key, Signal(is_overload=True))

    async def observe(self, key: str, headroom: Headroom) -> None:
        """What the headers of any answer said: nothing left blocks until the reset, little left is spread over
        the time until then, for every process. Never raises."""
        signal = signal_of(headroom)
        is_tight = binds(signal, self._limits(key))
        # Plenty left is no news, unless this process said otherwise before.
        if is_tight or key in self._slowed:
            await self._hear(key, signal)
        if is_tight:
            self._slowed.add(key)
        else:
            self._slowed.discard(key)

    async def snapshot(self, key: str) -> Snapshot:
        """How `key` stands for everybody, or for this process while the shared store is lost. Never raises."""
        limits = self._limits(key)
        if self._may_ask_shared():
            try:
                snapshot = await self._shared.snapshot(key, limits)
            except StoreLostError as error:
                self._note_lost(error)
            else:
                self._note_back()
                return snapshot
        return await self._local.snapshot(key, limits)

    async def _hear(self, key: str, signal: Signal) -> None:
        limits = self._limits(key)
        # The local store hears it too: it must not forget when Redis is lost meanwhile.
        await self._local.hear(key, limits, signal)
        if self._may_ask_shared():
            try:
                await self._shared.hear(key, limits, signal)
            except StoreLostError as error:
                self._note_lost(error)
            else:
                self._note_back()

    async def _start(self, demand: Demand, give_up_at: float) -> tuple[GovernorStore, Grant]:
        """Ask until a start comes in time. One that comes late (this process was stopped, or busy) counts among
        the starts of now, where others have theirs: it is given back. The deadline bounds the repetitions."""
        while True:
            store, grant = await self._acquire(demand, give_up_at)
            is_used = False
            try:
                late_seconds = await self._wait_for_start(store, demand, grant, give_up_at)
                is_used = late_seconds <= ARRIVAL_JITTER_SECONDS or demand.limits.requests_per_minute is None
            finally:
                if not is_used:
                    await self._give_back(store, demand, grant, Settlement(is_sent=False))
            if is_used:
                return store, grant
            _log.info("governor.start_missed", key=demand.key, late_seconds=round(late_seconds, 3))

    async def _acquire(self, demand: Demand, give_up_at: float) -> tuple[GovernorStore, Grant]:
        # Even without limits: a block that another process heard holds here too.
        while True:
            if (grant := await self._acquire_shared(demand, give_up_at)) is not None:
                return self._shared, grant
            if (grant := await self._acquire_locally(demand, give_up_at)) is not None:
                return self._local, grant

    async def _acquire_shared(self, demand: Demand, give_up_at: float) -> Grant | None:
        """None while the store is lost."""
        if self._may_ask_shared():
            self._tell_what_was_granted_here(demand)
            try:
                grant = await self._shared.acquire(demand, deadline_seconds=self._left(give_up_at))
            except StoreLostError as error:
                self._note_lost(error)
            except SlotTimeoutError:
                self._note_back()
                raise
            else:
                self._note_back()
                return grant
        return None

    async def _acquire_locally(self, demand: Demand, give_up_at: float) -> Grant | None:
        """None if the shared store is back before the share had a start for this caller."""
        if self._began.get(demand.key) != self._outages:
            self._local.assume(demand.key, demand.limits, self._shared.debts(demand.key, demand.limits))
            self._began[demand.key] = self._outages
        waiting = asyncio.ensure_future(self._local.acquire(demand, deadline_seconds=self._left(give_up_at)))
        self._waiting_here[waiting] = None
        if self._prober is None:
            self._prober = asyncio.create_task(self._probe_for_waiters(demand))
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            caller = asyncio.current_task()
            if caller is None or not caller.cancelling():
                return None
            waiting.cancel()
            await asyncio.wait([waiting])
            if not waiting.cancelled() and waiting.exception() is None:
                await self._give_back(self._local, demand, waiting.result(), Settlement(is_sent=False))
            raise
        finally:
            del self._waiting_here[waiting]
            if not self._waiting_here and self._prober is not None:
                self._prober.cancel()
                self._prober = None

    async def _probe_for_waiters(self, demand: Demand) -> None:
        """Whoever waits for the share asks nobody else; without this it would stay there after the outage.
        The last one that leaves ends it."""
        while True:
            due_seconds = self._probe_after_seconds if self._probe_at is None else self._left(self._probe_at)
            await self._sleep(due_seconds)
            if self._probe_at is not None and self._may_ask_shared():
                try:
                    await self._shared.snapshot(demand.key, demand.limits)
                except StoreLostError as error:
                    self._note_lost(error)
                else:
                    self._note_back()

    def _tell_what_was_granted_here(self, demand: Demand) -> None:
        """Other processes may find out one probe later: until then their shares go on, and nothing is added."""
        if self._told.get(demand.key, 0) != self._losses:
            owed = self._local.debts(demand.key, demand.limits)
            requests_seconds = owed.requests_seconds + self._probe_after_seconds
            debts = dataclasses.replace(owed, requests_seconds=requests_seconds)
            self._shared.assume(demand.key, demand.limits, debts)
            self._told[demand.key] = self._losses

    async def _wait_for_start(
        self, store: GovernorStore, demand: Demand, grant: Grant, give_up_at: float
    ) -> float:
        """Seconds by which the start comes late."""
        start_at = self._clock() + grant.wait_seconds
        while True:
            put_off = max(0.0, store.paused_seconds(demand.key) - grant.paused_seconds)
            left = start_at + put_off - self._clock()
            if left <= 0:
                return -left
            if put_off and start_at + put_off > give_up_at:
                raise SlotTimeoutError(
                    f"{demand.key} was blocked while this caller waited; its start is {left:.1f} s away, "
                    "later than it can wait",
                    wait_seconds=left,
                )
            await self._sleep(left)

    async def _give_back(
        self, store: GovernorStore, demand: Demand, grant: Grant, settlement: Settlement
    ) -> None:
        """Release even if this caller is cancelled (once more) meanwhile."""
        release = asyncio.ensure_future(store.release(demand, grant, settlement))
        self._returns.add(release)
        release.add_done_callback(self._returns.discard)
        try:
            await asyncio.shield(release)
        except StoreLostError as error:
            self._note_lost(error)

    def _left(self, give_up_at: float) -> float:
        return max(0.0, give_up_at - self._clock())

    def _may_ask_shared(self) -> bool:
        """While the store is lost, one caller per `probe_after_seconds` finds out whether it is back."""
        if self._probe_at is None:
            return True
        if self._clock() < self._probe_at:
            return False
        self._probe_at = self._clock() + self._probe_after_seconds
        return True

    def _note_lost(self, error: StoreLostError) -> None:
        if self._probe_at is None:
            _log.warning("governor.shared_store_lost", reason=str(error), now="this process's share")
            self._outages += 1
            metrics.GOVERNOR_ALONE.set(1)
        self._losses += 1
        self._probe_at = self._clock() + self._probe_after_seconds

    def _note_back(self) -> None:
        if self._probe_at is not None:
            _log.info("governor.shared_store_back")
            metrics.GOVERNOR_ALONE.set(0)
        self._probe_at = None
        for waiting in self._waiting_here:
            waiting.cancel()
