"""What refuters and the gate did and cost, counted by hand."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from tests.factories import FILES, make_claim, make_finding, make_review
from workers.core.claim import ClaimState
from workers.core.consensus import tally
from workers.core.judgement import JudgedClaim, Proved, Spent
from workers.core.proof import Proof
from workers.core.receipt import (
    Cost,
    GateReceipt,
    RefuterReceipt,
    WeightReceipt,
    costs,
    count_proofs,
    count_refutations,
    weights_used,
)
from workers.core.refutation import Refuted, Standing
from workers.core.weights import Record


def judged(claim_id: str = "C1", **known: Any) -> JudgedClaim:
    values: dict[str, Any] = {
        "claim": make_claim(claim_id),
        "state": ClaimState.UPHELD,
        "is_agreed": True,
        "stands": True,
        "why": "agreed",
    }
    return JudgedClaim(**{**values, **known})


def refuted(standing: Standing, *, void: str = "", is_same_family: bool = False) -> JudgedClaim:
    found = Refuted(
        claim_id="C1",
        standing=standing,
        ground=None,
        reason="r",
        void=void,
        is_same_family=is_same_family,
    )
    return judged(refuted=found)


def proved(claim_id: str, proof: Proof, guards: int | None = 1) -> JudgedClaim:
    found = Proved(claim_id=claim_id, proof=proof, reason=f"reason of {claim_id}", detail="d", guards=guards)
    return judged(claim_id, proved=found)


def test_refutations_are_counted_by_how_they_ended() -> None:
    answers = [
        judged(),
        refuted(Standing.KILLED),
        refuted(Standing.SURVIVED, void="the kill quotes nothing", is_same_family=True),
        refuted(Standing.SURVIVED, is_same_family=True),
    ]
    # Three answered and two did not; one of the three who answered killed.
    assert count_refutations(answers, unanswered=["C8", "C7"], left_out=["C9", "C10"]) == RefuterReceipt(
        asked=5,
        killed=1,
        void=1,
        same_family=2,
        kill_rate=0.333,
        unanswered=("C7", "C8"),
        left_out=("C10", "C9"),
    )


@pytest.mark.parametrize(("unanswered", "left_out"), [(["C1"], []), ([], ["C1"])])
def test_a_refuter_who_was_wanted_and_not_asked_is_on_the_receipt(
    unanswered: list[str], left_out: list[str]
) -> None:
    found = count_refutations([judged()], unanswered=unanswered, left_out=left_out)
    assert found is not None
    assert (found.asked, found.killed, found.kill_rate) == (len(unanswered), 0, 0.0)
    assert (found.unanswered, found.left_out) == (tuple(unanswered), tuple(left_out))


def test_what_was_not_done_has_no_receipt() -> None:
    assert count_refutations([judged()], unanswered=(), left_out=()) is None
    assert count_proofs([judged()], left_out=()) is None
    assert costs([judged()]) == ()


def test_proofs_are_counted_by_how_they_ended() -> None:
    proofs = [
        judged("C9"),
        proved("C1", Proof.REPRODUCED, guards=0),
        proved("C2", Proof.REPRODUCED),
        proved("C3", Proof.REPRODUCED),
        proved("C4", Proof.NOT_REPRODUCED),
        proved("C5", Proof.NOT_REPRODUCED),
        proved("C6", Proof.UNPROVABLE),
        proved("C7", Proof.INCONCLUSIVE),
    ]
    assert count_proofs(proofs, left_out=["C11", "C10"]) == GateReceipt(
        tested=7,
        reproduced=3,
        not_reproduced=2,
        inconclusive=1,
        unprovable=1,
        undecided=(("C6", "reason of C6"), ("C7", "reason of C7")),
        left_out=("C10", "C11"),
        unguarded=("C1",),
    )
    none_tested = count_proofs([judged()], left_out=["C1"])
    assert none_tested is not None
    assert (none_tested.tested, none_tested.left_out) == (0, ("C1",))


def spent(cost_usd: float | None, seconds: float, cage_seconds: float) -> Spent:
    return Spent(claim_id="C1", cost_usd=cost_usd, seconds=seconds, cage_seconds=cage_seconds)


def test_costs_are_summed_by_the_state_in_which_claims_ended() -> None:
    claims = [
        judged(spent=spent(0.1, 1.5, 10.0)),
        judged(spent=spent(0.2000004, 0.25, 0.0004)),
        judged(),
        judged(state=ClaimState.KILLED, spent=spent(0.5, 2.0, 0.0)),
        judged(state=ClaimState.KILLED, spent=spent(None, 1.0006, 0.0)),
        judged(state=ClaimState.ADVISORY, spent=spent(0.0000026, 0.0, 0.0)),
    ]
    by_state = {cost.state: cost for cost in costs(claims)}
    assert by_state == {
        # 0.3000004 in millionths; 10.0004 in thousandths.
        ClaimState.UPHELD: Cost(
            state=ClaimState.UPHELD, claims=2, cost_usd=0.3, seconds=1.75, cage_seconds=10.0
        ),
        # Of one of them nobody knows the price.
        ClaimState.KILLED: Cost(
            state=ClaimState.KILLED, claims=2, cost_usd=None, seconds=3.001, cage_seconds=0.0
        ),
        ClaimState.ADVISORY: Cost(
            state=ClaimState.ADVISORY, claims=1, cost_usd=0.000003, seconds=0.0, cage_seconds=0.0
        ),
    }
    assert [cost.state for cost in costs(claims)] == [state for state in ClaimState if state in by_state]


def test_thousandths_of_cage_seconds_are_kept() -> None:
    (cost,) = costs([judged(spent=spent(0.0, 0.0, 1.2344)), judged(spent=spent(0.0, 0.0, 1.0))])
    assert cost.cage_seconds == 2.234


def test_earned_weights_are_told_with_the_records_they_come_from() -> None:
    reviews = [make_review("rigor", make_finding()), make_review("edges")]
    counted = tally(reviews, FILES)
    assert weights_used(counted) == (), "all are new"
    earned = dataclasses.replace(
        counted,
        weights={"rigor": 0.84375, "edges": 0.5},
        records={"rigor": Record(upheld=26, refuted=4)},
    )
    assert weights_used(earned) == (
        WeightReceipt(reviewer="edges", weight=0.5, upheld=0, refuted=0),
        WeightReceipt(reviewer="rigor", weight=0.844, upheld=26, refuted=4),
    )
