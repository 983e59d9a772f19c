"""What a run's picture says of the ways around."""

from __future__ import annotations

from typing import Any

from workers.cli.client import RunEvent
from workers.cli.view import RunView


def review(**changes: Any) -> RunEvent:
    payload = {"seat": "left", "findings": [], "model": "b", **changes}
    return RunEvent(seq=1, kind="review.arrived", at="2026-01-01T00:00:00Z", payload=payload)


def test_a_seat_says_which_models_failed_before_and_that_quota_is_low() -> None:
    line = RunView(title="t").apply(
        review(
            fallback=[
                {"model": "one/a", "cause": "quota", "detail": "402"},
                {"model": "two/b", "cause": "overload", "detail": "503"},
            ],
            low_quota={"provider": "one", "reason": "402"},
        )
    )

    assert line == "review by left (b): 0 findings; after one/a (quota), two/b (overload); quota is low"


def test_a_seat_whose_first_model_answered_says_nothing_of_it() -> None:
    assert RunView(title="t").apply(review()) == "review by left (b): 0 findings"
