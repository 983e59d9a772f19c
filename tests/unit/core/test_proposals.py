"""What a consensus model proposes can merge and reword; it can add nobody and lose nothing (PANEL §2.2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cpu_time import within_cpu_seconds
from tests.factories import FILES, make_finding, make_review
from tests.unit.core.test_clustering import panels
from workers.core.artefact import Span
from workers.core.claim import GATED_SEVERITY
from workers.core.consensus import MERGE_SLACK_LINES, Proposal, tally
from workers.core.finding import Review, Severity

PANEL = [
    make_review("edges", make_finding("an empty list crashes", reviewer="edges", line=3), family="sim-alder"),
    make_review(
        "rigor", make_finding("the result has the wrong sign", reviewer="rigor", line=4), family="sim-birch"
    ),
    make_review("spec", family="sim-cedar"),
]

PROPOSALS = st.lists(
    st.builds(
        Proposal,
        claim_ids=st.lists(
            st.sampled_from(["C1", "C2", "C3", "C4", "C9", "", "c1", "C1 ", "💥", "C" * 500]), max_size=6
        ).map(tuple),
        text=st.sampled_from(["", " ", "better words", "\x00"]),
        flagged_by=st.none()
        | st.lists(
            st.sampled_from(["rigor", "edges", "spec", "ghost", "Rigor", "", "craft"]), max_size=6
        ).map(tuple),
    ),
    max_size=8,
)


def test_a_merge_joins_findings_and_flaggers() -> None:
    counted = tally(PANEL, FILES, proposals=[Proposal(claim_ids=("C2", "C1"), text=" one defect ")])
    (claim,) = counted.claims
    assert claim.text == "one defect"
    assert claim.flagged_by == ("edges", "rigor")
    assert claim.agreement == 0.667  # 2 of 3 valid reviews
    assert claim.finding_ids == ("edges/1/1", "rigor/1/1")
    assert claim.span == Span(path="a.py", start=3, end=4)


def test_a_ghost_a_double_and_a_reviewer_without_a_finding_do_not_count() -> None:
    named = ("edges", "edges", "ghost", "spec", "EDGES")
    counted = tally(PANEL, FILES, proposals=[Proposal(claim_ids=("C1",), flagged_by=named)])
    claim = counted.claims[0]
    assert claim.flagged_by == ("edges",)
    assert claim.families == ("sim-alder",)
    assert claim.agreement == 0.333


def test_a_reviewer_whose_finding_was_unsupported_cannot_be_named_into_the_claim() -> None:
    invented = make_finding("an empty list crashes", reviewer="spec", line=99)
    panel = [*PANEL[:2], make_review("spec", invented, family="sim-cedar")]
    counted = tally(panel, FILES, proposals=[Proposal(claim_ids=("C1",), flagged_by=("edges", "spec"))])
    assert counted.claims[0].flagged_by == ("edges",)


@pytest.mark.parametrize("named", [None, (), ("ghost",), ("spec",), ("", "EDGES")])
def test_no_name_that_holds_leaves_code_s_own_count(named: tuple[str, ...] | None) -> None:
    """Otherwise one word of the consensus model would silence what the panel agreed on."""
    counted = tally(PANEL, FILES, proposals=[Proposal(claim_ids=("C1", "C2"), flagged_by=named)])
    assert counted.claims[0].flagged_by == ("edges", "rigor")


@pytest.mark.parametrize("named", [("rigor",), ("edges",), ("edges", "ghost"), ("rigor", "spec")])
def test_a_list_that_leaves_a_reviewer_out_silences_nobody(named: tuple[str, ...]) -> None:
    counted = tally(PANEL, FILES, proposals=[Proposal(claim_ids=("C1", "C2"), flagged_by=named)])
    assert counted.claims[0].flagged_by == ("edges", "rigor")
    assert counted.claims[0].agreement == 0.667  # 2 of 3, as if the model had named nobody


def test_a_partial_list_does_not_take_a_claim_below_the_quorum_that_code_counted() -> None:
    same = "an empty list crashes"
    panel = [make_review(name, make_finding(same, reviewer=name)) for name in ("edges", "rigor", "spec")]
    alone = tally(panel, FILES).claims
    assert alone[0].flagged_by == ("edges", "rigor", "spec")
    assert tally(panel, FILES, proposals=[Proposal(claim_ids=("C1",), flagged_by=("spec",))]).claims == alone


@pytest.mark.parametrize(
    ("left", "right", "is_merged"),
    [
        ("low", "low", True),
        ("medium", "medium", True),
        ("high", "critical", True),  # both need a test, so nothing changes for either
        ("low", "medium", False),  # the verdict rejects from medium on
        (
            "medium",
            "high",
            False,
        ),  # without a test a high one is only advisory: merging would disarm the medium
        ("low", "critical", False),
    ],
)
def test_a_merge_carries_no_claim_over_a_border_of_the_verdict(
    left: str, right: str, is_merged: bool
) -> None:
    panel = [
        make_review("edges", make_finding("alpha", reviewer="edges", severity=Severity[left.upper()])),
        make_review("rigor", make_finding("bravo", reviewer="rigor", severity=Severity[right.upper()])),
    ]
    merged = tally(panel, FILES, proposals=[Proposal(claim_ids=("C1", "C2"))]).claims
    assert len(merged) == (1 if is_merged else 2)
    assert max(claim.severity for claim in merged).word == right, "the worse of the two, as code had it"


def test_claims_far_apart_or_in_other_files_are_not_merged() -> None:
    files = {"a.py": FILES["a.py"] * 3, "b.py": FILES["a.py"]}
    apart = 1 + MERGE_SLACK_LINES + 1
    panel = [
        make_review(
            "edges",
            make_finding("alpha", reviewer="edges", line=1, number=1),
            make_finding("bravo", reviewer="edges", number=2, span=Span(path="a.py", start=apart, end=apart)),
            make_finding("charlie", reviewer="edges", number=3, span=Span(path="b.py", start=1, end=1)),
        )
    ]
    merged = tally(panel, files, proposals=[Proposal(claim_ids=("C1", "C2", "C3"))])
    assert [claim.text for claim in merged.claims] == ["alpha", "bravo", "charlie"]


def test_a_merge_cannot_walk_through_the_file_in_small_steps() -> None:
    """1, 11 and 21 are ten lines apart each; the ends are not near each other, so the third stays out."""
    files = {"a.py": FILES["a.py"] * 3}
    panel = [
        make_review(
            "edges",
            *(
                make_finding(
                    word, reviewer="edges", number=number, span=Span(path="a.py", start=line, end=line)
                )
                for number, (word, line) in enumerate([("alpha", 1), ("bravo", 11), ("charlie", 21)])
            ),
        )
    ]
    merged = tally(panel, files, proposals=[Proposal(claim_ids=("C1", "C2", "C3"))])
    assert [(claim.span.start, claim.span.end) for claim in merged.claims] == [(1, 11), (21, 21)]


def test_a_claim_is_used_once_and_the_first_proposal_has_it() -> None:
    counted = tally(
        PANEL,
        FILES,
        proposals=[
            Proposal(claim_ids=("C1", "C1", "C1"), text="first"),
            Proposal(claim_ids=("C1", "C2"), text="second"),
            Proposal(claim_ids=("C2", "C1"), text="third"),
        ],
    )
    assert [(claim.claim_id, claim.text) for claim in counted.claims] == [("C1", "first"), ("C2", "second")]


def test_a_thousand_hostile_proposals_change_nothing_and_cost_little() -> None:
    hostile = [
        Proposal(claim_ids=(f"X{number}",) * 100, flagged_by=("ghost",) * 100) for number in range(1000)
    ]
    counted = within_cpu_seconds(2, lambda: tally(PANEL, FILES, proposals=hostile))
    assert counted == tally(PANEL, FILES)


@given(panels(), PROPOSALS)
def test_a_model_can_neither_add_nor_silence(reviews: list[Review], proposals: list[Proposal]) -> None:
    """Every finding ends in a claim that holds code's own claim whole, at least as agreed and as severe; and
    every flagger has a finding of its own there."""
    alone, counted = tally(reviews, FILES), tally(reviews, FILES, proposals=proposals)
    author = {finding.finding_id: review.reviewer for review in reviews for finding in review.findings}
    home = {finding_id: claim for claim in counted.claims for finding_id in claim.finding_ids}
    for claim in alone.claims:
        (now,) = {home[finding_id].claim_id for finding_id in claim.finding_ids}
        after = next(item for item in counted.claims if item.claim_id == now)
        assert set(claim.flagged_by) <= set(after.flagged_by)
        assert set(claim.families) <= set(after.families)
        assert claim.agreement <= after.agreement
        assert claim.weighted_agreement <= after.weighted_agreement
        assert claim.severity <= after.severity
        assert (claim.severity >= GATED_SEVERITY) == (after.severity >= GATED_SEVERITY)
    for claim in counted.claims:
        assert set(claim.flagged_by) == {author[finding_id] for finding_id in claim.finding_ids}
    assert home.keys() == {finding_id for claim in alone.claims for finding_id in claim.finding_ids}
    assert counted.unsupported == alone.unsupported
    assert all(claim.text.strip() for claim in counted.claims)
