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
from workers.governor.base import Demand, GovernorStore, Grant, Limits

_log = structlog.get_logger()


class Governor:
    """Hands out slots of every provider. `limits(key)` is asked each time, so limits may change at any time.

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
        self._returns: set[asyncio.Task[None]] = set()

    @contextlib.asynccontextmanager
    async def slot(
        self, key: str, *, input_tokens: int = 0, output_tokens: int = 0, deadline_seconds: float = 20.0
    ) -> AsyncIterator[None]:
        """Wait for a slot on `key`, hold it for the body, give it back however the body ends.

        Raises: `SlotTimeoutError` if the body could not start within `deadline_seconds`; its
        `wait_seconds` says when asking again makes sense.
        """
        demand = Demand(
            key=key, limits=self._limits(key), input_tokens=input_tokens, output_tokens=output_tokens
        )
        give_up_at = self._clock() + deadline_seconds
        store, grant = await self._acquire(demand, give_up_at)
        try:
            await self._wait_for_start(store, demand, grant, give_up_at)
            yield
        finally:
            await self._give_back(store, demand, grant)

    async def block(self, key: str, seconds: float) -> None:
        """Nobody may start on `key` for that long: call it with the Retry-After of a 429. Never raises."""
        # The local store hears it too: it must not forget when Redis is lost meanwhile.
        await self._local.block(key, seconds)
        if _has_limit(self._limits(key)) and self._may_ask_shared():
            try:
                await self._shared.block(key, seconds)
            except StoreLostError as error:
                self._note_lost(error)
            else:
                self._note_back()

    async def _acquire(self, demand: Demand, give_up_at: float) -> tuple[GovernorStore, Grant]:
        if _has_limit(demand.limits) and self._may_ask_shared():
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

    async def _give_back(self, store: GovernorStore, demand: Demand, grant: Grant) -> None:
        """Release even if this caller is cancelled (once more) meanwhile."""
        release = asyncio.ensure_future(store.release(demand, grant))
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


def _has_limit(limits: Limits) -> bool:
    return limits.requests_per_minute is not None or limits.concurrency is not None
