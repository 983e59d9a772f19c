"""The two agreements (PANEL §2.2, §2.3): by hand where a number matters, by properties for the rest."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import FILES, make_finding, make_review
from workers.core.consensus import tally
from workers.core.weights import agreement, effective_weights, weighted_agreement

NAMES = st.lists(st.sampled_from("abcdefgh"), max_size=12)


@pytest.mark.parametrize(
    ("flagged", "valid", "expected"),
    [
        ([], 0, 0.0),  # nobody answered: no share of nobody
        (["a"], 0, 0.0),
        (["a"], -1, 0.0),
        ([], 5, 0.0),
        (["a"], 5, 0.2),  # 1/5
        (["a", "a", "a"], 5, 0.2),  # one name three times is one head
        (["a", "b"], 3, 0.667),  # 2/3 = 0.6666…
        (["a"], 3, 0.333),  # 1/3 = 0.3333…
        (["a", "b", "c", "d", "e"], 5, 1.0),
        (["a", "b", "c"], 2, 1.0),  # more names than reviewers: never above 1
        (["a"], 7, 0.143),  # 1/7 = 0.142857…
        (["a", "b", "c", "d", "e"], 6, 0.833),  # 5/6 = 0.8333…
    ],
)
def test_agreement_is_the_share_of_heads_to_three_places(
    flagged: list[str], valid: int, expected: float
) -> None:
    assert agreement(flagged, valid) == expected


@given(NAMES, st.integers(-2, 12))
def test_agreement_lies_between_none_and_all(flagged: list[str], valid: int) -> None:
    assert 0.0 <= agreement(flagged, valid) <= 1.0


@pytest.mark.parametrize(
    ("families", "flagged", "expected"),
    [
        # a, b share f's one unit: ½·½ = ¼ each; c alone has ½. Total ¼+¼+½ = 1.
        ({"a": "f", "b": "f", "c": "g"}, ["a"], 0.25),
        ({"a": "f", "b": "f", "c": "g"}, ["a", "b"], 0.5),
        ({"a": "f", "b": "f", "c": "g"}, ["c"], 0.5),
        ({"a": "f", "b": "f", "c": "g"}, ["a", "c"], 0.75),
        # five of three families (2 + 2 + 1): units ½ each, total 3/2. One of a pair: ¼ / 3/2 = 1/6.
        ({"a": "f", "b": "f", "c": "g", "d": "g", "e": "h"}, ["a"], 0.167),
        # one of each pair: ½ / 3/2 = 1/3, where heads alone say 2/5.
        ({"a": "f", "b": "f", "c": "g", "d": "g", "e": "h"}, ["a", "c"], 0.333),
        # both of one pair: the same ½, though two heads agree.
        ({"a": "f", "b": "f", "c": "g", "d": "g", "e": "h"}, ["a", "b"], 0.333),
        ({"a": "f", "b": "f", "c": "g", "d": "g", "e": "h"}, list("abcde"), 1.0),
        ({"a": "f"}, ["a"], 1.0),
        ({"a": "f"}, [], 0.0),
        ({"a": "f"}, ["ghost"], 0.0),
        ({}, ["ghost"], 0.0),
    ],
)
def test_a_family_shares_one_unit_of_weight(
    families: dict[str, str], flagged: list[str], expected: float
) -> None:
    reviews = [make_review(name, family=family) for name, family in families.items()]
    assert weighted_agreement(flagged, effective_weights(reviews, {})) == expected


def test_an_earned_weight_counts_within_the_family_s_unit() -> None:
    reviews = [make_review("a", family="f"), make_review("b", family="f"), make_review("c", family="g")]
    weights = {"a": 1.5, "b": 0.5, "c": 1.0}
    effective = effective_weights(reviews, weights)
    # a: 3/2 / 2 = 3/4, b: 1/2 / 2 = 1/4, c: 1; total 2.
    assert effective == {"a": 0.75, "b": 0.25, "c": 1.0}
    assert weighted_agreement(["a"], effective) == 0.375  # 3/4 / 2
    assert weighted_agreement(["a", "b"], effective) == 0.5  # 1 / 2


@given(
    panel=st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("fgh"), min_size=1),
    data=st.data(),
    clones=st.integers(1, 20),
)
def test_clones_never_lift_a_claim_above_what_their_family_says_of_one_mind(
    panel: dict[str, str], data: st.DataObject, clones: int
) -> None:
    """Cloning a flagger does raise its share *inside* a divided family (1 of 2 is 1/2, 2 of 3 is 2/3). What
    holds is the bound: never above the family's whole unit; and a family of one mind gains nothing at all."""
    original = data.draw(st.sampled_from(sorted(panel)))
    flagged = {*data.draw(st.sets(st.sampled_from(sorted(panel)))), original}
    family = {name for name in panel if panel[name] == panel[original]}

    def weigh(families: dict[str, str], flagging: set[str]) -> float:
        reviews = [make_review(name, family=families[name]) for name in sorted(families)]
        return weighted_agreement(flagging, effective_weights(reviews, {}))

    swollen = {**panel, **{f"{original}{number}": panel[original] for number in range(clones)}}
    cloned = weigh(swollen, flagged | (swollen.keys() - panel.keys()))
    # To three places: sums of binary fractions may round the other way at a tie.
    assert cloned <= weigh(panel, flagged | family) + 0.001
    if family <= flagged:
        assert cloned == pytest.approx(weigh(panel, flagged), abs=0.001)


def test_a_silent_clone_lowers_its_family_s_voice_and_nobody_else_s() -> None:
    alone = [make_review("a", family="f"), make_review("b", family="g")]
    doubled = [*alone, make_review("a2", family="f")]
    assert weighted_agreement(["a"], effective_weights(alone, {})) == 0.5
    assert weighted_agreement(["a"], effective_weights(doubled, {})) == 0.25  # half of f's half
    assert weighted_agreement(["b"], effective_weights(doubled, {})) == 0.5


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.sampled_from("fgh"), min_size=1), NAMES)
def test_weighted_agreement_is_the_exact_fraction(panel: dict[str, str], flagged: list[str]) -> None:
    reviews = [make_review(name, family=family) for name, family in panel.items()]
    members = {family: list(panel.values()).count(family) for family in panel.values()}
    total = sum(Fraction(1, members[family]) for family in panel.values())
    share = sum(Fraction(1, members[panel[name]]) for name in set(flagged) & panel.keys()) / total
    assert weighted_agreement(flagged, effective_weights(reviews, {})) == pytest.approx(
        float(share), abs=0.0006
    )


def test_an_abstainer_leaves_the_denominator() -> None:
    finding = make_finding(reviewer="rigor")
    three = [make_review("rigor", finding), make_review("edges"), make_review("spec")]
    assert tally(three, FILES).claims[0].agreement == 0.333
    assert tally(three[:2], FILES).claims[0].agreement == 0.5
    assert tally(three[:1], FILES).claims[0].agreement == 1.0


def test_nobody_answered_is_an_empty_tally() -> None:
    counted = tally([], FILES)
    assert (counted.claims, counted.unsupported, counted.reviewers, dict(counted.weights)) == ((), (), (), {})


def test_the_weights_that_were_used_are_frozen_with_the_tally() -> None:
    counted = tally(
        [make_review("rigor"), make_review("edges")], FILES, weights={"rigor": 1.25, "ghost": 1.5}
    )
    assert dict(counted.weights) == {"edges": 0.5, "rigor": 1.25}
