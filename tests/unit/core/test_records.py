"""What records are made of (PANEL §2.3), and how far a record can move a panel."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import make_claim, make_review
from workers.core.claim import Claim
from workers.core.judgement import Proved
from workers.core.proof import Proof
from workers.core.weights import (
    MOST_OF_ONE_SUBMISSION,
    Record,
    earned_weight,
    effective_weights,
    resolve,
    weighted_agreement,
)

RECORDS = st.builds(Record, upheld=st.integers(0, 500), refuted=st.integers(0, 500))
PROOFS = st.sampled_from(Proof)
MODELS = {"left": "birch", "right": "cedar", "third": "birch"}


def proved(proof: Proof, guards: int | None = 1, claim_id: str = "C1") -> Proved:
    return Proved(claim_id=claim_id, proof=proof, reason="r", detail="d", guards=guards)


@pytest.mark.parametrize(
    ("proof", "guards", "expected"),
    [
        (Proof.REPRODUCED, 1, {"birch": Record(upheld=1)}),
        (Proof.NOT_REPRODUCED, 3, {"birch": Record(refuted=1)}),
        (Proof.REPRODUCED, 0, {}),
        (Proof.NOT_REPRODUCED, 0, {}),
        (Proof.REPRODUCED, None, {}),  # from before guards were counted
        (Proof.INCONCLUSIVE, 1, {}),  # flaky, broken, tampered with
        (Proof.UNPROVABLE, 1, {}),
    ],
)
def test_only_a_guarded_test_that_decides_resolves_a_finding(
    proof: Proof, guards: int | None, expected: dict[str, Record]
) -> None:
    assert resolve([make_claim()], [proved(proof, guards)], MODELS) == expected


def test_each_flagger_s_model_is_credited_once_a_claim() -> None:
    claims = [
        make_claim("C1", flagged_by=("left", "right", "third")),  # birch sits twice
        make_claim("C2", flagged_by=("right",), finding_ids=("right/1/1", "right/1/2", "right/2/1")),
        make_claim("C3", flagged_by=("left",)),
    ]
    proofs = [
        proved(Proof.REPRODUCED, claim_id="C9"),  # nobody's
        proved(Proof.REPRODUCED, 0, claim_id="C3"),
        proved(Proof.INCONCLUSIVE, claim_id="C3"),
        proved(Proof.REPRODUCED),
        proved(Proof.NOT_REPRODUCED, claim_id="C2"),
    ]

    assert resolve(claims, proofs, MODELS) == {
        "birch": Record(upheld=1),
        "cedar": Record(upheld=1, refuted=1),
    }


def test_a_reviewer_whose_word_does_not_count_and_a_claim_that_is_not_there_resolve_nothing() -> None:
    assert resolve([make_claim()], [proved(Proof.REPRODUCED)], {"right": "cedar"}) == {}
    assert resolve([make_claim()], [proved(Proof.REPRODUCED, claim_id="C9")], MODELS) == {}


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        (Record(upheld=6, refuted=4), Record(upheld=6, refuted=4)),
        (Record(upheld=40), Record(upheld=10)),
        (Record(upheld=31, refuted=9), Record(upheld=8, refuted=2)),  # 310/40 = 7.75
        (Record(upheld=1, refuted=19), Record(upheld=0, refuted=10)),  # 10/20, to the even
    ],
)
def test_one_submission_adds_ten_findings_at_most_and_keeps_its_share(
    record: Record, expected: Record
) -> None:
    assert record.within(MOST_OF_ONE_SUBMISSION) == expected


@given(RECORDS)
def test_no_submission_earns_a_weight_alone(record: Record) -> None:
    assert earned_weight(record.within(MOST_OF_ONE_SUBMISSION)) == 0.5


@given(RECORDS, st.integers(1, 50))
def test_what_is_cut_to_size_keeps_its_precision_within_half_a_finding(record: Record, most: int) -> None:
    cut = record.within(most)
    assert cut.resolved == min(record.resolved, most)
    if cut.resolved:
        assert abs(cut.upheld / cut.resolved - record.upheld / record.resolved) <= 0.5 / cut.resolved + 1e-9


@st.composite
def rounds(draw: st.DrawFn) -> tuple[list[Claim], list[Proved]]:
    flaggers = draw(st.lists(st.sets(st.sampled_from("abc"), min_size=1), min_size=1, max_size=8))
    claims = [
        make_claim(f"C{number}", flagged_by=tuple(sorted(names))) for number, names in enumerate(flaggers, 1)
    ]
    proofs = [proved(draw(PROOFS), draw(st.integers(0, 2)), claim.claim_id) for claim in claims]
    return claims, proofs


@given(rounds(), st.integers(1, 5))
def test_heads_that_echo_a_model_add_nothing_to_its_record(
    played: tuple[list[Claim], list[Proved]], clones: int
) -> None:
    claims, proofs = played
    echoes = {f"a{number}": "model-a" for number in range(clones)}
    models = {"a": "model-a", "b": "model-b", "c": "model-c"}
    echoed = [
        make_claim(
            claim.claim_id, flagged_by=(*claim.flagged_by, *(echoes if "a" in claim.flagged_by else ()))
        )
        for claim in claims
    ]

    assert resolve(echoed, proofs, {**models, **echoes}) == resolve(claims, proofs, models)


@given(rounds())
def test_agreement_that_no_test_decides_earns_nothing(played: tuple[list[Claim], list[Proved]]) -> None:
    claims, proofs = played
    undecided = [item for item in proofs if item.proof in {Proof.INCONCLUSIVE, Proof.UNPROVABLE}]
    assert resolve(claims, undecided, {name: name for name in "abc"}) == {}


@given(st.lists(RECORDS, min_size=1, max_size=8), st.data())
def test_no_records_carry_a_panel_further_than_their_heads_do(
    records: list[Record], data: st.DataObject
) -> None:
    """k of n families: weights are 1/2 to below 1, so a share is at least k/2 / (k/2 + (n - k)) = k / (2n - k)
    and at most k / (k + (n - k)/2) = 2k / (n + k): two families of five never count for more than 4/7."""
    names = [f"r{number}" for number in range(len(records))]
    weights = {name: earned_weight(record) for name, record in zip(names, records, strict=True)}
    flagged = data.draw(st.sets(st.sampled_from(names)))

    share = weighted_agreement(flagged, effective_weights([make_review(name) for name in names], weights))

    n, k = len(names), len(flagged)
    assert k / (2 * n - k) - 0.001 <= share <= 2 * k / (n + k) + 0.001


@given(st.lists(RECORDS, min_size=1, max_size=6), RECORDS)
def test_a_family_weighs_no_more_than_its_best_model_and_never_more_than_one_unit(
    family: list[Record], other: Record
) -> None:
    heads = {f"f{number}": earned_weight(record) for number, record in enumerate(family)}
    reviews = [make_review(name, family="f") for name in heads] + [make_review("g")]

    effective = effective_weights(reviews, {**heads, "g": earned_weight(other)})

    whole = sum(effective[name] for name in heads)
    assert whole <= max(heads.values()) + 1e-9
    assert whole <= 1
