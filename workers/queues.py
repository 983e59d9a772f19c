"""Queue and task names, and what goes first: all that the API and the workers share of Celery."""

from __future__ import annotations

from enum import StrEnum


class Queue(StrEnum):
    LLM = "llm"
    SANDBOX = "sandbox"
    CONTROL = "control"


class TaskName(StrEnum):
    """As Flower shows them."""

    CODER = "coder"
    REVIEW = "review"
    CONSENSUS = "consensus"
    REFUTE = "refute"
    GATE = "gate"
    LEAD = "lead"
    FINISH = "finish"
    ADVANCE = "advance"
    RESCUE = "rescue"
    DISPATCH = "dispatch"
    SWEEP = "sweep"


#: Redis keeps one list a step and serves the lowest number first.
PRIORITY_STEPS = tuple(range(10))

#: Later stages first, so that runs end instead of all advancing abreast (`reference/celery.md` §4).
_DEPTH = {
    TaskName.FINISH: 0,
    TaskName.ADVANCE: 0,
    TaskName.LEAD: 1,
    TaskName.GATE: 2,
    TaskName.REFUTE: 2,
    TaskName.CONSENSUS: 3,
    TaskName.REVIEW: 3,
    TaskName.CODER: 4,
    TaskName.RESCUE: 0,
    TaskName.DISPATCH: 0,
    TaskName.SWEEP: 0,
}

#: What a batch's messages stand behind: every interactive one.
_BATCH_OFFSET = 5


def message_priority(task: TaskName, *, is_batch: bool = False) -> int:
    """The broker priority of a message, 0 (first) to 9."""
    return _DEPTH[task] + (_BATCH_OFFSET if is_batch else 0)


#: No model is asked in them.
_CONTROLS = frozenset(
    {
        TaskName.ADVANCE,
        TaskName.FINISH,
        TaskName.RESCUE,
        TaskName.DISPATCH,
        TaskName.SWEEP,
    }
)


def queue_of(task: TaskName) -> Queue:
    """The gate has a queue of its own: its seats wait for cages, of which there are few, and must not hold the threads
    that model calls wait in."""
    if task is TaskName.GATE:
        return Queue.SANDBOX
    return Queue.CONTROL if task in _CONTROLS else Queue.LLM
