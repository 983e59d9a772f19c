"""Two runs side by side: rows of steps that they share, and of those that each takes alone."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from workers.agentlens.comparison import Comparison, compare
from workers.inspection.opened import OpenedRun
from workers.inspection.steps import label_of
from workers.scoring.pictures import action


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """A step in one line."""

    index: int
    intent: str
    line: str
    outcome: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Steps beside each other. confidence: that they are one step; None where only one run takes it."""

    left: Side | None
    right: Side | None
    confidence: float | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Aligned:
    """shared_left, shared_right: share of each run's acting steps that the other has too. edit_agreement: of the
    changed lines, 0 to 1, None if neither changed any."""

    rows: tuple[Row, ...]
    shared: int
    shared_left: float
    shared_right: float
    edit_agreement: float | None
    is_same: bool


def align(left: OpenedRun, right: OpenedRun) -> Aligned:
    """Compare two runs, step by step."""
    found = compare(left.run.trace, right.run.trace)
    return Aligned(
        rows=tuple(_rows(left, right, found)),
        shared=len(found.pairs),
        shared_left=found.shared_left,
        shared_right=found.shared_right,
        edit_agreement=found.edit_agreement,
        is_same=found.is_same,
    )


def _rows(left: OpenedRun, right: OpenedRun, found: Comparison) -> Iterator[Row]:
    """First what the left does alone, then what the right does alone, then the step they share."""
    i = j = 0
    for pair in found.pairs:
        yield from _alone(left, right, (i, pair.left), (j, pair.right))
        yield Row(
            left=_side(left, pair.left), right=_side(right, pair.right), confidence=round(pair.confidence, 4)
        )
        i, j = pair.left + 1, pair.right + 1
    ends = len(left.run.trajectory.states), len(right.run.trajectory.states)
    yield from _alone(left, right, (i, ends[0]), (j, ends[1]))


def _alone(
    left: OpenedRun, right: OpenedRun, of_left: tuple[int, int], of_right: tuple[int, int]
) -> Iterator[Row]:
    yield from (Row(left=_side(left, index), right=None, confidence=None) for index in range(*of_left))
    yield from (Row(left=None, right=_side(right, index), confidence=None) for index in range(*of_right))


def _side(opened: OpenedRun, index: int) -> Side:
    state = opened.run.trajectory.states[index]
    return Side(index=index, intent=label_of(opened, index)[0], line=action(state), outcome=state.outcome)
