"""Earned weights (PANEL §2.3) and the properties of both agreements over whole panels."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import FILES, make_finding, make_review
from tests.unit.core.test_clustering import panels
from workers.core.consensus import Proposal, tally
from workers.core.finding import Review
from workers.core.weights import Record, earned_weight

RECORDS = st.builds(Record, upheld=st.integers(0, 500), refuted=st.integers(0, 500))


@pytest.mark.parametrize(
    ("upheld", "refuted", "expected"),
    [
        (0, 0, 0.5),
        (19, 0, 0.5),  # 19 resolved: still new, however good
        (20, 0, 21 / 22),  # (20 + 1) / (20 + 2)
        (15, 5, 16 / 22),
        (10, 10, 0.5),  # 11/22
        (2, 18, 0.5),  # 3/22, raised to the least
        (98, 0, 0.99),  # 99/100
    ],
)
def test_a_weight_is_the_smoothed_precision_from_twenty_resolved_findings_on(
    upheld: int, refuted: int, expected: float
) -> None:
    assert earned_weight(Record(upheld=upheld, refuted=refuted)) == pytest.approx(expected)


def test_a_prior_pulls_a_short_record_towards_it() -> None:
    # (3 + 0.25·8) / (4 + 8) = 5/12
    assert Record(upheld=3, refuted=1).precision(prior=0.25, strength=8) == pytest.approx(5 / 12)


def test_a_record_below_zero_is_refused() -> None:
    with pytest.raises(ValueError, match="from 0 on"):
        Record(upheld=-1)


@given(RECORDS)
def test_a_weight_lies_between_a_half_and_one_and_a_half(record: Record) -> None:
    assert 0.5 <= earned_weight(record) <= 1.5
    assert 0 < record.precision() < 1


@given(st.integers(20, 300).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n - 1))))
def test_one_more_upheld_of_as_many_never_lowers_a_weight(counts: tuple[int, int]) -> None:
    resolved, upheld = counts
    worse = Record(upheld=upheld, refuted=resolved - upheld)
    better = Record(upheld=upheld + 1, refuted=resolved - upheld - 1)
    assert earned_weight(worse) <= earned_weight(better)


@given(panels(), st.data())
def test_an_abstainer_never_lowers_an_agreement(reviews: list[Review], data: st.DataObject) -> None:
    """Whoever has nothing in a claim and leaves the panel can only raise its shares."""
    for claim in tally(reviews, FILES).claims:
        others = [review.reviewer for review in reviews if review.reviewer not in claim.flagged_by]
        if not others:
            continue
        gone = data.draw(st.sampled_from(others))
        left = [review for review in reviews if review.reviewer != gone]
        after = next(
            item
            for item in tally(left, FILES).claims
            if set(claim.finding_ids) & set(item.finding_ids) and claim.finding_ids[0] in item.finding_ids
        )
        if after.flagged_by == claim.flagged_by:
            assert after.agreement >= claim.agreement
            # The one who left may have shared a family's unit; that unit is then spoken for by the others.
            assert after.weighted_agreement >= claim.weighted_agreement


@given(st.integers(1, 12), st.integers(1, 4), st.sampled_from([0.5, 1.0, 1.5]))
def test_copies_of_one_family_never_weigh_more_than_one_unit(copies: int, others: int, weight: float) -> None:
    same = "the sum overflows for large input"
    clones = [
        make_review(f"clone{number}", make_finding(same, reviewer=f"clone{number}"), family="f")
        for number in range(copies)
    ]
    rest = [make_review(f"other{number}") for number in range(others)]
    weights = {review.reviewer: weight for review in [*clones, *rest]}
    (claim,) = tally([*clones, *rest], FILES, weights=weights).claims
    assert claim.weighted_agreement == round(1 / (1 + others), 3)
    assert claim.families == ("f",)


@given(panels())
def test_merging_again_what_is_merged_changes_nothing(reviews: list[Review]) -> None:
    alone = tally(reviews, FILES)
    merged = tally(reviews, FILES, proposals=[Proposal(claim_ids=tuple(c.claim_id for c in alone.claims))])
    parts = {
        claim.claim_id: tuple(
            part.claim_id for part in alone.claims if part.finding_ids[0] in claim.finding_ids
        )
        for claim in merged.claims
    }
    again = [Proposal(claim_ids=ids) for ids in parts.values()]
    assert tally(reviews, FILES, proposals=again) == merged
    assert tally(reviews, FILES, proposals=[*again, *again]) == merged


@given(panels(), st.lists(st.text(max_size=8), max_size=6))
def test_ghosts_never_count(reviews: list[Review], ghosts: list[str]) -> None:
    names = tuple(f"ghost-{name}" for name in ghosts)
    alone = tally(reviews, FILES)
    proposals = [Proposal(claim_ids=(claim.claim_id,), flagged_by=names) for claim in alone.claims]
    assert tally(reviews, FILES, proposals=proposals, weights=dict.fromkeys(names, 1.5)) == alone
