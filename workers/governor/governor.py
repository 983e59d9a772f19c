"""The governor: what to ask of the stores, and what to do when the shared one is away (DESIGN §4).

It knows no Redis. The shared store is authoritative; while it is lost, this process keeps to its local share,
and asks the shared one again every `probe_after_seconds`."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable

import structlog

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
from workers.governor.pacing import binds, bounded_block, paced, signal_of
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
        store, grant = await self._acquire(demand, give_up_at)
        settlement = Settlement(is_sent=False)
        try:
            await self._wait_for_start(store, demand, grant, give_up_at)
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

    async def _acquire(self, demand: Demand, give_up_at: float) -> tuple[GovernorStore, Grant]:
        # Even without limits: a block that another process heard holds here too.
        if self._may_ask_shared():
            try:
                grant = await self._shared.acquire(demand, deadline_seconds=self._left(give_up_at))
            except StoreLostError as error:
                self._note_lost(error)
            except SlotTimeoutError:
                self._note_back()
                raise
            else:
                self._note_back()
                return self._shared, grant
        return self._local, await self._local.acquire(demand, deadline_seconds=self._left(give_up_at))

    async def _wait_for_start(
        self, store: GovernorStore, demand: Demand, grant: Grant, give_up_at: float
    ) -> None:
        start_at = self._clock() + grant.wait_seconds
        while True:
            put_off = max(0.0, store.paused_seconds(demand.key) - grant.paused_seconds)
            left = start_at + put_off - self._clock()
            if left <= 0:
                return
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
        self._probe_at = self._clock() + self._probe_after_seconds

    def _note_back(self) -> None:
        if self._probe_at is not None:
            _log.info("governor.shared_store_back")
        self._probe_at = None
