"""The store for when Redis is away: this process's share of each limit, and never more (DESIGN §4).

Nothing is reserved ahead here: `acquire` itself waits until the call may start."""

from __future__ import annotations

import asyncio
import itertools

from aiolimiter import AsyncLimiter

from workers.errors import InputError, SlotTimeoutError
from workers.governor.base import Demand, Grant, Limits


class _Line:
    """One key: `turn` is its queue, and whoever holds it is next."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self.freed = asyncio.Event()
        self.running: set[str] = set()
        self.blocked_until = 0.0
        self.share: Limits | None = None
        self.limiter: AsyncLimiter | None = None

    def adopt(self, share: Limits) -> None:
        """Use new limits from now on; an unchanged limiter keeps what it has counted."""
        if share == self.share:
            return
        self.share = share
        self.limiter = None
        if share.requests_per_minute is not None:
            # A bucket that holds `burst` calls and leaks at the limit: the rest is spaced evenly.
            self.limiter = AsyncLimiter(share.burst, 60 * share.burst / share.requests_per_minute)

    async def wait_for_place(self, places: int | None) -> None:
        while places is not None and len(self.running) >= places:
            self.freed.clear()
            await self.freed.wait()

    async def wait_out_block(self) -> None:
        while (left := self.blocked_until - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(left)


class LocalStore:
    """Slots of one process: every limit divided by `share`, the expected number of worker processes.

    At least one call may run, or a small limit shared by many would stop everybody. One event loop only."""

    def __init__(self, share: int) -> None:
        if share < 1:
            raise InputError(f"share is {share}; give the number of worker processes, 1 or more")
        self._share = share
        self._numbers = itertools.count(1)
        self._lines: dict[str, _Line] = {}

    async def acquire(self, demand: Demand, *, deadline_seconds: float) -> Grant:
        """Wait, in order of arrival, until the call may start; `wait_seconds` of the grant is 0.

        Raises: `SlotTimeoutError` after `deadline_seconds`, with nothing taken.
        """
        line = self._line(demand.key)
        share = self._share_of(demand.limits)
        try:
            async with asyncio.timeout(deadline_seconds), line.turn:
                line.adopt(share)
                await line.wait_for_place(share.concurrency)
                await line.wait_out_block()
                if line.limiter is not None:
                    await line.limiter.acquire()
                # A block may have come while the limiter made us wait.
                await line.wait_out_block()
        except TimeoutError:
            raise SlotTimeoutError(
                f"no slot on {demand.key} within {deadline_seconds:g} s "
                f"(one process's share, 1/{self._share} of the limits)",
                wait_seconds=deadline_seconds,
            ) from None
        lease_id = f"local:{next(self._numbers)}"
        line.running.add(lease_id)
        return Grant(lease_id=lease_id, wait_seconds=0.0)

    async def release(self, demand: Demand, grant: Grant) -> None:
        """Give the slot back. Safe to repeat."""
        line = self._line(demand.key)
        line.running.discard(grant.lease_id)
        line.freed.set()

    async def block(self, key: str, seconds: float) -> None:
        """Nobody of this process may start on `key` for that long. Never shortens a block that stands."""
        line = self._line(key)
        line.blocked_until = max(line.blocked_until, asyncio.get_running_loop().time() + seconds)

    def paused_seconds(self, key: str) -> float:  # noqa: ARG002
        """Always 0: no start is reserved ahead, so none has to be put off."""
        return 0.0

    def _line(self, key: str) -> _Line:
        return self._lines.setdefault(key, _Line())

    def _share_of(self, limits: Limits) -> Limits:
        rate, places = limits.requests_per_minute, limits.concurrency
        return Limits(
            requests_per_minute=None if rate is None else rate / self._share,
            concurrency=None if places is None else max(1, places // self._share),
            burst=max(1, limits.burst // self._share),
        )
