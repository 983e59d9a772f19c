"""What the terminal says of ways around, refuters, gate and rounds."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from workers.cli.client import RunEvent
from workers.cli.verdict_panel import verdict_panel
from workers.cli.view import RunView

REFUTED = {
    "seat": "claim-C1",
    "claim": "C1",
    "standing": "killed",
    "ground": "intended",
    "reason": "the spec says so",
    "void": "",
    "model_served": "elm-1",
}
TESTED = {
    "seat": "claim-C2",
    "claim": "C2",
    "proof": "not_reproduced",
    "detail": "the test passes on the code as it is",
    "prover": {"model_served": "fir-1"},
}
VERDICT: dict[str, Any] = {
    "outcome": "rejected",
    "reasons": [],
    "claims": [],
    "coverage": {"valid_reviews": 2, "panel_size": 2, "abstained": [], "unsupported_findings": 0},
    "notes": ["tests_failing"],
    "refutation": {"asked": 3, "killed": 1, "void": 1, "unanswered": ["C3"]},
    "gate": {
        "reproduced": 1,
        "not_reproduced": 1,
        "inconclusive": 0,
        "unprovable": 1,
        "undecided": [["C4", "no_sandbox"]],
    },
    "costs": [{"state": "killed", "claims": 1, "seconds": 2.5, "cost_usd": 0.01}],
    "tests": {
        "green_after": ["a"],
        "red_after": ["b"],
        "red_submitted": ["test_b.py::test_b"],
        "problem": "",
    },
    "rounds": {"count": 2, "stopped": "round_limit"},
}


def told(kind: str, payload: dict[str, Any], view: RunView | None = None) -> str | None:
    return (view or RunView(title="t")).apply(RunEvent(seq=1, kind=kind, at="", payload=payload))


def shown(view: RunView) -> str:
    out = io.StringIO()
    Console(width=120, file=out).print(verdict_panel(view))
    return out.getvalue()


def test_a_refuter_s_answer_is_one_line() -> None:
    assert told("claim.refuted", REFUTED) == "refuter elm-1 on C1: killed, intended: the spec says so"
    void = {**REFUTED, "standing": "survived", "void": "the kill quotes nothing"}
    assert (
        told("claim.refuted", void)
        == "refuter elm-1 on C1: survived, the kill is void: the kill quotes nothing"
    )


def test_a_test_s_word_is_one_line() -> None:
    assert told("claim.tested", TESTED) == "gate on C2: not reproduced: the test passes on the code as it is"


def test_a_new_round_begins_with_empty_seats() -> None:
    view = RunView(title="t")
    told("claim.tested", TESTED, view)

    line = told("round.opened", {"round": 2, "standing": ["wrong sign"], "killed": []}, view)

    assert line == "round 2: sent back with 1 reproduced claim"
    assert view.seats == {}


def test_the_closing_panel_counts_what_was_done() -> None:
    view = RunView(title="t")
    told("run.finished", VERDICT, view)

    text = shown(view)

    for line in (
        "refuters: 1 of 3 claims killed, 1 kill void, 1 without an answer",
        "gate: 1 reproduced, 1 not reproduced, 1 unprovable (C4 no_sandbox)",
        "1 claim killed: 2.5 s, $0.01",
        "tests: 1 green, 1 red",
        "2 rounds, round limit",
    ):
        assert line in text


def test_a_run_that_fails_a_submitted_test_says_which() -> None:
    view = RunView(title="t")
    told("run.finished", VERDICT, view)

    assert view.reason() == "fails test_b.py::test_b"


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
