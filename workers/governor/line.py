"""One process's side of one key: who waits here, what is held here, and when it is worth asking again.

No I/O. Everything belongs to one event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import Final

from workers.errors import StoreLostError
from workers.governor.base import BATCH_HORIZON_SECONDS, Lane
from workers.governor.wire import MICROSECONDS, Answer, Arguments, Taken

SHORTEST_ASK_SECONDS: Final = 0.004
"""How long this process's first waiter waits before it asks again: at least this for each place up to its own,"""
ASK_SHARE_OF_STANDSTILL: Final = 1 / 8
"""and an eighth of the time in which the line has not moved, so that at most an eighth is lost;"""
LONGEST_ASK_SECONDS: Final = 0.25
"""but not longer than this, or than the rates alone make it wait."""


class Queue:
    """The waiters of one lane. `front` is held by the one that asks for all of this process."""

    def __init__(self) -> None:
        self.front = asyncio.Lock()
        self.freed = asyncio.Event()
        self.waiting: set[str] = set()

    async def wait(self, seconds: float, give_up_at: float) -> None:
        """Until a place is given back here, or `seconds` have passed. Raises: TimeoutError at `give_up_at`."""
        loop = asyncio.get_running_loop()
        if loop.time() >= give_up_at:
            raise TimeoutError
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout_at(min(loop.time() + seconds, give_up_at)):
                await self.freed.wait()
        self.freed.clear()


class Line:
    """What this process knows and says about one key.

    `talking` lets one question out at a time, so that tickets are drawn in the order of the calls; whoever
    queued behind a question that failed shares its failure instead of waiting for another (`losses`).
    `taken` is what each granted ticket took, `given` what was granted to waiters that still have to hear of it,
    `leases` the tickets that must be renewed, `ended` what the store has not yet heard of."""

    def __init__(self) -> None:
        self.talking = asyncio.Lock()
        self.losses = 0
        self.queues = {lane: Queue() for lane in Lane}
        self.taken: dict[str, Taken] = {}
        self.given: dict[str, Answer] = {}
        self.leases: set[str] = set()
        self.ended: dict[str, Arguments] = {}
        self.places = 0
        self.paused_us = 0

    @property
    def waiting(self) -> list[str]:
        return [ticket for queue in self.queues.values() for ticket in queue.waiting]

    @property
    def is_busy(self) -> bool:
        return bool(self.leases or self.ended or self.waiting)

    def raise_if_lost(self, losses: int) -> None:
        """Raises: `StoreLostError` if the store failed to answer anybody since `losses` was read."""
        if self.losses != losses:
            raise StoreLostError("Redis did not answer another question about this key")

    def note_loss(self) -> None:
        self.losses += 1
        for queue in self.queues.values():
            queue.freed.set()

    def note(self, ticket: str, answer: Answer) -> None:
        """What the store said of a ticket."""
        self.paused_us = answer.paused_us
        if answer.taken is not None:
            self.taken[ticket] = answer.taken

    def give(self, granted: Mapping[str, Answer]) -> None:
        """Hand grants to their waiters; each lane's first one wakes up and passes the front on."""
        for ticket, answer in granted.items():
            self.note(ticket, answer)
            self.given[ticket] = answer
            for queue in self.queues.values():
                if ticket in queue.waiting:
                    queue.freed.set()

    def wake_next(self) -> None:
        """A place is free: the first interactive waiter here asks for it, else the first batch one."""
        for lane in Lane:
            if self.queues[lane].waiting:
                self.queues[lane].freed.set()
                return


def ask_again_seconds(lane: Lane, last: Answer, standstill_seconds: float) -> float:
    """How long to wait before asking again.

    A batch call is granted no sooner than its horizon before its start; an interactive one that has to wait for
    a place asks not before half of what the rates make it wait anyway."""
    shortest = SHORTEST_ASK_SECONDS * (last.ahead + 1)
    patience = min(max(shortest, standstill_seconds * ASK_SHARE_OF_STANDSTILL), LONGEST_ASK_SECONDS)
    by_rate = last.wait_us / MICROSECONDS
    return max(patience, by_rate - BATCH_HORIZON_SECONDS if lane is Lane.BATCH else by_rate / 2)
