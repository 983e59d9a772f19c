"""One process's side of one key: who waits here, what is held here, and when it is worth asking again.

No I/O. Everything belongs to one event loop."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import math
from collections.abc import Mapping
from typing import Final

from workers.errors import StoreLostError
from workers.governor.base import BATCH_HORIZON_SECONDS, Debts, Lane
from workers.governor.wire import MICROSECONDS, Answer, Arguments, Taken, unwanted_arguments

SHORTEST_ASK_SECONDS: Final = 0.004
"""How long this process's first waiter waits before it asks again: at least this for each place up to its own,"""
ASK_SHARE_OF_STANDSTILL: Final = 1 / 8
"""and an eighth of the time in which the line has not moved, so that at most an eighth is lost;"""
LONGEST_ASK_SECONDS: Final = 0.25
"""but not longer than this, or than the rates alone make it wait."""
NEWS_SECONDS: Final = 5.0
"""What was heard longer ago says nothing of how far ahead others have booked."""
FORGOTTEN_SECONDS: Final = 86_400.0
"""A key that nobody asked for so long owes nothing; `acquire.lua` forgets it soon after."""


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
    `leases` the tickets that must be renewed, `ended` what the store has not yet heard of.
    `born` names the state that the last answer came from, `owed_until` says until when (s of the loop's clock) its
    debts are paid: a store that has forgotten them is reminded. `elsewhere_until`: the same of what was granted
    without it. `longest_seconds`: as far ahead a caller of this process was ready to book."""

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
        self.born = ""
        self.owed_until = [0.0] * 3
        self.elsewhere_until = [0.0] * 3
        self.heard_at = -math.inf
        self.longest_seconds = 0.0

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

    def remember(self, answer: Answer, now: float) -> None:
        """What the store said that everybody owes."""
        self.born, self.heard_at = answer.born, now
        self.owed_until = [now + us / MICROSECONDS for us in answer.owed_us]

    def assume(self, debts: Debts, now: float) -> None:
        """The store hears of these debts with the next questions, whether it has forgotten anything or not."""
        untils = (now + seconds for seconds in dataclasses.astuple(debts))
        self.elsewhere_until = [max(*pair) for pair in zip(self.elsewhere_until, untils, strict=True)]

    def owed_us(self, now: float) -> list[int]:
        return [round(seconds * MICROSECONDS) for seconds in self._ahead_seconds(now)]

    def elsewhere_us(self, now: float) -> list[int]:
        return [max(0, round((until - now) * MICROSECONDS)) for until in self.elsewhere_until]

    def debts(self, now: float) -> Debts:
        """Others have asked since, too: their starts reach as far ahead as they did at the last answer, and if
        that is long ago, as far as anybody here was ready to book."""
        requests, input_tokens, output_tokens = self._ahead_seconds(now)
        return Debts(requests_seconds=requests, input_seconds=input_tokens, output_seconds=output_tokens)

    def _ahead_seconds(self, now: float) -> list[float]:
        if now - self.heard_at > FORGOTTEN_SECONDS:
            return [0.0] * 3
        ahead = [max(0.0, until - self.heard_at) for until in self.owed_until]
        if now - self.heard_at > NEWS_SECONDS:
            ahead[0] = max(ahead[0], self.longest_seconds)
        return ahead

    def give(self, granted: Mapping[str, Answer]) -> None:
        """Hand grants to their waiters; each lane's first one wakes up and passes the front on.

        Who has left meanwhile gives everything back with the next word to the store."""
        for ticket, answer in granted.items():
            queue = next((queue for queue in self.queues.values() if ticket in queue.waiting), None)
            if queue is not None:
                self.note(ticket, answer)
                self.given[ticket] = answer
                queue.freed.set()
            elif answer.taken is not None:
                self.ended[ticket] = unwanted_arguments(ticket, answer.taken)

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
