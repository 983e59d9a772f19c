"""A batch's life: its states and where each may go, and the arithmetic of its progress. `docs/batches.md` draws
this file."""

from __future__ import annotations

import dataclasses
import datetime as dt
from enum import StrEnum


class BatchState(StrEnum):
    """`running` from the moment it was stored; `finished` when none of its runs is queued or running."""

    RUNNING = "running"
    PAUSED = "paused"
    CANCELLED = "cancelled"
    FINISHED = "finished"


class PauseCause(StrEnum):
    """Who paused it. One that ran out of budget goes on only with a larger one."""

    USER = "user"
    BUDGET = "budget"


#: Where a batch may go from each state; a state without successors is final. A paused one finishes too: the runs that
#: were under way when it was paused may have been its last.
BATCH_TRANSITIONS: dict[BatchState, frozenset[BatchState]] = {
    BatchState.RUNNING: frozenset({BatchState.PAUSED, BatchState.CANCELLED, BatchState.FINISHED}),
    BatchState.PAUSED: frozenset({BatchState.RUNNING, BatchState.CANCELLED, BatchState.FINISHED}),
    BatchState.CANCELLED: frozenset(),
    BatchState.FINISHED: frozenset(),
}

#: A batch in one of these states will not change again.
BATCH_ENDED = frozenset(state for state, targets in BATCH_TRANSITIONS.items() if not targets)

#: The rate of a batch under way is taken over this last stretch of time: long enough for runs of minutes, short
#: enough to show that providers have become faster or slower.
RATE_SECONDS = 300.0


def batch_sources_of(target: BatchState) -> list[BatchState]:
    """The states from which a batch may go to `target`."""
    return [state for state in BatchState if target in BATCH_TRANSITIONS[state]]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How many of a batch's runs are where. `waiting`: not sent yet; `running`: sent and not ended."""

    waiting: int = 0
    running: int = 0
    accepted: int = 0
    rejected: int = 0
    degraded: int = 0
    cancelled: int = 0

    @property
    def finished(self) -> int:
        """Runs that came to a verdict."""
        return self.accepted + self.rejected + self.degraded

    @property
    def ended(self) -> int:
        return self.finished + self.cancelled

    @property
    def left(self) -> int:
        return self.waiting + self.running

    @property
    def total(self) -> int:
        return self.ended + self.left


def runs_per_minute(
    *,
    finished: int,
    finished_lately: int,
    started_at: dt.datetime | None,
    finished_at: dt.datetime | None,
    now: dt.datetime,
) -> float | None:
    """Runs that come to a verdict per minute; None before the first.

    Of a batch that has ended: all of them over its whole time. Of one under way: `finished_lately`, those of the last
    `RATE_SECONDS` (or since it started, if that is less), over that time.
    """
    if started_at is None or finished == 0:
        return None
    if finished_at is not None:
        count, seconds = finished, (finished_at - started_at).total_seconds()
    else:
        count, seconds = finished_lately, min(RATE_SECONDS, (now - started_at).total_seconds())
    # Less than a second tells no rate, and none at all would be a division by zero.
    return 60 * count / max(seconds, 1.0)


def seconds_left(left: int, rate_per_minute: float | None) -> float | None:
    """Time until the last of `left` runs has ended at this rate; None where there is no telling."""
    if left == 0:
        return 0.0
    return 60 * left / rate_per_minute if rate_per_minute else None
