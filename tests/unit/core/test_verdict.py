"""The verdict over the closed space that decides it (PANEL §5), and what nobody can talk away."""

from __future__ import annotations

import dataclasses
import itertools
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import CODE, FILES, make_claim, make_finding, make_review
from tests.unit.core.test_clustering import panels
from workers.core.alarm import Triage
from workers.core.artefact import Span
from workers.core.claim import ClaimState
from workers.core.consensus import Proposal, tally
from workers.core.finding import Abstention, Review, Severity
from workers.core.judgement import FixCheck, FixWord, JudgedClaim, Proved, Ruling, RulingWord, Spent
from workers.core.proof import Proof
from workers.core.receipt import RoundsReceipt, TestReceipt
from workers.core.refutation import Refuted, Standing
from workers.core.run import Outcome
from workers.core.slices import LeftOut
from workers.core.team import Policy, Quorum
from workers.core.verdict import Case, StageFailure, decide, judged_alarms
from workers.core.weights import Record

FIXED = {"a.py": CODE.replace("line_3 = 3", "line_3 = 33")}
AT_THE_FIX = (Span(path="a.py", start=3, end=3),)
ELSEWHERE = (Span(path="a.py", start=8, end=9),)


def panel_of(flaggers: int, *, severity: Severity = Severity.MEDIUM, size: int = 3) -> list[Review]:
    names = ["edges", "rigor", "spec", "craft", "safety"][:size]
    return [
        make_review(name, *([make_finding(reviewer=name, severity=severity)] if number < flaggers else []))
        for number, name in enumerate(names)
    ]


def make_case(reviews: list[Review] | None = None, **changes: Any) -> Case:
    """Three reviewers of three families, two of whom flag one medium claim; signed as it was."""
    reviews = panel_of(2) if reviews is None else reviews
    values: dict[str, Any] = {
        "policy": Policy(),
        "panel_size": 3,
        "coder_model": "local/coder",
        "candidate": FILES,
        "signed": FILES,
        "reviews": reviews,
        "abstentions": (),
        "tally": tally(reviews, FILES),
    }
    return Case(**{**values, **changes})


def ruled(word: RulingWord, *changed: Span) -> tuple[Ruling, ...]:
    return (Ruling(claim_id="C1", ruling=word, reason="because", changed=changed),)


# --- the closed space ------------------------------------------------------------------------------------

FAILURES = [(), ("coder",), ("consensus",), ("lead",), ("consensus", "lead")]
SPACE = list(
    itertools.product(
        FAILURES,
        [1, 2, 3],  # valid reviews; the quorum asks for 2 heads of 2 families
        [0, 1, 2, 3],  # of them flag the claim
        list(Severity),
        [None, "upheld", "dismissed", "fixed here", "fixed elsewhere", "fixed nowhere"],
        [False, True],  # whether line 3 of the signed code really changed
    )
)


def expected_outcome(
    failures: tuple[str, ...],
    valid: int,
    flaggers: int,
    severity: Severity,
    ruling: str | None,
    changed: bool,
) -> Outcome:
    """PANEL §5, written down a second time as one column of conditions."""
    if failures or valid < 2:
        return Outcome.DEGRADED
    if min(flaggers, valid) < 2:
        return Outcome.ACCEPTED  # nobody agrees
    if severity is not Severity.MEDIUM:
        return Outcome.ACCEPTED  # low never rejects, high and critical are advisory without a gate
    if ruling == "fixed here" and changed:
        return Outcome.ACCEPTED
    return Outcome.REJECTED


def test_every_point_of_the_space_has_the_outcome_of_the_page() -> None:
    rulings = {
        None: (),
        "upheld": ruled("upheld"),
        "dismissed": ruled("dismissed"),
        "fixed here": ruled("fixed", *AT_THE_FIX),
        "fixed elsewhere": ruled("fixed", *ELSEWHERE),
        "fixed nowhere": ruled("fixed"),
    }
    wrong = []
    for point in SPACE:
        failures, valid, flaggers, severity, ruling, changed = point
        case = make_case(
            panel_of(flaggers, severity=severity, size=valid),
            rulings=rulings[ruling],
            signed=None if "lead" in failures or "coder" in failures else FIXED if changed else FILES,
            failures=tuple(StageFailure(stage=stage, cause="timeout", detail="d") for stage in failures),
        )
        if decide(case).outcome is not expected_outcome(*point):
            wrong.append(point)
    assert len(SPACE) == 5 * 3 * 4 * 4 * 6 * 2
    assert wrong == []


# --- degraded --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["coder", "consensus", "lead"])
def test_a_missing_stage_is_a_typed_reason_with_its_cause(stage: str) -> None:
    failure = StageFailure(stage=stage, cause="overloaded", detail="the provider was overloaded")
    verdict = decide(make_case(failures=(failure,)))
    assert [dataclasses.astuple(reason) for reason in verdict.reasons] == [
        (f"{stage}_missing", "overloaded", "the provider was overloaded")
    ]


def test_reasons_come_in_stage_order_whatever_order_they_are_told_in() -> None:
    failures = [StageFailure(stage=stage, cause="c", detail="d") for stage in ("lead", "consensus")]
    for told in (failures, failures[::-1]):
        verdict = decide(make_case(panel_of(0, size=1), failures=told, signed=None))
        assert [reason.code for reason in verdict.reasons] == [
            "consensus_missing",
            "lead_missing",
            "quorum_not_met",
        ]


def test_too_few_valid_reviews_say_how_many_came_and_how_many_were_needed() -> None:
    (reason,) = decide(make_case(panel_of(1, size=1))).reasons
    assert (reason.code, reason.cause) == ("quorum_not_met", "abstentions")
    assert reason.detail == "1 of 3 reviewers gave a valid review; the team's quorum is 2"


def test_a_dead_coder_is_one_reason_and_not_also_a_missing_panel_and_lead() -> None:
    failure = StageFailure(stage="coder", cause="refused", detail="d")
    verdict = decide(make_case([], candidate={}, signed=None, coder_model=None, failures=(failure,)))
    assert [reason.code for reason in verdict.reasons] == ["coder_missing"]
    assert verdict.files == {}
    assert not verdict.signed_by_lead


def test_code_that_no_lead_signed_is_never_accepted() -> None:
    verdict = decide(make_case(panel_of(0), signed=None))
    assert verdict.outcome is Outcome.DEGRADED
    assert [reason.code for reason in verdict.reasons] == ["lead_missing"]


def test_a_degraded_run_carries_the_coder_s_code() -> None:
    failure = StageFailure(stage="lead", cause="timeout", detail="d")
    verdict = decide(make_case(signed=None, failures=(failure,)))
    assert (verdict.files, verdict.signed_by_lead) == (FILES, False)
    assert verdict.claims[0].stands, "degraded wins over rejected, and still says what stands"


# --- claims ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("flaggers", "severity", "ruling", "signed", "state", "stands"),
    [
        (2, Severity.MEDIUM, (), FILES, ClaimState.UPHELD, True),
        (2, Severity.LOW, (), FILES, ClaimState.UPHELD, True),  # stands, and is too mild to reject
        (2, Severity.MEDIUM, ruled("dismissed"), FILES, ClaimState.UPHELD, True),
        (2, Severity.MEDIUM, ruled("fixed", *AT_THE_FIX), FIXED, ClaimState.FIXED, False),
        (2, Severity.MEDIUM, ruled("fixed", *AT_THE_FIX), FILES, ClaimState.UPHELD, True),
        (2, Severity.MEDIUM, ruled("fixed", *ELSEWHERE), FIXED, ClaimState.UPHELD, True),
        (2, Severity.MEDIUM, ruled("fixed"), FIXED, ClaimState.UPHELD, True),
        (2, Severity.HIGH, (), FILES, ClaimState.ADVISORY, False),
        (3, Severity.CRITICAL, ruled("upheld"), FILES, ClaimState.ADVISORY, False),  # unanimity is no proof
        (2, Severity.HIGH, ruled("dismissed"), FILES, ClaimState.ADVISORY, False),
        (1, Severity.MEDIUM, (), FILES, ClaimState.ADVISORY, False),
        (1, Severity.MEDIUM, ruled("upheld"), FILES, ClaimState.ADVISORY, False),  # the lead promotes nothing
        (1, Severity.CRITICAL, ruled("dismissed"), FILES, ClaimState.DISMISSED, False),
        (1, Severity.MEDIUM, ruled("fixed", *AT_THE_FIX), FIXED, ClaimState.FIXED, False),
    ],
)
def test_where_a_claim_ends(
    flaggers: int,
    severity: Severity,
    ruling: tuple[Ruling, ...],
    signed: dict[str, str],
    state: ClaimState,
    stands: bool,
) -> None:
    verdict = decide(make_case(panel_of(flaggers, severity=severity), rulings=ruling, signed=signed))
    (judged,) = verdict.claims
    assert (judged.state, judged.stands) == (state, stands)
    assert judged.why
    assert judged.ruling == (ruling[0].ruling if ruling else None)


@pytest.mark.parametrize(
    "line",
    ["line_3 = 3  # checked", "# overflow handled\nline_3 = 3", "line_3   =   3", "\nline_3 = 3", "line_3=3"],
)
def test_a_comment_or_white_space_is_no_fix(line: str) -> None:
    signed = {"a.py": CODE.replace("line_3 = 3", line)}
    whole_file = Span(path="a.py", start=1, end=99)
    verdict = decide(make_case(signed=signed, rulings=ruled("fixed", whole_file)))
    assert verdict.outcome is Outcome.REJECTED
    assert verdict.claims[0].why == "agreed; the fix that the lead reports changes nothing where it points"


@pytest.mark.parametrize(
    ("ruling", "why"),
    [
        ((), "agreed and not fixed"),
        (ruled("upheld"), "agreed and not fixed"),
        (ruled("dismissed"), "agreed; the lead may not dismiss what the quorum upholds"),
        (ruled("fixed"), "agreed; the fix that the lead reports changes nothing where it points"),
    ],
)
def test_why_an_agreed_claim_stands_is_told(ruling: tuple[Ruling, ...], why: str) -> None:
    assert decide(make_case(rulings=ruling)).claims[0].why == why


def test_a_change_in_another_file_is_no_change_where_the_lead_points() -> None:
    signed = {**FILES, "b.py": "x = 1\n"}
    assert decide(make_case(signed=signed, rulings=ruled("fixed", *AT_THE_FIX))).outcome is Outcome.REJECTED


def test_a_ruling_on_a_claim_that_is_not_there_changes_nothing() -> None:
    ghost = (Ruling(claim_id="C9", ruling="fixed", changed=AT_THE_FIX),)
    assert decide(make_case(rulings=ghost, signed=FIXED)).outcome is Outcome.REJECTED


# --- the quorum ------------------------------------------------------------------------------------------


def of_families(*families: str, flaggers: int) -> list[Review]:
    return [
        make_review(
            f"r{number}",
            *([make_finding(reviewer=f"r{number}")] if number < flaggers else []),
            family=family,
        )
        for number, family in enumerate(families)
    ]


@pytest.mark.parametrize(
    ("families", "flaggers", "quorum", "threshold", "outcome"),
    [
        (("f", "f", "g"), 2, (2, 2), 0.0, Outcome.ACCEPTED),  # two heads of one family
        (("f", "g", "h"), 2, (2, 2), 0.0, Outcome.REJECTED),
        (("f", "g", "h"), 2, (3, 2), 0.0, Outcome.ACCEPTED),  # two heads of three asked for
        (("f", "g", "h"), 2, (2, 3), 0.0, Outcome.ACCEPTED),  # two families of three asked for
        (("f", "g", "h"), 2, (2, 2), 0.667, Outcome.REJECTED),  # weighted 2/3: at the threshold counts
        (("f", "g", "h"), 2, (2, 2), 0.668, Outcome.ACCEPTED),
        (("f", "g", "g", "g"), 2, (2, 2), 0.6, Outcome.REJECTED),  # (1 + 1/3) / 2 = 0.667
        (("f", "g", "g", "g", "g"), 2, (2, 2), 0.63, Outcome.ACCEPTED),  # (1 + 1/4) / 2 = 0.625
        (("f", "g", "h", "i", "j"), 5, (5, 2), 0.6, Outcome.REJECTED),  # the strict policy
        (("f", "g", "h", "i", "j"), 4, (5, 2), 0.6, Outcome.ACCEPTED),
    ],
)
def test_heads_families_and_weight_must_all_reach(
    families: tuple[str, ...], flaggers: int, quorum: tuple[int, int], threshold: float, outcome: Outcome
) -> None:
    policy = Policy(quorum=Quorum(heads=quorum[0], families=quorum[1]), threshold=threshold)
    verdict = decide(make_case(of_families(*families, flaggers=flaggers), policy=policy))
    assert verdict.outcome is outcome
    assert verdict.claims[0].stands is (outcome is Outcome.REJECTED)


def test_a_panel_of_one_family_can_still_reject_and_says_that_it_was_one() -> None:
    """With a single provider's key no claim could reach two families: everything would be accepted."""
    verdict = decide(make_case(of_families("f", "f", "f", flaggers=2)))
    assert verdict.outcome is Outcome.REJECTED
    assert "reduced_diversity" in verdict.notes


def test_what_falls_short_says_by_what() -> None:
    few = decide(make_case(panel_of(1))).claims[0].why
    assert few == "flagged by 1 of the 2 heads and 1 of the 2 families that the quorum asks for"
    strict = decide(make_case(policy=Policy(quorum=Quorum(heads=2, families=3)))).claims[0].why
    assert strict == "flagged by 2 of the 2 heads and 2 of the 3 families that the quorum asks for"
    light = decide(make_case(policy=Policy(threshold=0.9))).claims[0].why
    assert light == "weighted agreement 0.667 is below the threshold 0.9"


# --- notes and receipt -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("panel", "coder", "is_reduced"),
    [
        ({"f": "p/one", "g": "p/two"}, "p/coder", False),
        ({"f": "p/one"}, "p/coder", True),  # one family
        ({"f": "p/one", "g": "p/two"}, "p/one", True),  # the coder's model sits on the panel
        ({"f": "p/one", "g": "p/two"}, "router/p/two", True),  # whoever serves it
        ({}, None, False),  # nobody reviewed: there is nothing whose diversity is reduced
    ],
)
def test_reduced_diversity_is_noted(panel: dict[str, str], coder: str | None, is_reduced: bool) -> None:
    reviews = [
        dataclasses.replace(make_review(f"r-{family}", family=family), model=model)
        for family, model in panel.items()
    ]
    assert ("reduced_diversity" in decide(make_case(reviews, coder_model=coder)).notes) is is_reduced


def test_an_untested_fix_is_noted_and_only_then() -> None:
    fixed = make_case(signed=FIXED, rulings=ruled("fixed", *AT_THE_FIX))
    assert decide(fixed).notes == ("fix_unverified",)
    assert decide(make_case(signed=FIXED, rulings=ruled("fixed", *ELSEWHERE))).notes == ()


@pytest.mark.parametrize(
    ("proof", "reason", "guards", "note"),
    [
        (Proof.REPRODUCED, "fails_on_code", 0, ("unguarded_proof",)),
        (Proof.REPRODUCED, "fails_on_code", 1, ()),
        (Proof.REPRODUCED, "fails_on_code", None, ()),
        (Proof.NOT_REPRODUCED, "passes_on_code", 0, ()),
        (Proof.INCONCLUSIVE, "code_tampers", 0, ("tampering",)),
        (Proof.INCONCLUSIVE, "control_tampers", 0, ()),
    ],
)
def test_the_receipt_says_how_strong_a_proof_is(
    proof: Proof, reason: str, guards: int | None, note: tuple[str, ...]
) -> None:
    proved = Proved(claim_id="C1", proof=proof, reason=reason, detail="d", guards=guards)
    verdict = decide(make_case(proved=(proved,)))

    assert verdict.notes == note
    assert verdict.as_data()["gate"].get("unguarded") == (("C1",) if "unguarded_proof" in note else None)


def test_the_receipt_says_who_was_missing_and_what_was_neither_counted_nor_tested() -> None:
    invented = make_finding(reviewer="spec", line=99)
    reviews = [*panel_of(2, severity=Severity.HIGH, size=2), make_review("spec", invented)]
    away = (
        Abstention(reviewer="safety", cause="timeout", detail="d"),
        Abstention(reviewer="craft", cause="torn", detail="d"),
    )
    coverage = decide(make_case(reviews, abstentions=away, panel_size=5)).coverage
    assert (coverage.valid_reviews, coverage.panel_size) == (3, 5)
    assert [item.reviewer for item in coverage.abstained] == ["craft", "safety"]
    assert coverage.unsupported_findings == 1
    assert coverage.ungated_claims == ("C1",)


# --- plain data ------------------------------------------------------------------------------------------


def test_the_data_speaks_in_words_and_is_json() -> None:
    data = decide(make_case(signed=FIXED, rulings=ruled("fixed", *AT_THE_FIX))).as_data()
    assert json.loads(json.dumps(data, allow_nan=False)) == json.loads(json.dumps(data))
    assert data["outcome"] == "accepted"
    assert data["claims"][0]["state"] == "fixed"
    assert data["claims"][0]["claim"]["severity"] == "medium"
    assert data["claims"][0]["claim"]["agreement"] == 0.667
    assert data["files"] == FIXED


def test_what_was_not_done_leaves_no_trace_in_the_data() -> None:
    data = decide(make_case()).as_data()
    assert set(data) == {
        "outcome",
        "reasons",
        "claims",
        "coverage",
        "notes",
        "files",
        "signed_by_lead",
    }
    assert data["coverage"]["ungated_claims"] == (), "a medium claim needs no test"
    assert set(data["coverage"]) == {
        "valid_reviews",
        "panel_size",
        "abstained",
        "unsupported_findings",
        "ungated_claims",
    }


def test_of_submitted_code_the_data_say_what_changed_and_what_nobody_saw() -> None:
    gone = LeftOut(path="c.bin", reason="binary")
    everywhere = Span(path="a.py", start=9, end=10)
    case = make_case(
        is_submitted=True,
        candidate={**FILES, "z.py": "x = 1\n"},
        signed={"z.py": "x = 2\n", **FIXED},
        left_out=[gone],
        hidden={
            "edges": [everywhere],
            "rigor": [everywhere, Span(path="a.py", start=1, end=1)],
            "spec": [everywhere, Span(path="a.py", start=1, end=1)],
            "nobody": [Span(path="a.py", start=1, end=10)],
        },
    )
    verdict = decide(case)
    assert verdict.changed_files == ("a.py", "z.py")
    assert verdict.coverage.left_out == (gone,)
    assert verdict.coverage.not_reviewed == (everywhere,)
    assert verdict.coverage.thinly_reviewed == (Span(path="a.py", start=1, end=1),)
    assert "code_submitted" in verdict.notes
    data = verdict.as_data()
    assert data["changed_files"] == ("a.py", "z.py")
    assert list(data["files"]) == ["a.py", "z.py"]
    bare = decide(make_case(is_submitted=True)).as_data()
    assert (bare["changed_files"], bare["coverage"]["left_out"]) == ((), ())
    coder_s = decide(dataclasses.replace(case, is_submitted=False)).as_data()
    assert "changed_files" not in coder_s
    assert list(coder_s["coverage"]["not_reviewed"]) == [dataclasses.asdict(everywhere)]


ABSENT = Proved(claim_id="C1", proof=Proof.UNPROVABLE, reason="no_sandbox", detail="no engine answers")


@pytest.mark.parametrize(
    ("gate", "proved", "causes"),
    [
        ("required", (ABSENT,), ["no_sandbox"]),
        ("auto", (ABSENT,), []),
        ("required", (dataclasses.replace(ABSENT, reason="cage_failed"), ABSENT), ["cage_failed"]),
        ("required", (dataclasses.replace(ABSENT, reason="no_test"),), []),
        ("required", (dataclasses.replace(ABSENT, proof=Proof.INCONCLUSIVE),), []),
        ("required", (), []),
    ],
)
def test_a_team_that_requires_the_gate_is_not_served_without_a_cage(
    gate: str, proved: tuple[Proved, ...], causes: list[str]
) -> None:
    reasons = decide(make_case(policy=Policy.model_validate({"gate": gate}), proved=proved)).reasons
    assert [(reason.code, reason.cause, reason.detail) for reason in reasons] == [
        ("gate_missing", cause, "no engine answers") for cause in causes
    ]


def test_a_missing_cage_does_not_hide_what_else_was_missing() -> None:
    failure = StageFailure(stage="lead", cause="timeout", detail="d")
    case = make_case(policy=Policy(gate="required"), proved=(ABSENT,), failures=(failure,), signed=None)
    assert [reason.code for reason in decide(case).reasons] == ["lead_missing", "gate_missing"]


def test_earned_weights_are_on_the_receipt() -> None:
    reviews = panel_of(2)
    counted = dataclasses.replace(tally(reviews, FILES), records={"edges": Record(upheld=3, refuted=1)})
    verdict = decide(make_case(reviews, tally=counted))
    assert [(item.reviewer, item.upheld) for item in verdict.weights] == [
        ("edges", 3),
        ("rigor", 0),
        ("spec", 0),
    ]
    assert len(verdict.as_data()["weights"]) == 3


def test_unsigned_code_has_its_reason_in_words() -> None:
    (reason,) = decide(make_case(signed=None)).reasons
    assert (reason.code, reason.cause, reason.detail) == (
        "lead_missing",
        "unsigned",
        "no lead signed the code",
    )


@pytest.mark.parametrize("is_dismissed", [True, False])
def test_an_alarm_that_is_not_dismissed_stands(is_dismissed: bool) -> None:
    claim = make_claim("A1", severity=Severity.LOW, flagged_by=())  # nobody accuses it
    (judged,) = judged_alarms([Triage(claim=claim, is_dismissed=is_dismissed, why="because")])
    assert judged == JudgedClaim(
        claim=claim,
        state=ClaimState.DISMISSED if is_dismissed else ClaimState.UPHELD,
        is_agreed=is_dismissed,
        stands=not is_dismissed,
        why="because",
    )
    verdict = decide(make_case(judged=(judged,)))
    assert verdict.claims == (judged,)
    assert verdict.notes == ("only_alarms_judged",)


RECEIPT = TestReceipt(
    green_before=(), green_after=(), red_after=(), red_submitted=(), is_rewrite_discarded=False
)


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"tests": dataclasses.replace(RECEIPT, red_after=("t",))}, "tests_failing"),
        ({"tests": dataclasses.replace(RECEIPT, is_rewrite_discarded=True)}, "rewrite_discarded"),
        ({"rounds": RoundsReceipt(count=2, stopped="oscillation")}, "oscillation"),
        ({"policy": Policy(coder_tests=True)}, "no_tests"),
        ({"is_submitted": True}, "code_submitted"),
        ({"tests": RECEIPT}, None),
        ({"rounds": RoundsReceipt(count=2, stopped="signed")}, None),
        ({"policy": Policy(coder_tests=True), "tests": RECEIPT}, None),
        ({"policy": Policy(coder_tests=True), "signed": None}, None),
    ],
)
def test_what_a_reader_should_know_is_noted(changes: dict[str, Any], note: str | None) -> None:
    assert decide(make_case(**changes)).notes == ((note,) if note else ())


def test_the_receipts_are_of_the_claims_that_were_judged() -> None:
    refuted = Refuted(
        claim_id="C1", standing=Standing.SURVIVED, ground=None, reason="r", void="", is_same_family=False
    )
    verdict = decide(
        make_case(
            refuted=[refuted],
            proved=[dataclasses.replace(ABSENT, reason="no_test")],
            fixes=[FixCheck(claim_id="C1", word=FixWord.STANDS)],
            spent=[Spent(claim_id="C1", cost_usd=0.25, seconds=2.0)],
            unanswered=["C2"],
            not_refuted=["C3"],
            not_tested=["C4"],
            rounds=RoundsReceipt(count=1, stopped="signed"),
            tests=RECEIPT,
        )
    )
    assert verdict.refutation is not None
    assert verdict.gate is not None
    assert (verdict.refutation.asked, verdict.refutation.unanswered) == (2, ("C2",))
    assert (verdict.refutation.left_out, verdict.gate.left_out) == (("C3",), ("C4",))
    assert verdict.gate.undecided == (("C1", "no_test"),)
    assert [(cost.claims, cost.cost_usd) for cost in verdict.costs] == [(1, 0.25)]
    (judged,) = verdict.claims
    assert (judged.refuted, judged.fix, judged.spent) == (
        refuted,
        FixCheck(claim_id="C1", word=FixWord.STANDS),
        Spent(claim_id="C1", cost_usd=0.25, seconds=2.0),
    )
    assert set(verdict.as_data()) >= {"refutation", "gate", "costs", "tests", "rounds"}
    assert (verdict.tests, verdict.rounds) == (RECEIPT, RoundsReceipt(count=1, stopped="signed"))


@pytest.mark.parametrize(
    ("severity", "coder_tests", "red", "outcome"),
    [
        (Severity.LOW, True, ("t",), Outcome.REJECTED),
        (Severity.LOW, False, ("t",), Outcome.ACCEPTED),
        (Severity.LOW, True, (), Outcome.ACCEPTED),
        (Severity.MEDIUM, True, (), Outcome.REJECTED),
    ],
)
def test_a_submitted_test_that_fails_rejects_where_the_team_runs_them(
    severity: Severity, coder_tests: bool, red: tuple[str, ...], outcome: Outcome
) -> None:
    case = make_case(
        panel_of(2, severity=severity),
        policy=Policy(coder_tests=coder_tests),
        tests=dataclasses.replace(RECEIPT, red_submitted=red),
    )
    assert decide(case).outcome is outcome


@given(panels(), st.randoms(use_true_random=False), st.data())
def test_equal_cases_give_equal_bytes_in_whatever_order_things_arrived(
    reviews: list[Review], chance: random.Random, data: st.DataObject
) -> None:
    counted = tally(reviews, FILES)
    rulings = [
        Ruling(
            claim_id=claim.claim_id,
            ruling=data.draw(st.sampled_from(["fixed", "upheld", "dismissed"])),
            changed=data.draw(st.sampled_from([(), AT_THE_FIX, ELSEWHERE])),
        )
        for claim in counted.claims
    ]
    away = [Abstention(reviewer=name, cause="torn", detail="d") for name in ("x", "y", "z")]
    failures = [StageFailure(stage=stage, cause="c", detail="d") for stage in ("consensus", "lead")]

    def verdict_of(order: random.Random | None) -> str:
        def shuffled(items: list[Any]) -> list[Any]:
            return order.sample(items, len(items)) if order else items

        arrived = shuffled(reviews)
        case = make_case(
            arrived,
            tally=tally(arrived, FILES),
            rulings=shuffled(rulings),
            abstentions=shuffled(away),
            failures=shuffled(failures),
            signed=dict(shuffled(list({**FIXED, "b.py": "x = 1\n"}.items()))),
        )
        return json.dumps(decide(case).as_data())

    assert verdict_of(chance) == verdict_of(None)


@given(panels(), st.data())
def test_no_word_of_the_lead_alone_lifts_a_claim_that_the_quorum_upholds(
    reviews: list[Review], data: st.DataObject
) -> None:
    silent = decide(make_case(reviews))
    rulings = [
        Ruling(
            claim_id=judged.claim.claim_id,
            ruling=data.draw(st.sampled_from(["fixed", "upheld", "dismissed"])),
            changed=(Span(path="a.py", start=1, end=99),),
        )
        for judged in silent.claims
    ]
    talked = decide(make_case(reviews, rulings=rulings))
    assert [item.stands for item in talked.claims] == [item.stands for item in silent.claims]
    assert talked.outcome is silent.outcome


def test_a_merge_that_joins_two_heads_makes_a_claim_stand() -> None:
    reviews = [
        make_review("edges", make_finding("alpha bravo", reviewer="edges", line=3)),
        make_review("rigor", make_finding("charlie delta", reviewer="rigor", line=4)),
    ]
    assert decide(make_case(reviews)).outcome is Outcome.ACCEPTED
    merged = tally(reviews, FILES, proposals=[Proposal(claim_ids=("C1", "C2"))])
    assert decide(make_case(reviews, tally=merged)).outcome is Outcome.REJECTED


def test_noise_between_passes_stands_under_no_quorum_and_a_steady_head_does() -> None:
    policy = Policy(quorum=Quorum(heads=1, families=1))
    for steady in (False, True):
        reviews = panel_of(1)
        flagger = dataclasses.replace(reviews[0], passes=1 if steady else 3)
        reviews = [flagger, *reviews[1:]]
        verdict = decide(make_case(reviews, policy=policy, tally=tally(reviews, FILES)))
        (judged,) = verdict.claims
        assert judged.stands is steady
        assert verdict.outcome is (Outcome.REJECTED if steady else Outcome.ACCEPTED)
        assert (judged.why == "seen by one head in one of its passes only") is not steady


def test_a_team_that_runs_tests_says_when_there_were_none() -> None:
    ran = TestReceipt(
        green_before=(), green_after=("t.py::t",), red_after=(), red_submitted=(), is_rewrite_discarded=False
    )
    assert "no_tests" in decide(make_case(policy=Policy(coder_tests=True))).notes
    assert "no_tests" not in decide(make_case(policy=Policy(coder_tests=True), tests=ran)).notes
    assert "no_tests" not in decide(make_case(policy=Policy(coder_tests=True), signed=None)).notes
    assert "no_tests" not in decide(make_case()).notes
