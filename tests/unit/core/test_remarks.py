"""Remarks without a place: alike by their words alone, linked on average, ordered by probability."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import FILES, make_finding, make_review
from workers.core.clustering import cluster, joint_severity, link_completely, link_on_average
from workers.core.consensus import tally
from workers.core.finding import NOWHERE, Finding, Severity
from workers.core.probability import SCORECARD, SIGNS, Scorecard, signs_of
from workers.core.similarity import REMARK_RULE, RemarkRule, pair_signs, same_claim, similarity
from workers.core.weights import Record

CRASH = "i.content is nil for RSS items without content, so i.content.scrub raises NoMethodError"
CRASH_TOO = "Potential NoMethodError when the feed item content is nil and scrub is called on i.content"
LOCALE = "Intl.DateTimeFormat is hardcoded to en-US instead of the active locale"
WORDS = st.sampled_from(["nil", "content", "locale", "scrub", "cache", "index", "race", "token"])
REMARKS = st.lists(st.lists(WORDS, max_size=5).map(" ".join), max_size=7)


def remark(text: str, *, reviewer: str = "rigor", number: int = 1) -> Finding:
    return make_finding(text, reviewer=reviewer, number=number, span=NOWHERE, evidence=())


def test_two_wordings_of_one_defect_are_one_claim_and_another_stays_apart() -> None:
    remarks = [
        remark(CRASH),
        remark(CRASH_TOO, reviewer="edges"),
        remark(LOCALE, reviewer="spec"),
    ]
    groups = [{finding.reviewer for finding in group} for group in cluster(remarks)]
    assert sorted(groups, key=len) == [{"spec"}, {"rigor", "edges"}]


def test_a_remark_without_a_place_is_unsupported_where_there_is_code() -> None:
    review = make_review("rigor", remark(CRASH))
    assert tally([review], FILES).claims == ()
    assert [item.reason for item in tally([review], FILES).unsupported] == ["there is no file ''"]
    assert len(tally([review], None).claims) == 1


def test_a_placed_finding_and_a_remark_are_never_one_claim() -> None:
    assert len(cluster([make_finding(CRASH), remark(CRASH, reviewer="edges")])) == 2


def test_signs_of_a_pair_by_hand() -> None:
    # Two remarks, three words: "nil" in both (rarity ln(3/3)+1 = 1), the others in one (ln(3/2)+1 = 1.405).
    alone = math.log(3 / 2) + 1
    cosine, rarest, overlap = pair_signs(("nil cache", "nil race"))[0, 1]
    assert cosine == pytest.approx(1 / (1 + alone**2))
    assert rarest == pytest.approx(1 / alone)
    assert overlap == pytest.approx(1 / (1 + alone))


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ("validations", "valid", 1.0),  # "valid" is left
        ("uses", "use", 1.0),  # three letters must be left
        ("cache", "caching", 1.0),  # and an e at the end of more than three goes
        ("race", "races", 1.0),
        ("cache", "cactus", 0.0),
        ("caching", "racing", 0.0),
        ("use", "us", 0.0),
        ("nil cache", "nil race", 0.5),  # 2 · 1 / (2 + 2)
        ("nil cache token", "nil", 0.5),  # 2 · 1 / (3 + 1)
        ("the of", "the of", 0.0),
        ("nil", "", 0.0),
    ],
)
def test_words_are_compared_by_their_stems(left: str, right: str, expected: float) -> None:
    assert similarity(left, right) == similarity(right, left) == expected


def test_a_likeness_is_a_probability_and_a_rule_may_be_another() -> None:
    even = RemarkRule(intercept=0.0, slopes=(0.0, 0.0, 0.0), least=0.6)
    assert even.likenesses(("nil cache", "nil race")) == {(0, 1): 0.5}  # log-odds 0
    remarks = [make_review("rigor", remark(CRASH)), make_review("edges", remark(CRASH, reviewer="edges"))]
    assert len(tally(remarks, None).claims) == 1
    assert len(tally(remarks, None, rule=even).claims) == 2


def test_the_same_weakness_at_one_place_asks_for_a_fifth_of_the_words() -> None:
    """One of five words and five: 2 · 1 / 10."""
    left, right = "nil alpha bravo charlie delta", "nil echo foxtrot golf hotel"
    assert same_claim(make_finding(left, cwe=22), make_finding(right, cwe=22))
    assert not same_claim(make_finding(left, cwe=22), make_finding(right, cwe=23))
    assert not same_claim(make_finding(left), make_finding(right))
    assert not same_claim(make_finding(left, cwe=22), make_finding(f"{right} india", cwe=22))


def test_a_head_counts_with_its_worst_remark_whichever_came_first() -> None:
    worse, milder = make_finding(severity=Severity.HIGH), make_finding(severity=Severity.LOW)
    assert joint_severity([worse, milder]) is joint_severity([milder, worse]) is Severity.HIGH


def test_no_common_word_is_no_pair() -> None:
    assert pair_signs(("nil cache", "race token", "", "the of")) == {}


@given(REMARKS)
def test_signs_and_likenesses_are_shares(remarks: list[str]) -> None:
    for signs in pair_signs(tuple(remarks)).values():
        assert all(0 <= sign <= 1 + 1e-12 for sign in signs)
    assert all(0 <= value <= 1 for value in REMARK_RULE.likenesses(tuple(remarks)).values())


@given(REMARKS, st.randoms(use_true_random=False))
def test_the_order_of_remarks_changes_no_group(remarks: list[str], chance: random.Random) -> None:
    findings = [remark(text, reviewer=f"r{number}") for number, text in enumerate(remarks)]
    shuffled = chance.sample(findings, len(findings))
    assert cluster(findings) == cluster(shuffled)


def test_average_linkage_by_hand() -> None:
    # 0–1 are joined at 0.9; 2 is like them by (0.8 + 0.1) / 2 = 0.45 on average.
    alike = {(0, 1): 0.9, (0, 2): 0.8, (1, 2): 0.1}
    assert link_on_average(4, alike, 0.5) == [[0, 1], [2], [3]]
    assert link_on_average(4, alike, 0.45) == [[0, 1, 2], [3]]
    assert link_completely(4, alike) == [[0, 1, 2], [3]]
    assert link_completely(4, {(0, 1): 0.9, (0, 2): 0.8}) == [[0, 1], [2], [3]]


def test_the_most_alike_are_joined_first() -> None:
    assert link_completely(3, {(0, 1): 0.5, (1, 2): 0.9}) == [[0], [1, 2]]
    alike = {(0, 1): 0.9, (0, 2): 0.8, (1, 2): 0.7, (3, 4): 0.6}
    assert link_completely(5, alike) == [[0, 1, 2], [3, 4]]


def test_a_group_is_as_alike_as_its_members_are_on_average() -> None:
    # 0 is like 1 and 2 by (0.3 + 0.3) / 2.
    assert link_on_average(3, {(1, 2): 0.9, (0, 1): 0.3, (0, 2): 0.3}, 0.4) == [[0], [1, 2]]
    # 2 is like 0 by nothing and like 1 by 0.3: 0.15.
    assert link_on_average(3, {(0, 1): 0.9, (1, 2): 0.3}, 0.4) == [[0, 1], [2]]
    assert link_on_average(3, {(0, 1): 0.9, (1, 2): 0.3}, 0.15) == [[0, 1, 2]]


PAIRS = st.dictionaries(
    st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda pair: pair[0] < pair[1]),
    st.floats(0.0, 1.0),
)


@given(PAIRS, st.floats(0.05, 1.0))
def test_linking_is_a_partition(alike: dict[tuple[int, int], float], least: float) -> None:
    for groups in (link_on_average(6, alike, least), link_completely(6, alike)):
        assert sorted(index for group in groups for index in group) == list(range(6))


@given(PAIRS, st.floats(0.05, 1.0))
def test_no_two_groups_are_left_that_are_alike_enough(
    alike: dict[tuple[int, int], float], least: float
) -> None:
    groups = link_on_average(6, alike, least)
    for at, one in enumerate(groups):
        for other in groups[:at]:
            total = sum(alike.get((min(a, b), max(a, b)), 0.0) for a in one for b in other)
            assert total / (len(one) * len(other)) < least + 1e-9


def test_the_scorecard_has_a_slope_a_sign() -> None:
    assert len(SCORECARD.slopes) == len(SIGNS)


def test_signs_of_a_claim_by_hand() -> None:
    reviews = [
        make_review("edges", remark(LOCALE, reviewer="edges"), remark(CRASH, reviewer="edges", number=2)),
        make_review("rigor", remark(CRASH_TOO)),
    ]
    claims = tally(reviews, None).claims
    # edges: (3 + 0.35·10) / (4 + 10) = 6.5/14; rigor has no record and adds nothing.
    records = {"edges": Record(upheld=3, refuted=1)}
    crash, locale = (
        dict(zip(SIGNS, row, strict=True)) for row in sorted(signs_of(claims, reviews, records), reverse=True)
    )
    assert (crash["two heads"], crash["three heads"], crash["findings a head"]) == (1, 0, 1)
    assert crash["first place"] == 0, "rigor says it first"
    assert (locale["two heads"], locale["first place"]) == (0, 0)
    assert (crash["failure"], crash["style"], locale["style"]) == (1, 0, 1)
    odds = math.log((6.5 / 14) / (7.5 / 14)) - math.log(0.35 / 0.65)
    assert crash["records"] == pytest.approx(odds)


def test_each_further_claim_of_a_run_pays_the_discount() -> None:
    card = Scorecard(intercept=1.0, slopes=(2.0,), discount=0.5)
    # 1 + 2·0.5 = 2 and 1 + 2·1 = 3; the second best pays 0.5·ln 2.
    assert card.ranked([(0.5,), (1.0,)]) == pytest.approx([2 - 0.5 * math.log(2), 3])
    assert card.probability((-0.5,)) == 0.5  # log-odds 0
    assert card.probability((0.0,)) == pytest.approx(math.e / (1 + math.e))  # log-odds 1


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 5])
def test_a_claim_s_heads_are_counted_from_two_to_four(heads: int) -> None:
    names = [f"r{number}" for number in range(heads)]
    reviews = [make_review(name, remark(CRASH, reviewer=name)) for name in names]
    (row,) = signs_of(tally(reviews, None).claims, reviews, {})
    assert row[:5] == (heads >= 2, heads >= 3, heads >= 4, 0, 1)
