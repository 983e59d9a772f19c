"""Who goes next: how many more runs of each batch to send. Pure; `docs/decisions/0013` has the reasons.

A batch with a lower priority number goes first. Batches of the same priority share what there is equally, counted in
runs under way, whatever their sizes: the next run is always one of the batch that has the fewest. Among equals it is
the one that was served longest ago, so that more batches than there is room for take turns."""

from __future__ import annotations

import dataclasses
import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """A batch as the dispatcher sees it.

    `waiting`: runs that could be sent. `under_way`: those that were sent and have not ended, `seats_under_way`: how
    many seats they open at most at the same time. `width`: the same for one run more. `served_order`: smaller for
    batches that were served longer ago. `concurrency`: most of its runs under way, None: no such limit.
    """

    batch_id: str
    priority: int
    waiting: int
    under_way: int = 0
    seats_under_way: int = 0
    width: int = 1
    served_order: float = 0.0
    concurrency: int | None = None

    @property
    def room(self) -> int:
        """How many more of its runs may be sent, the others aside."""
        most = self.waiting if self.concurrency is None else self.concurrency - self.under_way
        return max(0, min(self.waiting, most))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """How much of all batches may be under way at once: runs, and seats that open at the same time."""

    runs: int
    seats: int


def shares(loads: Sequence[Load], room: Room) -> dict[str, int]:
    """How many runs of each batch to send now; batches that get none are left out.

    Nothing overtakes a run that is next but too wide for the seats that are left: narrow runs would keep it out for
    ever. A run wider than all seats goes when nothing else is under way.
    """
    runs_left = room.runs - sum(load.under_way for load in loads)
    seats_left = room.seats - sum(load.seats_under_way for load in loads)
    is_idle = not any(load.under_way for load in loads)
    given: dict[str, int] = defaultdict(int)
    for load in _turns(loads):
        if runs_left < 1 or (load.width > seats_left and not is_idle):
            break
        given[load.batch_id] += 1
        runs_left, seats_left, is_idle = runs_left - 1, seats_left - load.width, False
    return dict(given)


def _turns(loads: Sequence[Load]) -> Iterator[Load]:
    """Whose run is next, again and again, until nobody has one."""
    for priority in sorted({load.priority for load in loads}):
        ranked = [
            (load.under_way, load.served_order, load.batch_id, load.room, load)
            for load in loads
            if load.priority == priority and load.room > 0
        ]
        heapq.heapify(ranked)
        while ranked:
            under_way, order, batch_id, left, load = heapq.heappop(ranked)
            yield load
            if left > 1:
                heapq.heappush(ranked, (under_way + 1, order, batch_id, left - 1, load))


#: Of all threads that wait for models, one in so many is kept free for interactive runs.
KEPT_FREE_OF = 8


def room_of(*, window: int, threads: int) -> Room:
    """What batches may have under way: `window` runs, and no more seats than leave an eighth of the threads free.

    Seats of a batch hold threads for as long as models take (6 to 75 s) or the governor's line is (20 s). If they held
    them all, an interactive message would wait for the first of them to end, however high its priority.
    """
    return Room(runs=window, seats=max(1, threads - -(-threads // KEPT_FREE_OF)))
