"""The demo: every example through the real prompts, the simulator's answers and the pure arithmetic.

The team has five reviewers: rigor and safety (sim-birch), edges and spec (sim-cedar), craft (sim-alder).
New reviewers weigh 0.5, a family shares one unit: birch and cedar heads weigh 0.25 each, craft 0.5, together
1.5. The quorum is two heads of two families."""

from __future__ import annotations

import dataclasses
from functools import lru_cache

import pytest

from tests.unit.simulator.rehearsal import Rehearsal, example_specs, rehearse
from workers.core.run import Outcome
from workers.core.similarity import same_claim

SPECS = example_specs()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Judged:
    """What is expected of one claim."""

    flagged_by: tuple[str, ...]
    agreement: float
    weighted: float
    severity: str
    state: str
    ruling: str
    why: str


@lru_cache
def demo(name: str) -> Rehearsal:
    return rehearse(SPECS[name])


TABLE: dict[str, tuple[str, tuple[Judged, ...]]] = {
    # The coder writes the good solution, nobody has anything to say.
    "intervals": ("accepted", ()),
    # rigor and spec of five: 2/5; 0.25 + 0.25 of 1.5. Agreed, and the lead mends it.
    "roman": (
        "accepted",
        (
            Judged(
                flagged_by=("rigor", "spec"),
                agreement=0.4,
                weighted=0.333,
                severity="medium",
                state="fixed",
                ruling="fixed",
                why="the lead changed the lines it points at; not tested",
            ),
        ),
    ),
    # craft's quote stands nowhere and is not counted; edges and rigor agree on something of low severity,
    # which stands but rejects nothing.
    "word-wrap": (
        "accepted",
        (
            Judged(
                flagged_by=("edges", "rigor"),
                agreement=0.4,
                weighted=0.333,
                severity="low",
                state="upheld",
                ruling="upheld",
                why="agreed and not fixed",
            ),
        ),
    ),
    # craft invents a defect alone: 1/5; 0.5 of 1.5. One head of two.
    "csv-line": (
        "accepted",
        (
            Judged(
                flagged_by=("craft",),
                agreement=0.2,
                weighted=0.333,
                severity="medium",
                state="dismissed",
                ruling="dismissed",
                why="flagged by 1 of the 2 heads and 1 of the 2 families that the quorum asks for",
            ),
        ),
    ),
    # Three heads of two families: 3/5; 0.75 of 1.5. The lead calls it intended, which moves nothing.
    "ttl-cache": (
        "rejected",
        (
            Judged(
                flagged_by=("edges", "rigor", "spec"),
                agreement=0.6,
                weighted=0.5,
                severity="medium",
                state="upheld",
                ruling="dismissed",
                why="agreed; the lead may not dismiss what the quorum upholds",
            ),
        ),
    ),
    # craft and edges: 2/5; 0.5 + 0.25 of 1.5. The lead says "fixed" and rewords a message two lines below.
    "duration": (
        "rejected",
        (
            Judged(
                flagged_by=("craft", "edges"),
                agreement=0.4,
                weighted=0.5,
                severity="medium",
                state="upheld",
                ruling="fixed",
                why="agreed; the fix that the lead reports changes nothing where it points",
            ),
        ),
    ),
    # Code sees two claims of one head each; the consensus model's merge makes them one of two: 2/5; 0.75 of
    # 1.5. The ghost that it names is dropped. The lead mends it.
    "toposort": (
        "accepted",
        (
            Judged(
                flagged_by=("craft", "rigor"),
                agreement=0.4,
                weighted=0.5,
                severity="medium",
                state="fixed",
                ruling="fixed",
                why="the lead changed the lines it points at; not tested",
            ),
        ),
    ),
    # Two bugs on neighbouring lines. The first (C1 by its line) is seen by rigor alone: 1/5; 0.25 of 1.5,
    # below the quorum although it is real. The second by edges and safety: mended.
    "token-bucket": (
        "accepted",
        (
            Judged(
                flagged_by=("rigor",),
                agreement=0.2,
                weighted=0.167,
                severity="medium",
                state="advisory",
                ruling="upheld",
                why="flagged by 1 of the 2 heads and 1 of the 2 families that the quorum asks for",
            ),
            Judged(
                flagged_by=("edges", "safety"),
                agreement=0.4,
                weighted=0.333,
                severity="medium",
                state="fixed",
                ruling="fixed",
                why="the lead changed the lines it points at; not tested",
            ),
        ),
    ),
    # Two agreed bugs; the lead mends the second (3/5; 0.5 + 0.25 + 0.25 of 1.5) and leaves the first.
    "split-money": (
        "rejected",
        (
            Judged(
                flagged_by=("edges", "safety"),
                agreement=0.4,
                weighted=0.333,
                severity="medium",
                state="upheld",
                ruling="upheld",
                why="agreed and not fixed",
            ),
            Judged(
                flagged_by=("craft", "rigor", "spec"),
                agreement=0.6,
                weighted=0.667,
                severity="medium",
                state="fixed",
                ruling="fixed",
                why="the lead changed the lines it points at; not tested",
            ),
        ),
    ),
    # A path traversal, three heads: high severity needs a test, none was run, and the lead leaves it.
    "safe-join": (
        "accepted",
        (
            Judged(
                flagged_by=("edges", "rigor", "safety"),
                agreement=0.6,
                weighted=0.5,
                severity="high",
                state="advisory",
                ruling="upheld",
                why="agreed, but severity high needs a test that reproduces it and none was run",
            ),
        ),
    ),
    # eval on a stranger's text: critical, 0.5 + 0.25 + 0.25 of 1.5, and the lead mends it.
    "search-filter": (
        "accepted",
        (
            Judged(
                flagged_by=("craft", "rigor", "safety"),
                agreement=0.6,
                weighted=0.667,
                severity="critical",
                state="fixed",
                ruling="fixed",
                why="the lead changed the lines it points at; not tested",
            ),
        ),
    ),
}


@pytest.mark.parametrize("name", SPECS)
def test_an_example_ends_as_derived_by_hand(name: str) -> None:
    outcome, claims = TABLE[name]
    verdict = demo(name).verdict
    judged = tuple(
        Judged(
            flagged_by=item.claim.flagged_by,
            agreement=item.claim.agreement,
            weighted=item.claim.weighted_agreement,
            severity=item.claim.severity.word,
            state=item.state.value,
            ruling=str(item.ruling),
            why=item.why,
        )
        for item in verdict.claims
    )
    assert (verdict.outcome.value, judged) == (outcome, claims)
    assert verdict.reasons == ()


def test_the_demo_shows_accepted_and_rejected_runs_and_none_degraded() -> None:
    outcomes = [demo(name).verdict.outcome for name in SPECS]
    assert (outcomes.count(Outcome.ACCEPTED), outcomes.count(Outcome.REJECTED)) == (8, 3)
    assert Outcome.DEGRADED not in outcomes


def test_only_the_quote_that_stands_nowhere_is_thrown_away() -> None:
    thrown_away = {name: demo(name).final.unsupported for name in SPECS}
    assert {name for name, items in thrown_away.items() if items} == {"word-wrap"}
    (item,) = thrown_away["word-wrap"]
    assert (item.reviewer, item.reason) == ("craft", "the quote is not found in 'word_wrap.py'")


def test_a_ghost_is_proposed_and_dropped() -> None:
    toposort = demo("toposort")
    assert toposort.proposals[0].flagged_by == ("craft", "rigor", "atlas")
    assert toposort.final.claims[0].flagged_by == ("craft", "rigor")


def test_code_alone_joins_some_defects_and_the_consensus_model_the_others() -> None:
    joined_by_code = {
        name
        for name in SPECS
        if any(len(claim.families) > 1 for claim in demo(name).counted.claims) and not demo(name).proposals
    }
    joined_by_model = {name for name in SPECS if demo(name).proposals}
    assert joined_by_model == {"toposort"}
    assert len(joined_by_code) == 8
    (first, second) = [finding for review in demo("toposort").reviews for finding in review.findings]
    assert not same_claim(first, second)


@pytest.mark.parametrize("seed", range(1, 6))
def test_with_any_seed_the_panel_ends_with_one_claim_for_each_defect_and_no_run_degrades(seed: int) -> None:
    for name, spec in SPECS.items():
        run = rehearse(spec, seed=seed)
        places = [claim.span for claim in run.final.claims]
        assert len(places) == len(set(places)), name
        assert run.verdict.outcome is not Outcome.DEGRADED
        assert run.verdict.signed_by_lead


def test_seeds_give_different_demos_and_the_same_seed_the_same_one() -> None:
    written = {
        seed: tuple(rehearse(spec, seed=seed).candidate[path] for spec, path in _paths()) for seed in range(4)
    }
    assert len(set(written.values())) == 4
    again = rehearse(SPECS["ttl-cache"])
    assert again.verdict.as_data() == demo("ttl-cache").verdict.as_data()


def _paths() -> list[tuple[str, str]]:
    return [(spec, next(iter(demo(name).candidate))) for name, spec in SPECS.items()]
