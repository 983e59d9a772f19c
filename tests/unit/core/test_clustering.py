"""Findings become claims: by text and place, completely linked, whoever answered first."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import FILES, make_finding, make_review
from workers.core.artefact import Span
from workers.core.clustering import cluster, joint_severity
from workers.core.consensus import tally
from workers.core.finding import Finding, Review, Severity
from workers.core.similarity import same_claim, similarity

WORDS = ["sum", "overflow", "large", "input", "empty", "list", "crash", "index", "loop", "cache"]


@st.composite
def findings_of(draw: st.DrawFn, reviewer: str) -> tuple[Finding, ...]:
    count = draw(st.integers(0, 4))
    return tuple(
        make_finding(
            " ".join(draw(st.lists(st.sampled_from(WORDS), min_size=1, max_size=4))),
            reviewer=reviewer,
            number=number,
            line=draw(st.integers(1, 10)),
            severity=draw(st.sampled_from(list(Severity))),
            cwe=draw(st.sampled_from([None, 89])),
            symbol=draw(st.sampled_from([None, "main"])),
        )
        for number in range(count)
    )


@st.composite
def panels(draw: st.DrawFn) -> list[Review]:
    names = ["craft", "edges", "rigor", "safety", "spec"][: draw(st.integers(0, 5))]
    return [
        make_review(name, *draw(findings_of(name)), family=draw(st.sampled_from("fgh"))) for name in names
    ]


def test_one_line_and_two_claims_stay_two() -> None:
    groups = cluster(
        [
            make_finding("the sum overflows for large input", reviewer="rigor"),
            make_finding("the error message leaks the password", reviewer="edges"),
        ]
    )
    assert [len(group) for group in groups] == [1, 1]


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("an empty list crashes with IndexError", "IndexError is raised when the list is empty"),
        ("SQL injection through the name argument", "the name argument allows SQL injections"),
        ("the cache is never invalidated", "Cache never gets invalidated!"),
    ],
)
def test_one_claim_in_other_words_is_one(left: str, right: str) -> None:
    groups = cluster([make_finding(left, reviewer="rigor"), make_finding(right, reviewer="edges", line=4)])
    assert [len(group) for group in groups] == [2]


def test_the_same_words_far_apart_or_in_another_file_are_two_claims() -> None:
    here = make_finding(line=1)
    assert not same_claim(here, make_finding(reviewer="edges", line=4))  # 3 lines apart, slack is 2
    assert same_claim(here, make_finding(reviewer="edges", line=3))
    elsewhere = make_finding(reviewer="edges", span=Span(path="b.py", start=1, end=1))
    assert not same_claim(here, elsewhere)


def test_one_symbol_stands_in_for_a_near_line_but_two_unnamed_ones_do_not() -> None:
    assert same_claim(
        make_finding(line=1, symbol="main"), make_finding(reviewer="edges", line=9, symbol="main")
    )
    assert not same_claim(make_finding(line=1), make_finding(reviewer="edges", line=9))


def test_a_shared_weakness_asks_for_fewer_common_words_but_for_the_place() -> None:
    # 4 and 4 content words, one shared: 2·1/8 = 0.25, between the two thresholds.
    left, right = "query built unsafe sql", "sql injection possible here today"
    right = "sql injection possible today"
    assert similarity(left, right) == 0.25
    assert not same_claim(make_finding(left), make_finding(right, reviewer="edges"))
    assert same_claim(make_finding(left, cwe=89), make_finding(right, reviewer="edges", cwe=89))
    assert not same_claim(
        make_finding(left, line=1, cwe=89, symbol="main"),
        make_finding(right, line=9, reviewer="edges", cwe=89, symbol="main"),
    )


def test_claims_without_content_words_are_alike_to_nobody() -> None:
    assert similarity("", "") == 0.0
    assert similarity("the is of", "the is of") == 0.0
    assert similarity("!!!", "???") == 0.0
    assert len(cluster([make_finding("!!!"), make_finding("!!!", reviewer="edges")])) == 2


def test_a_chain_of_likeness_is_not_one_claim() -> None:
    """a~b and b~c share a word each, a and c none: single linkage would put all three together."""
    a = make_finding("alpha bravo", reviewer="a")
    b = make_finding("bravo charlie", reviewer="b")
    c = make_finding("charlie delta", reviewer="c")
    assert same_claim(a, b)
    assert same_claim(b, c)
    assert not same_claim(a, c)
    assert sorted(len(group) for group in cluster([a, b, c])) == [1, 2]


@given(panels())
def test_every_two_findings_of_a_claim_agree(reviews: list[Review]) -> None:
    for group in cluster(finding for review in reviews for finding in review.findings):
        assert all(same_claim(left, right) for left in group for right in group if left is not right) or (
            len(group) == 1
        )


@given(panels())
def test_every_supported_finding_is_in_exactly_one_claim(reviews: list[Review]) -> None:
    counted = tally(reviews, FILES)
    placed = sorted(finding_id for claim in counted.claims for finding_id in claim.finding_ids)
    assert placed == sorted(finding.finding_id for review in reviews for finding in review.findings)
    assert len({claim.claim_id for claim in counted.claims}) == len(counted.claims)


@given(panels(), st.randoms(use_true_random=False))
def test_who_answered_first_changes_nothing(reviews: list[Review], chance: random.Random) -> None:
    shuffled = [
        make_review(
            review.reviewer, *chance.sample(review.findings, len(review.findings)), family=review.family
        )
        for review in chance.sample(reviews, len(reviews))
    ]
    first, again = tally(reviews, FILES), tally(shuffled, FILES)
    assert first.claims == again.claims
    assert (first.reviewers, first.weights) == (again.reviewers, again.weights)


@given(panels())
def test_shares_lie_between_none_and_all_and_names_are_reviewers(reviews: list[Review]) -> None:
    families = {review.reviewer: review.family for review in reviews}
    for claim in tally(reviews, FILES).claims:
        assert 0 < claim.agreement <= 1
        assert 0 < claim.weighted_agreement <= 1
        assert claim.agreement == round(len(claim.flagged_by) / len(reviews), 3)
        assert list(claim.families) == sorted({families[name] for name in claim.flagged_by})


@given(panels())
def test_worse_claims_come_first(reviews: list[Review]) -> None:
    severities = [claim.severity for claim in tally(reviews, FILES).claims]
    assert severities == sorted(severities, reverse=True)


@pytest.mark.parametrize(
    ("severities", "expected"),
    [
        ({"a": ["critical"]}, "critical"),
        ({"a": ["low", "critical"]}, "critical"),  # a head counts with its worst remark
        ({"a": ["critical"], "b": ["low"]}, "low"),  # 1 of 2 is not more than half
        ({"a": ["critical"], "b": ["low"], "c": ["low"]}, "low"),  # one head cannot inflate
        ({"a": ["critical"], "b": ["high"], "c": ["low"]}, "high"),  # 2 of 3 reach high
        ({"a": ["medium"], "b": ["medium"], "c": ["low"]}, "medium"),  # nor one talk down
        ({"a": ["high"], "b": ["high"], "c": ["low"], "d": ["low"]}, "low"),  # 2 of 4 is not more
        ({"a": ["critical"] * 9, "b": ["medium"], "c": ["medium"]}, "medium"),  # shouting is one voice
    ],
)
def test_the_joint_severity_is_what_more_than_half_of_the_heads_reach(
    severities: dict[str, list[str]], expected: str
) -> None:
    findings = [
        make_finding(reviewer=name, number=number, severity=Severity[word.upper()])
        for name, words in severities.items()
        for number, word in enumerate(words)
    ]
    assert joint_severity(findings).word == expected
