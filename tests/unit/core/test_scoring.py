"""The stages of a scoring follow one another, and some of them cannot be done without."""

from __future__ import annotations

import pytest

from workers.core.scoring import PartState, ScoringStage, following, has_failed


def test_the_stages_follow_one_another_to_the_last() -> None:
    walked = [ScoringStage.PLAN]
    while (after := following(walked[-1])) is not None:
        walked.append(after)
    assert walked == ["plan", "read", "group", "score", "merge"]


@pytest.mark.parametrize(
    ("stage", "is_vital"),
    [("plan", True), ("read", False), ("group", True), ("score", False), ("merge", True)],
)
def test_a_failed_part_ends_the_stages_that_nothing_can_go_on_without(stage: str, is_vital: bool) -> None:
    assert has_failed(ScoringStage(stage), {PartState.DONE, PartState.FAILED}) is is_vital
    assert not has_failed(ScoringStage(stage), {PartState.DONE, PartState.CANCELLED})
    assert not has_failed(ScoringStage(stage), ())
