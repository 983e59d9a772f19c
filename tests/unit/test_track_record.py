"""What the rows of a run that ends teach of its reviewers' models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.factories import make_claim
from workers.core.claim import Claim
from workers.core.consensus import Tally
from workers.core.run import SeatState, Stage
from workers.core.weights import Record
from workers.provenance.repository.stages import SeatKey, SeatRow
from workers.stages.tallied import tally_data, tally_of
from workers.stages.track_record import earned_in


def row(stage: Stage, seat: str, result: Mapping[str, Any] | None) -> SeatRow:
    return SeatRow(
        key=SeatKey(run_id="run_1", round=1, stage=stage, seat=seat),
        state=SeatState.DONE if result else SeatState.ABSTAINED,
        cause=None,
        detail=None,
        result=result,
        rescues=0,
        started_at=None,
        finished_at=None,
    )


def review(seat: str, link: str, *, simulated: bool = False) -> SeatRow:
    provider, _, model = link.partition("/")
    who = {"provider": provider, "model": model, "family": model, "simulated": simulated}
    return row(Stage.PANEL, seat, {"seat": seat, "findings": [], "summary": "", **who})


def counted(*claims: Claim) -> SeatRow:
    tally = Tally(claims=claims, unsupported=(), reviewers=("left", "right"), weights={})
    return row(Stage.CONSENSUS, "consensus", tally_data(tally))


def gate_row(claim_id: str, proof: str, *, reason: str = "r", simulated: bool = False) -> SeatRow:
    result = {"claim": claim_id, "proof": proof, "reason": reason, "detail": "", "guards": 1}
    return row(Stage.GATE, f"claim-{claim_id}", {**result, "simulated": simulated})


PANEL = [review("left", "openrouter/maker/Birch-1"), review("right", "local/cedar-1")]
BOTH = counted(make_claim("C1", flagged_by=("left", "right")), make_claim("C2", flagged_by=("right",)))


def test_a_claim_that_was_reproduced_and_then_mended_counts() -> None:
    first = [*PANEL, BOTH, gate_row("C1", "reproduced"), gate_row("C2", "not_reproduced")]
    second = [*PANEL, counted()]

    assert earned_in([first, second]) == {"birch-1": Record(upheld=1), "cedar-1": Record(upheld=1, refuted=1)}


def test_rounds_add_up_to_half_a_record_at_most() -> None:
    once = [*PANEL, BOTH, gate_row("C1", "reproduced")]

    assert earned_in([once] * 7)["birch-1"] == Record(upheld=7)
    assert earned_in([once] * 30)["birch-1"] == Record(upheld=10)


@pytest.mark.parametrize(
    "gate",
    [
        gate_row("C1", "inconclusive", reason="code_tampers"),
        gate_row("C1", "unprovable", reason="no_sandbox"),
        gate_row("C1", "reproduced", simulated=True),
        row(Stage.GATE, "claim-C1", None),
    ],
    ids=["tampering", "unprovable", "a rehearsed proof", "no prover"],
)
def test_what_nobody_can_be_held_to_counts_for_nobody(gate: SeatRow) -> None:
    assert earned_in([[*PANEL, BOTH, gate]]) == {}


def test_a_rehearsed_review_is_nobody_s_record() -> None:
    panel = [review("left", "openai/gpt-9", simulated=True), PANEL[1]]

    assert earned_in([[*panel, BOTH, gate_row("C1", "reproduced")]]) == {"cedar-1": Record(upheld=1)}


def test_without_a_tally_or_a_gate_there_is_nothing_to_learn() -> None:
    assert earned_in([[*PANEL, gate_row("C1", "reproduced")], [*PANEL, BOTH]]) == {}


def test_a_tally_keeps_its_records_and_one_of_new_reviewers_looks_as_before_there_were_any() -> None:
    new = Tally(claims=(), unsupported=(), reviewers=("left",), weights={"left": 0.5})
    earned = Tally(
        claims=(),
        unsupported=(),
        reviewers=("left",),
        weights={"left": 0.9},
        records={"left": Record(upheld=26, refuted=2)},
    )

    assert set(tally_data(new)) == {"claims", "unsupported", "reviewers", "weights"}
    assert [tally_of(tally_data(item)) for item in (new, earned)] == [new, earned]
