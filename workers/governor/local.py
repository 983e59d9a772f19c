"""The store for when Redis is away: this process's share of each limit, and never more (DESIGN §4).

Nothing is reserved ahead here: `acquire` itself waits until the call may start."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections.abc import Callable
from typing import Final

from workers.errors import InputError, SlotTimeoutError
from workers.governor.base import Debts, Demand, Grant, Lane, Limits, Settlement, Signal, Snapshot
from workers.governor.local_line import LocalLine, Taken

_DAY_SECONDS: Final = 86_400


class LocalStore:
    """Slots of one process: every limit divided by `share`, the expected number of worker processes.

    At least one call may run and one may start each day, or a small limit shared by many would stop everybody.
    `wall_clock` (seconds since 1970) tells the UTC day. One event loop only."""

    def __init__(self, share: int, *, wall_clock: Callable[[], float] = time.time) -> None:
        if share < 1:
            raise InputError(f"share is {share}; give the number of worker processes, 1 or more")
        self._share = share
        self._wall_clock = wall_clock
        self._numbers = itertools.count(1)
        self._lines: dict[str, LocalLine] = {}

    async def acquire(self, demand: Demand, *, deadline_seconds: float) -> Grant:
        """Wait, in order of arrival within the lane, until the call may start; `wait_seconds` of the grant is 0.

        Raises: `SlotTimeoutError` after `deadline_seconds`, or as soon as it is certain, with nothing taken but
        perhaps a start.
        """
        line, share = self._line(demand.key), self._share_of(demand.limits)
        give_up_at = asyncio.get_running_loop().time() + deadline_seconds
        try:
            async with asyncio.timeout_at(give_up_at):
                with line.waiting_in(demand.lane):
                    async with line.turn[demand.lane]:
                        line.adopt(share)
                        taken = await self._start(line, demand, give_up_at)
        except TimeoutError:
            raise SlotTimeoutError(
                f"no slot on {demand.key} within {deadline_seconds:g} s {self._of_the_share()}",
                wait_seconds=deadline_seconds,
            ) from None
        lease_id = f"local:{next(self._numbers)}"
        line.running[lease_id] = taken
        return Grant(lease_id=lease_id, wait_seconds=0.0)

    async def release(self, demand: Demand, grant: Grant, settlement: Settlement) -> None:
        """Give the slot back and settle its tokens and, if nothing was sent, the day's count. Safe to repeat."""
        line = self._line(demand.key)
        taken = line.running.pop(grant.lease_id, None)
        if taken is not None:
            line.settle(demand, taken, settlement)
            line.notify()

    async def hear(self, key: str, limits: Limits, signal: Signal) -> None:
        """A block never shortens one that stands; what is left of a pace is shared with the other processes."""
        line, now = self._line(key), asyncio.get_running_loop().time()
        line.blocked_until = max(line.blocked_until, now + signal.block_seconds)
        if signal.is_overload:
            line.adopt(self._share_of(limits))
            line.cut(now)
        paces = (signal.requests, signal.input_tokens, signal.output_tokens)
        for bucket, pace in zip((line.requests, line.input, line.output), paces, strict=True):
            if pace is not None:
                bucket.keep_pace(pace.unit_seconds * self._share, until=now + pace.seconds)
        line.notify()

    def paused_seconds(self, key: str) -> float:  # noqa: ARG002
        """Always 0: no start is reserved ahead, so none has to be put off."""
        return 0.0

    def debts(self, key: str, limits: Limits) -> Debts:
        """As if every process had just taken a start of its share: those that did so may not ask again."""
        line, now = self._line(key), asyncio.get_running_loop().time()
        interval = 60 * self._share / limits.requests_per_minute if limits.requests_per_minute else 0.0
        return Debts(
            requests_seconds=max(interval, line.blocked_until - now, line.requests.paid_at - now),
            input_seconds=max(0.0, line.input.paid_at - now),
            output_seconds=max(0.0, line.output.paid_at - now),
        )

    def assume(self, key: str, limits: Limits, debts: Debts) -> None:
        """The shares of all processes begin when everything that was granted to any of them is paid: one start
        each, an interval of the share less one of the whole after that, or they would come on top."""
        line, now = self._line(key), asyncio.get_running_loop().time()
        apart = 0.0
        if limits.requests_per_minute is not None:
            apart = (self._share - 1) * 60 / limits.requests_per_minute
        line.begins_at = max(line.begins_at, now + debts.requests_seconds + apart)
        line.input.owe(now + debts.input_seconds)
        line.output.owe(now + debts.output_seconds)

    async def snapshot(self, key: str, limits: Limits) -> Snapshot:
        """This process's numbers, beside its share of the limits."""
        line, share = self._line(key), self._share_of(limits)
        line.adopt(share)
        now = asyncio.get_running_loop().time()
        today = line.count_of(self._day())
        return Snapshot(
            is_shared=False,
            running=len(line.running),
            waiting_interactive=line.waiting[Lane.INTERACTIVE],
            waiting_batch=line.waiting[Lane.BATCH],
            blocked_seconds=max(0.0, line.blocked_until - now),
            next_start_seconds=max(0.0, line.rates_free_at(1, 1, 1) - now),
            concurrency=share.concurrency,
            adaptive_concurrency=line.places,
            requests_today=today,
            requests_remaining=None
            if share.requests_per_day is None
            else max(0, share.requests_per_day - today),
        )

    async def _start(self, line: LocalLine, demand: Demand, give_up_at: float) -> Taken:
        """Everything is free, and then taken without a pause in between."""
        await self._until_free(line, demand, give_up_at)
        if line.limiter is not None:
            await line.limiter.acquire()
            # A block may have come, or a place gone, while the limiter made us wait.
            await self._until_free(line, demand, give_up_at)
        day = self._day()
        line.count(day, 1)
        now = asyncio.get_running_loop().time()
        line.requests.book(now, 1)
        return Taken(
            day=day,
            input_seconds=line.input.book(now, demand.input_tokens),
            output_seconds=line.output.book(now, demand.output_tokens),
        )

    async def _until_free(self, line: LocalLine, demand: Demand, give_up_at: float) -> None:
        loop = asyncio.get_running_loop()
        while True:
            changed = line.changed
            if not line.has_place(demand.lane):
                await changed.wait()
                continue
            self._refuse_beyond_the_day(line, demand)
            free_at = line.rates_free_at(1, demand.input_tokens, demand.output_tokens)
            left = free_at - loop.time()
            if left <= 0:
                return
            if free_at > give_up_at:
                raise SlotTimeoutError(
                    f"the next free start on {demand.key} is {left:.1f} s away, "
                    f"later than this caller can wait {self._of_the_share()}",
                    wait_seconds=left,
                )
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(free_at):
                    await changed.wait()

    def _refuse_beyond_the_day(self, line: LocalLine, demand: Demand) -> None:
        share = self._share_of(demand.limits)
        day = self._day()
        if share.requests_per_day is not None and line.count_of(day) >= share.requests_per_day:
            left = (day + 1) * _DAY_SECONDS - self._wall_clock()
            raise SlotTimeoutError(
                f"the requests of this day on {demand.key} are used up {self._of_the_share()}; "
                f"the next day (UTC) begins in {left:.0f} s",
                wait_seconds=left,
            )

    def _day(self) -> int:
        return int(self._wall_clock() // _DAY_SECONDS)

    def _line(self, key: str) -> LocalLine:
        return self._lines.setdefault(key, LocalLine())

    def _share_of(self, limits: Limits) -> Limits:
        return Limits(
            requests_per_minute=_divided(limits.requests_per_minute, self._share),
            input_tokens_per_minute=_divided(limits.input_tokens_per_minute, self._share),
            output_tokens_per_minute=_divided(limits.output_tokens_per_minute, self._share),
            requests_per_day=_whole(limits.requests_per_day, self._share),
            concurrency=_whole(limits.concurrency, self._share),
            burst=max(1, limits.burst // self._share),
        )

    def _of_the_share(self) -> str:
        return f"(one process's share, 1/{self._share} of the limits)"


def _divided(rate: float | None, share: int) -> float | None:
    return None if rate is None else rate / share


def _whole(count: int | None, share: int) -> int | None:
    return None if count is None else max(1, count // share)
