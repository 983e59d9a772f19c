"""Queue and task names, and what goes first: all that the API and the workers share of Celery."""

from __future__ import annotations

from enum import StrEnum


class Queue(StrEnum):
    LLM = "llm"
    CONTROL = "control"


class TaskName(StrEnum):
    """As Flower shows them."""

    CODER = "coder"
    REVIEW = "review"
    CONSENSUS = "consensus"
    LEAD = "lead"
    FINISH = "finish"
    ADVANCE = "advance"
    RESCUE = "rescue"


#: Redis keeps one list a step and serves the lowest number first.
PRIORITY_STEPS = tuple(range(10))

#: Later stages first, so that runs end instead of all advancing abreast (`reference/celery.md` §4).
_DEPTH = {
    TaskName.FINISH: 0,
    TaskName.ADVANCE: 0,
    TaskName.LEAD: 1,
    TaskName.CONSENSUS: 2,
    TaskName.REVIEW: 3,
    TaskName.CODER: 4,
    TaskName.RESCUE: 0,
}

#: What a batch's messages stand behind: every interactive one.
_BATCH_OFFSET = 5


def message_priority(task: TaskName, *, is_batch: bool = False) -> int:
    """The broker priority of a message, 0 (first) to 9."""
    return _DEPTH[task] + (_BATCH_OFFSET if is_batch else 0)


def queue_of(task: TaskName) -> Queue:
    return Queue.CONTROL if task in {TaskName.ADVANCE, TaskName.FINISH, TaskName.RESCUE} else Queue.LLM
