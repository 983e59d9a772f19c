"""A run folded from its ledger and its rows."""

from __future__ import annotations

import datetime as dt
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from api.web.run_view import RunView, fold
from api.web.story import KINDS, sentence_of, story_of
from workers.core.run import SeatState, Stage
from workers.provenance.ledger import Event
from workers.provenance.repository.seat_times import SeatTime

AT = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)

CODE = {"seat": "coder", "files": {"a.py": "x = 1\ny = 2\n"}, "model_served": "alder", "provider": "local"}
FINDING = {
    "finding_id": "left/1/1",
    "claim": "x is wrong",
    "severity": "high",
    "span": {"path": "a.py", "start": 1, "end": 1},
    "evidence": [{"path": "a.py", "line": 1, "quote": "x = 1"}],
}
CLAIM = {
    "claim_id": "C1",
    "text": "x is wrong",
    "severity": "high",
    "span": {"path": "a.py", "start": 1, "end": 1},
    "flagged_by": ["left"],
    "agreement": 0.5,
    "weighted_agreement": 0.5,
}
COUNTED = {"seat": "consensus", "claims": [CLAIM], "unsupported": []}
REFUTED = {
    "seat": "claim-C1",
    "claim": "C1",
    "standing": "survived",
    "void": "",
    "ground": None,
    "reason": "true",
}
TESTED = {
    "seat": "claim-C1",
    "claim": "C1",
    "proof": "reproduced",
    "reason": "fails_on_code",
    "detail": "1 != 2",
}
SIGNED = {
    "seat": "lead",
    "files": {"a.py": "x = 2\ny = 2\n"},
    "decision": "sign",
    "summary": "mended",
    "rulings": [{"claim_id": "C1", "ruling": "fixed", "reason": "it is 2 now", "override": False}],
}


def event(kind: str, payload: Any = None, seq: int = 1) -> Event:
    return Event(
        run_id="run_1",
        seq=seq,
        kind=kind,
        at=AT,
        payload=payload,
        payload_digest="",
        previous_hash="",
        hash="",
    )


def time(stage: Stage, seat: str, state: SeatState, round_: int = 1, **changes: Any) -> SeatTime:
    values: dict[str, Any] = {"started_at": None, "finished_at": None, "not_before": None, "rescues": 0}
    return SeatTime(
        round=round_, stage=stage, seat=seat, state=state, enqueued_at=AT, **{**values, **changes}
    )


def view(*events: Event, times: tuple[SeatTime, ...] = (), verdict: dict[str, Any] | None = None) -> RunView:
    return fold(events, times, reviewers=["left", "right"], verdict=verdict)


def states(shown: RunView) -> dict[str, str]:
    return {stage.value: shown.latest.stage_state(stage) for stage in Stage}


def test_a_run_of_which_nothing_is_known_expects_its_panel() -> None:
    shown = view()
    assert [(seat.name, seat.state) for seat in shown.latest.of(Stage.PANEL)] == [
        ("left", "expected"),
        ("right", "expected"),
    ]
    assert set(states(shown).values()) == {"expected"}


def test_reviewers_stand_in_the_order_of_the_team_whoever_answers_first() -> None:
    opened = event("stage.opened", {"stage": "panel", "seats": ["right", "left", "extra"]})
    shown = view(opened, event("review.arrived", {"seat": "right", "findings": []}))
    assert [seat.name for seat in shown.latest.of(Stage.PANEL)] == ["extra", "left", "right"]


def test_a_seat_waits_until_a_worker_takes_it_and_thinks_from_then_on() -> None:
    opened = event("stage.opened", {"stage": "panel", "seats": ["left", "right"]})
    later = AT + dt.timedelta(seconds=3)
    shown = view(
        opened,
        times=(
            time(Stage.PANEL, "left", SeatState.PENDING),
            time(Stage.PANEL, "right", SeatState.RUNNING, started_at=later),
        ),
    )
    assert [(seat.state, seat.since) for seat in shown.latest.of(Stage.PANEL)] == [
        ("waiting", AT),
        ("thinking", later),
    ]
    assert states(shown)["panel"] == "thinking"


def test_a_review_that_arrived_is_done_whatever_its_row_says() -> None:
    shown = view(
        event("review.arrived", {"seat": "left", "findings": [FINDING], "model_served": "birch"}),
        times=(
            time(
                Stage.PANEL,
                "left",
                SeatState.RUNNING,
                started_at=AT,
                finished_at=AT + dt.timedelta(seconds=2),
                rescues=1,
            ),
        ),
    )
    (left,) = [seat for seat in shown.latest.of(Stage.PANEL) if seat.name == "left"]
    assert (left.state, left.seconds, left.rescues, left.model) == ("done", 2.0, 1, "birch")
    assert [(remark.text, remark.path, remark.line, remark.quotes) for remark in left.remarks] == [
        ("x is wrong", "a.py", 1, ("x = 1",))
    ]


def test_a_dead_seat_abstains_with_its_cause_and_the_stage_is_done_in_part() -> None:
    shown = view(
        event("review.arrived", {"seat": "left", "findings": []}),
        event("review.abstained", {"seat": "right", "cause": "no_provider", "detail": "all are away"}),
    )
    right = shown.latest.seat(Stage.PANEL, "right")
    assert (right.state, right.cause, right.detail) == ("abstained", "no_provider", "all are away")
    assert states(shown)["panel"] == "partly"


def test_a_dead_stage_is_failed_and_the_ones_after_it_are_still_shown() -> None:
    failed = {"seat": "consensus", "cause": "overloaded", "detail": "for too long"}
    shown = view(event("consensus.failed", failed), event("lead.signed", {**SIGNED, "rulings": []}))
    assert states(shown)["consensus"] == "failed"
    assert states(shown)["gate"] == "passed over"
    assert states(shown)["lead"] == "done"


def test_refuters_and_provers_that_gave_up_abstained() -> None:
    shown = view(event("gate.failed", {"seat": "claim-C1", "cause": "no_sandbox", "detail": "no engine"}))
    assert shown.latest.seat(Stage.GATE, "claim-C1").state == "abstained"


def test_a_claim_gathers_what_became_of_it() -> None:
    events = [
        event("candidate.written", CODE),
        event("consensus.counted", COUNTED),
        event("claim.refuted", REFUTED),
        event("claim.tested", TESTED),
        event("lead.signed", SIGNED),
    ]
    expected = ["proposed", "proposed", "survived", "reproduced", "reproduced"]
    for count in range(2, 6):
        (row,) = view(*events[:count]).latest.claims
        assert row.state == expected[count - 1]
    (row,) = view(*events, verdict={"claims": [{"claim": CLAIM, "state": "fixed"}]}).latest.claims
    assert row.state == "fixed"
    assert row.ruling is not None
    assert row.ruling["reason"] == "it is 2 now"


def test_a_claim_that_only_the_verdict_knows_is_listed() -> None:
    injected = {"claim": {**CLAIM, "claim_id": "I1"}, "state": "advisory"}
    shown = view(event("consensus.counted", COUNTED), verdict={"claims": [injected]})
    assert [row.claim_id for row in shown.latest.claims] == ["C1", "I1"]


def test_a_finding_without_evidence_says_why_it_was_not_counted() -> None:
    unsupported = {"finding_id": "left/1/1", "reviewer": "left", "reason": "there is no such line"}
    shown = view(
        event("review.arrived", {"seat": "left", "findings": [FINDING]}),
        event("consensus.counted", {**COUNTED, "claims": [], "unsupported": [unsupported]}),
    )
    assert shown.latest.seat(Stage.PANEL, "left").remarks[0].unsupported == "there is no such line"


def test_each_round_keeps_its_own_code_and_claims() -> None:
    shown = view(
        event("candidate.written", CODE),
        event("consensus.counted", COUNTED),
        event("round.opened", {"round": 2, "standing": ["x is wrong"], "killed": []}),
        event("candidate.written", {**CODE, "files": {"a.py": "x = 2\n"}}),
        times=(time(Stage.PANEL, "left", SeatState.PENDING, round_=2),),
    )
    assert [each.files for each in shown.rounds] == [{"a.py": "x = 1\ny = 2\n"}, {"a.py": "x = 2\n"}]
    assert [len(each.claims) for each in shown.rounds] == [1, 0]
    assert shown.latest.seat(Stage.PANEL, "left").state == "waiting"


def test_what_a_seat_waits_for_and_calls_is_said_beside_it() -> None:
    place = {"stage": "panel", "seat": "left"}
    for kind, payload, note in (
        ("seat.deferred", {**place, "wait_seconds": 30.0}, "waits 30 s for its provider"),
        ("seat.held", {**place, "scope": "batch"}, "held: the batch's budget is used up"),
        ("tool.called", {**place, "server": "docs", "tool": "find"}, "called docs.find"),
        ("tool.missing", {**place, "server": "docs", "cause": "refused"}, "has no tools of docs: refused"),
    ):
        assert view(event(kind, payload)).latest.seat(Stage.PANEL, "left").note == note


def test_models_that_failed_before_are_named_with_the_answer() -> None:
    tried = {"fallback": [{"model": "big", "cause": "overloaded"}], "low_quota": True}
    shown = view(event("candidate.written", {**CODE, **tried}))
    coder = shown.latest.one(Stage.CODER)
    assert coder is not None
    assert coder.note == "after big (overloaded); quota is low"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.tuples(st.sampled_from(KINDS), json_values), max_size=8))
def test_no_entry_that_somebody_changed_takes_the_others_down(entries: list[tuple[str, Any]]) -> None:
    events = [event(kind, payload) for kind, payload in entries]
    shown = view(*events, event("candidate.written", CODE))
    assert shown.latest.files == CODE["files"]
    assert len(story_of(events)) == len(events)


def test_every_kind_has_a_sentence_of_its_own() -> None:
    payloads: dict[str, dict[str, Any]] = {
        "run.created": {"team": "small"},
        "stage.opened": {"stage": "panel", "seats": ["left", "right"]},
        "candidate.written": CODE,
        "candidate.submitted": CODE,
        "review.arrived": {"seat": "left", "findings": [FINDING]},
        "review.abstained": {"seat": "left", "cause": "no_provider", "detail": "away"},
        "consensus.counted": COUNTED,
        "claim.refuted": REFUTED,
        "claim.tested": TESTED,
        "lead.signed": SIGNED,
        "round.opened": {"round": 2, "standing": ["x"]},
        "run.finished": {"outcome": "accepted"},
        "seat.deferred": {"stage": "panel", "seat": "left", "wait_seconds": 30.0, "detail": "busy"},
        "seat.held": {"stage": "gate", "seat": "claim-C1", "scope": "batch"},
        "budget.exhausted": {"stage": "lead", "seat": "lead", "scope": "run", "unit": "usd", "budget": 0.5},
        "tool.called": {"stage": "panel", "seat": "left", "server": "docs", "tool": "find"},
        "tool.missing": {"stage": "panel", "seat": "left", "server": "docs", "cause": "refused"},
        "coder.failed": {"seat": "coder", "cause": "empty_reply", "detail": "three times"},
    }
    said = {kind: sentence_of(event(kind, payloads.get(kind, {}))) for kind in [*payloads, "run.started"]}
    assert said == {
        "run.created": "submitted to small",
        "run.started": "started",
        "stage.opened": "2 reviewers asked: left, right",
        "candidate.written": "the code is there: a.py (2 lines)",
        "candidate.submitted": "code to be judged: a.py (2 lines)",
        "review.arrived": "review by left: 1 finding",
        "review.abstained": "left abstains: no provider, away",
        "consensus.counted": "1 claim counted",
        "claim.refuted": "C1 survived: true",
        "claim.tested": "C1 reproduced: 1 != 2",
        "lead.signed": "the lead signs: mended",
        "round.opened": "round 2: sent back with 1 claim",
        "run.finished": "ended: accepted",
        "seat.deferred": "reviewer left waits 30 s: busy",
        "seat.held": "gate C1 is held: the batch's budget is used up",
        "budget.exhausted": "lead: the run's budget of $0.5 is used up",
        "tool.called": "reviewer left called docs.find",
        "tool.missing": "reviewer left has no tools of docs: refused",
        "coder.failed": "coder gave up: empty reply, three times",
    }


def test_an_entry_that_is_gone_or_changed_says_so() -> None:
    assert sentence_of(event("lead.signed", None)) == "redacted"
    assert sentence_of(event("lead.signed", {"summary": 1})) == "the lead signs: 1"
    assert sentence_of(event("review.arrived", "text")) == "cannot be read"
    assert sentence_of(event("something.new", {})) == "something new"


def test_kills_say_their_ground_and_void_ones_what_they_lack() -> None:
    killed = {**REFUTED, "standing": "killed", "ground": "reachability", "reason": "nobody calls it"}
    assert sentence_of(event("claim.refuted", killed)) == "C1 killed, reachability: nobody calls it"
    void = {**REFUTED, "void": "it quotes nothing"}
    assert sentence_of(event("claim.refuted", void)) == "C1 survives: the kill is void, it quotes nothing"
