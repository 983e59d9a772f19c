"""A claim's states and where a counted claim goes (PANEL §1, §3); several passes of one head (PANEL §2)."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import FILES, make_finding, make_review
from workers.core.claim import CLAIM_TRANSITIONS, Claim, ClaimState, is_noise, may_become, route
from workers.core.consensus import merge_passes, tally
from workers.core.finding import Review, Severity

ENDS = {
    ClaimState.KILLED,
    ClaimState.UPHELD,
    ClaimState.FIXED,
    ClaimState.DISMISSED,
    ClaimState.ADVISORY,
}


def make_claim(**changes: object) -> Claim:
    claim = tally([make_review("rigor", make_finding()), make_review("edges")], FILES).claims[0]
    return dataclasses.replace(claim, **changes)  # type: ignore[arg-type]


def a_pass(reviewer: str, number: int, *claims: str) -> Review:
    findings = [
        make_finding(claim, reviewer=reviewer, finding_id=f"{reviewer}/{number}/{place}", pass_number=number)
        for place, claim in enumerate(claims)
    ]
    return make_review(reviewer, *findings)


def test_the_final_states_are_the_five_that_a_verdict_knows() -> None:
    assert {state for state in ClaimState if not CLAIM_TRANSITIONS[state]} == ENDS


def reachable(start: ClaimState) -> set[ClaimState]:
    reached, new = {start}, [start]
    while new:
        following = CLAIM_TRANSITIONS[new.pop()] - reached
        reached |= following
        new += following
    return reached


def test_every_state_is_reached_and_every_claim_can_end() -> None:
    assert reachable(ClaimState.PROPOSED) == set(ClaimState)
    assert all(reachable(state) & ENDS for state in ClaimState)


def test_a_killed_claim_stays_dead_and_a_reproduced_one_is_never_advisory() -> None:
    assert reachable(ClaimState.KILLED) == {ClaimState.KILLED}
    assert not {ClaimState.ADVISORY, ClaimState.KILLED} & reachable(ClaimState.REPRODUCED)
    assert may_become(ClaimState.REPRODUCED, ClaimState.DISMISSED), "the lead may override a test, on record"
    assert may_become(ClaimState.CONTESTED, ClaimState.KILLED)
    assert not may_become(ClaimState.CANDIDATE, ClaimState.KILLED), "only what was contested can be killed"


@pytest.mark.parametrize(
    ("heads", "severity", "has_refuter", "expected"),
    [
        (1, Severity.LOW, True, ClaimState.CONTESTED),
        (2, Severity.MEDIUM, True, ClaimState.CANDIDATE),
        (5, Severity.HIGH, True, ClaimState.CONTESTED),  # whatever the agreement
        (5, Severity.CRITICAL, True, ClaimState.CONTESTED),
        (1, Severity.LOW, False, ClaimState.CANDIDATE),
        (2, Severity.CRITICAL, False, ClaimState.CANDIDATE),
    ],
)
def test_single_votes_and_high_severity_go_to_the_refuter(
    heads: int, severity: Severity, has_refuter: bool, expected: ClaimState
) -> None:
    claim = make_claim(flagged_by=tuple("abcde"[:heads]), severity=severity)
    assert route(claim, has_refuter=has_refuter) is expected


@given(st.integers(1, 5), st.sampled_from(list(Severity)), st.integers(1, 4), st.booleans())
def test_a_route_is_a_transition(heads: int, severity: Severity, passes: int, has_refuter: bool) -> None:
    claim = make_claim(
        flagged_by=tuple("abcde"[:heads]), severity=severity, self_consistency=round(1 / passes, 3)
    )
    assert may_become(ClaimState.PROPOSED, route(claim, has_refuter=has_refuter))


def test_a_claim_of_one_head_in_one_of_its_passes_is_noise_until_refuted_or_advisory() -> None:
    passes = [a_pass("rigor", 1, "the sum overflows"), a_pass("rigor", 2), a_pass("rigor", 3)]
    (claim,) = tally([merge_passes(passes), make_review("edges")], FILES).claims
    assert (claim.passes_seen, claim.self_consistency) == (1, 0.333)  # 1 of 3
    assert is_noise(claim)
    assert route(claim, has_refuter=True) is ClaimState.CONTESTED
    assert route(claim, has_refuter=False) is ClaimState.ADVISORY


def test_a_head_that_repeats_itself_is_steady_but_one_head() -> None:
    passes = [a_pass("rigor", number, "the sum overflows") for number in (1, 2, 3)]
    (claim,) = tally([merge_passes(passes), make_review("edges")], FILES).claims
    assert claim.flagged_by == ("rigor",)
    assert (claim.agreement, claim.self_consistency, claim.passes_seen) == (0.5, 1.0, 3)
    assert not is_noise(claim)


def test_a_claim_takes_the_first_category_and_no_head_is_steadier_than_steady() -> None:
    findings = [
        make_finding(category=category, pass_number=number, number=number)
        for number, category in enumerate(("style", "correctness"), 1)
    ]
    # Seen in two passes of one that there was.
    (claim,) = tally([make_review("rigor", *findings)], FILES).claims
    assert (claim.category, claim.self_consistency, claim.passes_seen) == ("correctness", 1.0, 2)


def test_what_is_not_counted_says_whose_it_was() -> None:
    (item,) = tally([make_review("rigor", make_finding(line=99))], FILES).unsupported
    assert (item.reviewer, item.finding_id) == ("rigor", "rigor/1/1")
    assert item.reason == "lines 99-99 are outside the file's 10"


def test_two_heads_in_one_pass_each_are_no_noise() -> None:
    text = "the sum overflows"
    reviews = [merge_passes([a_pass(name, 1, text), a_pass(name, 2)]) for name in ("rigor", "edges")]
    (claim,) = tally(reviews, FILES).claims
    assert (claim.passes_seen, claim.self_consistency) == (2, 0.5)  # (1/2 + 1/2) / 2
    assert not is_noise(claim)


@given(st.lists(st.booleans(), min_size=1, max_size=6).filter(any))
def test_passes_change_no_agreement(seen: list[bool]) -> None:
    passes = [
        a_pass("rigor", number, *(["the sum overflows"] if flag else []))
        for number, flag in enumerate(seen, 1)
    ]
    (claim,) = tally([merge_passes(passes), make_review("edges"), make_review("spec")], FILES).claims
    (once,) = tally(
        [a_pass("rigor", 1, "the sum overflows"), make_review("edges"), make_review("spec")], FILES
    ).claims
    assert (claim.agreement, claim.weighted_agreement) == (once.agreement, once.weighted_agreement)
    assert claim.self_consistency == round(sum(seen) / len(seen), 3)


def test_what_the_passes_summed_up_is_kept_line_by_line() -> None:
    passes = [
        dataclasses.replace(a_pass("rigor", number), summary=summary)
        for number, summary in enumerate(("first", "", "third"), 1)
    ]
    assert merge_passes(passes).summary == "first\nthird"


def test_passes_of_two_reviewers_are_not_one_review() -> None:
    with pytest.raises(ValueError, match="one reviewer"):
        merge_passes([make_review("rigor"), make_review("edges")])
