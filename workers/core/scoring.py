"""The life of a scoring: its states, its stages, and what comes after each."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from enum import StrEnum
from typing import Final


class ScoringState(StrEnum):
    QUEUED = "queued"
    RUNNING = "running"
    FINISHED = "finished"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN_STATES: Final = (ScoringState.QUEUED, ScoringState.RUNNING)


class ScoringStage(StrEnum):
    """plan: which files are runs and which of them were read before. read: files, some a part. group: copies,
    problems, references, and which assessments are there already. score: a problem a part. merge: one report."""

    PLAN = "plan"
    READ = "read"
    GROUP = "group"
    SCORE = "score"
    MERGE = "merge"


UPLOADED: Final = "uploaded"
UPLOADED_SINCE: Final = "uploaded-since"

STAGES: Final = tuple(ScoringStage)

#: Stages that have one part, without which there is nothing to go on with.
VITAL: Final = (ScoringStage.PLAN, ScoringStage.GROUP, ScoringStage.MERGE)


class PartState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


OPEN_PARTS: Final = (PartState.PENDING, PartState.RUNNING)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, order=True)
class PartKey:
    """Names a piece of work of a scoring; all that a message holds."""

    scoring_id: str
    stage: ScoringStage
    number: int


def following(stage: ScoringStage) -> ScoringStage | None:
    """The stage after this one; None after the last."""
    place = STAGES.index(stage) + 1
    return STAGES[place] if place < len(STAGES) else None


def has_failed(stage: ScoringStage, states: Collection[PartState]) -> bool:
    """Whether a stage whose parts have all ended leaves nothing to go on with. A file that cannot be read and a
    problem that breaks are reported; the others go on."""
    return stage in VITAL and PartState.FAILED in states
