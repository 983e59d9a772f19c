"""A run's life: its states, its stages and what comes next (DESIGN §3). `docs/states.md` draws this file.

The next step is worked out from the stage rows alone, so whoever asks (the task that wrote the last row,
the chord's body, the rescue) gets the same answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from enum import StrEnum


class RunState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    CANCELLED = "cancelled"


class Outcome(StrEnum):
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    DEGRADED = "degraded"


class Stage(StrEnum):
    CODER = "coder"
    PANEL = "panel"
    CONSENSUS = "consensus"
    LEAD = "lead"


class SeatState(StrEnum):
    """The state of one stage row: one seat's work in one stage of one round."""

    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    ABSTAINED = "abstained"
    FAILED = "failed"
    CANCELLED = "cancelled"


#: Where a run may go from each state; a state without successors is final.
TRANSITIONS: dict[RunState, frozenset[RunState]] = {
    RunState.QUEUED: frozenset({RunState.RUNNING, RunState.CANCELLED}),
    RunState.RUNNING: frozenset({RunState.FINISHED, RunState.CANCELLED}),
    RunState.FINISHED: frozenset(),
    RunState.CANCELLED: frozenset(),
}

#: A row in one of these states will not change again.
TERMINAL = frozenset({SeatState.DONE, SeatState.ABSTAINED, SeatState.FAILED, SeatState.CANCELLED})

#: How a seat that gives up is recorded: a reviewer abstains and leaves the denominator, another stage fails.
GIVE_UP = {
    Stage.CODER: SeatState.FAILED,
    Stage.PANEL: SeatState.ABSTAINED,
    Stage.CONSENSUS: SeatState.FAILED,
    Stage.LEAD: SeatState.FAILED,
}

#: What follows a stage whose rows are all terminal; None means the run can finish.
_AFTER = {
    Stage.CODER: Stage.PANEL,
    Stage.PANEL: Stage.CONSENSUS,
    Stage.CONSENSUS: Stage.LEAD,
    Stage.LEAD: None,
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Seated:
    """A stage row as the next step sees it."""

    stage: Stage
    seat: str
    state: SeatState


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Open:
    """Open this stage: insert a row a seat and enqueue them."""

    stage: Stage


@dataclasses.dataclass(frozen=True, slots=True)
class Wait:
    """Some seat is still at work; whoever ends last asks again."""


@dataclasses.dataclass(frozen=True, slots=True)
class Finish:
    """Every stage has ended: the verdict can be computed."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Enqueue:
    """Seats of one stage that were opened and now need a message each."""

    run_id: str
    round: int
    stage: Stage
    seats: tuple[str, ...]
    priority: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """Every stage has ended: the run can be finished."""

    run_id: str
    priority: int


#: What a stage asks its Celery task to send; None when somebody else will, or nothing is left to do.
Next = Enqueue | Close | None


def next_step(rows: Sequence[Seated]) -> Open | Wait | Finish:
    """What a running run does next, given its rows of the current round.

    A dead coder leaves nothing to judge, so the run finishes at once. A dead consensus does not stop it: the
    lead arbitrates on the raw reviews.
    """
    if any(row.state not in TERMINAL for row in rows):
        return Wait()
    reached = [stage for stage in Stage if any(row.stage is stage for row in rows)]
    if not reached:
        return Open(stage=Stage.CODER)
    last = reached[-1]
    if last is Stage.CODER and any(row.state is not SeatState.DONE for row in rows):
        return Finish()
    following = _AFTER[last]
    return Finish() if following is None else Open(stage=following)


def sources_of(target: RunState) -> list[RunState]:
    """The states from which a run may go to `target`."""
    return [state for state in RunState if target in TRANSITIONS[state]]
