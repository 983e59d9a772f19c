"""What the terminal says of refuters, gate and rounds."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from workers.cli.client import RunEvent
from workers.cli.view import RunView, verdict_panel

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
