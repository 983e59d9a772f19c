"""A run's life: its states, its stages and what comes next (DESIGN §3). `docs/states.md` draws this file.

The next step is worked out from the stage rows alone, so whoever asks (the task that wrote the last row,
the chord's body, the rescue) gets the same answer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
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
    REFUTE = "refute"
    GATE = "gate"
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

#: How a seat that gives up is recorded: a reviewer, a refuter or a prover abstains, and what it should have looked at
#: stays as it was; another stage fails.
GIVE_UP = {
    Stage.CODER: SeatState.FAILED,
    Stage.PANEL: SeatState.ABSTAINED,
    Stage.CONSENSUS: SeatState.FAILED,
    Stage.REFUTE: SeatState.ABSTAINED,
    Stage.GATE: SeatState.ABSTAINED,
    Stage.LEAD: SeatState.FAILED,
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
    seats: tuple[str, ...]


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
    #: Its messages stand behind those of runs that somebody waits for.
    is_batch: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Close:
    """Every stage has ended: the run can be finished."""

    run_id: str
    priority: int
    is_batch: bool = False


#: What a stage asks its Celery task to send; None when somebody else will, or nothing is left to do.
Next = Enqueue | Close | None


#: The seats of a stage that is about to be opened; none means that there is nothing to do in it. Asked only when every
#: stage before has ended, and it must say the same every time it is asked.
SeatsOf = Callable[[Stage], Sequence[str]]


def next_step(rows: Sequence[Seated], seats_of: SeatsOf) -> Open | Wait | Finish:
    """What a running run does next, given its rows of the current round.

    A dead coder leaves nothing to judge, so the run finishes at once. A dead consensus does not stop it: the
    lead arbitrates on the raw reviews. A stage without seats (nothing to refute, nothing to prove) is passed over.
    """
    if any(row.state not in TERMINAL for row in rows):
        return Wait()
    order = list(Stage)
    reached = max((order.index(row.stage) for row in rows), default=-1)
    if reached == 0 and any(row.state is not SeatState.DONE for row in rows):
        return Finish()
    for stage in order[reached + 1 :]:
        seats = tuple(seats_of(stage))
        if seats:
            return Open(stage=stage, seats=seats)
    return Finish()


def sources_of(target: RunState) -> list[RunState]:
    """The states from which a run may go to `target`."""
    return [state for state in RunState if target in TRANSITIONS[state]]
