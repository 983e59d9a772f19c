"""What the terminal says of ways around, refuters, gate and rounds."""

from __future__ import annotations

import io
from typing import Any

from rich.console import Console

from workers.cli.client import RunEvent
from workers.cli.run import print_code
from workers.cli.verdict_panel import verdict_panel
from workers.cli.view import RunView, counted, overview

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


def claim(*, path: str = "a.py", state: str = "upheld", **changes: Any) -> dict[str, Any]:
    """One judged claim, as a verdict lists it."""
    return {
        "claim": {
            "claim_id": "C1",
            "text": "wrong sign",
            "severity": "medium",
            "agreement": 1.0,
            "weighted_agreement": 1.0,
            "flagged_by": ["left", "right"],
            "span": {"path": path, "start": 12, "end": 12},
        },
        "state": state,
        "stands": state == "upheld",
        "is_agreed": True,
        "why": "agreed and not fixed",
        **changes,
    }


def shown(view: RunView, *, width: int = 120) -> str:
    out = io.StringIO()
    Console(width=width, file=out).print(verdict_panel(view))
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
        "gate: 1 reproduced, 1 not reproduced, 1 unprovable (C4 no sandbox)",
        "1 claim killed: 2.5 s, $0.01",
        "tests: 1 green, 1 red: b",
        "2 rounds, round limit",
    ):
        assert line in text


def test_the_closing_panel_tells_earned_weights_and_the_records_behind_them() -> None:
    weights = [
        {"reviewer": "left", "weight": 0.955, "upheld": 20, "refuted": 0},
        {"reviewer": "right", "weight": 0.5, "upheld": 2, "refuted": 3},
    ]

    told_of, before = RunView(title="t"), RunView(title="t")
    told("run.finished", {**VERDICT, "weights": weights}, told_of)
    told("run.finished", VERDICT, before)

    assert "weights: left 0.955 (20 of 20 upheld), right 0.5 (2 of 5 upheld)" in shown(told_of)
    assert "weights" not in shown(before)


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


def test_a_panel_that_is_too_narrow_loses_the_end_of_the_title_and_no_mark() -> None:
    view = RunView(
        title="A specification with a first line of some sixty characters, or more", is_simulated=True
    )
    told("run.finished", VERDICT, view)

    edge = shown(view, width=60).splitlines()[0]

    assert "rejected simulated A specification" in edge
    assert "…" in edge
    assert len(edge) == 60


def test_a_place_is_folded_and_never_cut() -> None:
    view = RunView(title="t")
    told("run.finished", {**VERDICT, "claims": [claim(path="a_folder/session_token.py")]}, view)

    text = shown(view, width=80)

    assert "…" not in text
    assert "12)" in text


def test_each_note_of_a_verdict_has_a_line_with_its_meaning() -> None:
    view = RunView(title="t")
    told("run.finished", VERDICT, view)

    assert "tests_failing: tests fail on the signed code" in shown(view)


def test_why_there_was_no_cage_is_said_once() -> None:
    missing = {"reason": "no_sandbox", "detail": "no sandbox: no engine answers"}
    view = RunView(title="t")
    told("run.finished", {**VERDICT, "claims": [claim(proved=missing), claim(proved=missing)]}, view)

    assert shown(view).count("no sandbox: no engine answers") == 1


def test_a_reason_that_has_told_of_the_missing_cage_is_not_repeated() -> None:
    missing = {"reason": "no_sandbox", "detail": "no sandbox: no engine answers"}
    reason = {"code": "gate_missing", "cause": "no_sandbox", "detail": missing["detail"]}
    view = RunView(title="t")
    told("run.finished", {**VERDICT, "reasons": [reason], "claims": [claim(proved=missing)]}, view)

    assert shown(view).count("no sandbox: no engine answers") == 1


def test_a_lead_that_sends_back_is_not_said_to_have_signed() -> None:
    answered = {"seat": "lead", "model_served": "elm-1", "summary": "not yet", "decision": "send_back"}

    assert told("lead.signed", answered) == "lead elm-1 sent back: not yet"
    assert told("lead.signed", {**answered, "decision": "sign"}) == "lead elm-1 signed: not yet"


def test_a_fix_that_no_test_saw_is_told_from_one_that_was_tested() -> None:
    tested, untested = (
        "reproduced; its test passes on the signed code",
        "the lead changed the lines; not tested",
    )
    view = RunView(title="t")
    fixed = [claim(state="fixed", stands=False, why=why) for why in (tested, untested)]
    told("run.finished", {**VERDICT, "outcome": "accepted", "claims": fixed}, view)
    assert view.reason() == "2 claims fixed, 1 of them not tested"
    told("run.finished", {**VERDICT, "outcome": "accepted", "claims": fixed[1:]}, view)
    assert view.reason() == "1 claim fixed, not tested"


def test_a_seat_named_as_its_stage_is_named_once() -> None:
    missing = {"server": "register", "cause": "gone"}
    assert (
        told("tool.missing", {"stage": "lead", "seat": "lead", **missing})
        == "lead: no tools of register (gone)"
    )
    assert (
        told("tool.missing", {"stage": "panel", "seat": "left", **missing})
        == "panel left: no tools of register (gone)"
    )


def test_code_in_a_pipe_is_line_for_line_what_it_was() -> None:
    text = "def f():\n\treturn 1  # " + "x" * 150 + "\n"
    out = io.StringIO()

    print_code("a.py", text, Console(width=80, file=out))

    assert out.getvalue() == text


def test_code_on_a_terminal_is_folded_by_the_terminal() -> None:
    text = "value = 1  # " + "x" * 150 + "\n"
    out = io.StringIO()

    print_code(
        "a.py", text, Console(width=80, file=out, force_terminal=True, no_color=True, color_system=None)
    )

    assert out.getvalue().splitlines()[0] == text.rstrip("\n")


def test_a_table_of_runs_under_way_cuts_nothing_at_80_columns() -> None:
    view = RunView(title="session-token", is_simulated=True)
    names = ["boundaries", "contract", "regression", "simplicity", "tests"]
    told("stage.opened", {"stage": "panel", "seats": names}, view)
    shown_at = {}
    for width in (80, 200):
        out = io.StringIO()
        Console(width=width, file=out).print(overview([view], is_final=False, width=width))
        shown_at[width] = out.getvalue()

    assert "…" not in shown_at[80]
    assert "session-token simulated  ○○○○○  -          panel" in shown_at[80]
    assert " ".join(names) in shown_at[200]


def test_families_are_counted_in_english() -> None:
    assert [counted(number, "family", "families") for number in (1, 2)] == ["1 family", "2 families"]
