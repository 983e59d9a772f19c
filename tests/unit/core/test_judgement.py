"""Votes, refuter, gate and the lead's fix together: where one claim ends (PANEL §5)."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from tests.factories import make_claim
from workers.core.artefact import Span
from workers.core.claim import Claim
from workers.core.finding import Severity
from workers.core.judgement import (
    Band,
    ClaimState,
    Dossier,
    FixCheck,
    FixWord,
    JudgedClaim,
    Proved,
    Ruling,
    RulingWord,
    Spent,
    judge,
)
from workers.core.proof import Proof
from workers.core.refutation import Refuted, Standing
from workers.core.team import Policy

AGREED = make_claim(flagged_by=("left", "right"))
COSTLY = make_claim(flagged_by=("left", "right"), severity=Severity.HIGH)
LONE = make_claim()
CHANGED = (Span(path="a.py", start=3, end=3),)


def refuted(standing: Standing = Standing.SURVIVED, *, is_same_family: bool = False) -> Refuted:
    return Refuted(
        claim_id="C1",
        standing=standing,
        ground="intended" if standing is Standing.KILLED else None,
        reason="it is meant so",
        void="",
        is_same_family=is_same_family,
    )


def proved(proof: Proof) -> Proved:
    return Proved(claim_id="C1", proof=proof, reason="r", detail="d")


def ruling(word: RulingWord, *, override: bool = False, reason: str = "because") -> Ruling:
    return Ruling(claim_id="C1", ruling=word, reason=reason, changed=CHANGED, override=override)


def fix(word: FixWord) -> FixCheck:
    return FixCheck(claim_id="C1", word=word)


def end(claim: Claim, **known: object) -> tuple[ClaimState, bool]:
    judged = judge(claim, Dossier(**known), CHANGED, Policy())  # type: ignore[arg-type]
    return judged.state, judged.stands


@pytest.mark.parametrize("claim", [AGREED, COSTLY, LONE], ids=["agreed", "costly", "lone"])
@pytest.mark.parametrize("word", ["fixed", "upheld", "dismissed"])
def test_a_killed_claim_stays_dead_whatever_the_lead_says(claim: Claim, word: RulingWord) -> None:
    assert end(claim, refuted=refuted(Standing.KILLED), ruling=ruling(word)) == (ClaimState.KILLED, False)


@pytest.mark.parametrize(
    ("proof", "agreed", "costly", "lone"),
    [
        (Proof.REPRODUCED, (ClaimState.UPHELD, True), (ClaimState.UPHELD, True), (ClaimState.UPHELD, True)),
        (
            Proof.NOT_REPRODUCED,
            (ClaimState.DISMISSED, False),
            (ClaimState.DISMISSED, False),
            (ClaimState.DISMISSED, False),
        ),
        # Against the test and never against the code: what votes said stays, and a costly claim needs more than votes.
        (
            Proof.INCONCLUSIVE,
            (ClaimState.UPHELD, True),
            (ClaimState.ADVISORY, False),
            (ClaimState.ADVISORY, False),
        ),
        (
            Proof.UNPROVABLE,
            (ClaimState.UPHELD, True),
            (ClaimState.ADVISORY, False),
            (ClaimState.ADVISORY, False),
        ),
    ],
)
def test_a_test_decides_and_where_none_does_the_votes_stay(
    proof: Proof,
    agreed: tuple[ClaimState, bool],
    costly: tuple[ClaimState, bool],
    lone: tuple[ClaimState, bool],
) -> None:
    known = proved(proof)

    assert (end(AGREED, proved=known), end(COSTLY, proved=known), end(LONE, proved=known)) == (
        agreed,
        costly,
        lone,
    )


@pytest.mark.parametrize("word", ["fixed", "upheld", "dismissed"])
def test_a_reproduced_claim_is_fixed_when_its_test_passes_and_only_then(word: RulingWord) -> None:
    known = proved(Proof.REPRODUCED)

    fixed = judge(
        AGREED, Dossier(proved=known, ruling=ruling(word), fix=fix(FixWord.FIXED)), CHANGED, Policy()
    )
    assert (fixed.state, fixed.stands) == (ClaimState.FIXED, False)
    assert fixed.why == "reproduced; its test passes on the signed code"
    assert end(AGREED, proved=known, ruling=ruling(word), fix=fix(FixWord.STANDS)) == (
        ClaimState.UPHELD,
        True,
    )


def test_a_fix_that_could_not_be_run_is_believed_where_it_points_and_marked() -> None:
    judged = judge(
        AGREED,
        Dossier(proved=proved(Proof.REPRODUCED), ruling=ruling("fixed"), fix=fix(FixWord.UNCHECKED)),
        CHANGED,
        Policy(),
    )

    assert (judged.state, judged.is_untested_fix, judged.stands) == (ClaimState.FIXED, True, False)
    assert judged.why == "the lead changed the lines it points at; not tested"


def test_a_reproduced_claim_is_dropped_only_by_an_override_with_a_reason() -> None:
    known = proved(Proof.REPRODUCED)

    assert end(AGREED, proved=known, ruling=ruling("dismissed")) == (ClaimState.UPHELD, True)
    assert end(AGREED, proved=known, ruling=ruling("dismissed", override=True, reason=" "))[1]
    judged = judge(AGREED, Dossier(proved=known, ruling=ruling("dismissed", override=True)), (), Policy())
    assert (judged.state, judged.stands, judged.is_override) == (ClaimState.DISMISSED, False, True)


@pytest.mark.parametrize(
    ("known", "band"),
    [
        (Dossier(), None),
        (Dossier(proved=proved(Proof.REPRODUCED)), Band.CONFIRMED),
        (Dossier(proved=proved(Proof.REPRODUCED), refuted=refuted()), Band.CONFIRMED),
        (Dossier(proved=proved(Proof.REPRODUCED), refuted=refuted(is_same_family=True)), Band.REPRODUCED),
        (Dossier(refuted=refuted()), Band.WITHSTOOD),
        (Dossier(refuted=refuted(is_same_family=True)), Band.AGREED),
    ],
)
def test_a_refuter_of_the_same_family_lifts_no_claim_into_the_top_band(
    known: Dossier, band: Band | None
) -> None:
    assert judge(COSTLY, known, (), Policy()).band is band


def test_only_a_test_makes_a_costly_or_a_lone_claim_stand() -> None:
    """Over all that can be known of a claim: 3 standings, 5 proofs, 7 rulings (override or not), 4 fixes."""
    standings = [None, refuted(), refuted(Standing.KILLED)]
    proofs = [None, *(proved(proof) for proof in Proof)]
    rulings = [
        None,
        *(
            ruling(word, override=override)
            for word in ("fixed", "upheld", "dismissed")
            for override in (True, False)
        ),
    ]
    fixes = [None, *(fix(word) for word in FixWord)]
    seen = 0
    for claim, (found, proof, said, mended) in itertools.product(
        (COSTLY, LONE), itertools.product(standings, proofs, rulings, fixes)
    ):
        judged = judge(
            claim, Dossier(refuted=found, proved=proof, ruling=said, fix=mended), CHANGED, Policy()
        )
        seen += 1
        if judged.stands:
            assert proof is not None
            assert proof.proof is Proof.REPRODUCED
            assert found is None or found.standing is not Standing.KILLED
    assert seen == 2 * 3 * 5 * 7 * 4


def test_all_that_is_known_of_a_claim_goes_into_its_judgement() -> None:
    known = Dossier(
        ruling=ruling("upheld", reason="it is so"),
        refuted=refuted(),
        proved=proved(Proof.INCONCLUSIVE),
        fix=fix(FixWord.STANDS),
        spent=Spent(claim_id="C1", cost_usd=0.5, seconds=2.0),
    )
    assert judge(COSTLY, known, (), Policy()) == JudgedClaim(
        claim=COSTLY,
        state=ClaimState.ADVISORY,
        is_agreed=True,
        stands=False,
        why="agreed, but severity high needs a test and there is none: d",
        ruling="upheld",
        ruling_reason="it is so",
        band=Band.WITHSTOOD,
        refuted=known.refuted,
        proved=known.proved,
        fix=known.fix,
        spent=known.spent,
    )
    bare = judge(LONE, Dossier(), (), Policy())
    assert (bare.is_agreed, bare.ruling, bare.ruling_reason, bare.band) == (False, None, "", None)
    untested = judge(COSTLY, Dossier(), (), Policy())
    assert untested.why == "agreed, but severity high needs a test that reproduces it and none was run"


@pytest.mark.parametrize(
    ("known", "why"),
    [
        (Dossier(refuted=refuted(Standing.KILLED)), "killed by its refuter on intended: it is meant so"),
        (Dossier(proved=proved(Proof.NOT_REPRODUCED)), "shown false: d"),
        (
            Dossier(proved=proved(Proof.REPRODUCED), ruling=ruling("dismissed", override=True)),
            "reproduced; the lead overrides the test: because",
        ),
        (Dossier(ruling=ruling("fixed")), "the lead changed the lines it points at; not tested"),
    ],
)
def test_what_ended_a_claim_is_told(known: Dossier, why: str) -> None:
    judged = judge(AGREED, known, CHANGED, Policy())
    assert (judged.why, judged.stands) == (why, False)


def test_what_was_not_done_leaves_no_field_behind() -> None:
    assert set(judge(AGREED, Dossier(), (), Policy()).as_data()) == {
        "claim",
        "state",
        "is_agreed",
        "stands",
        "why",
        "ruling",
        "ruling_reason",
    }


def test_a_proof_whose_control_nothing_guards_says_so_and_is_never_confirmed() -> None:
    bare = dataclasses.replace(proved(Proof.REPRODUCED), guards=0)
    guarded = dataclasses.replace(bare, guards=2)
    unguarded, confirmed = (
        judge(COSTLY, Dossier(proved=it, refuted=refuted()), (), Policy()) for it in (bare, guarded)
    )

    assert (unguarded.band, confirmed.band) == (Band.REPRODUCED, Band.CONFIRMED)
    assert (unguarded.stands, confirmed.stands) == (True, True)
    assert unguarded.why == "reproduced by a test: d; no other test guards the control"
    assert confirmed.why == "reproduced by a test: d"


def test_a_run_from_before_guards_were_counted_keeps_its_form() -> None:
    judged = judge(COSTLY, Dossier(proved=proved(Proof.REPRODUCED)), (), Policy())

    assert judged.band is Band.CONFIRMED
    assert judged.as_data()["proved"] == {
        "claim_id": "C1",
        "proof": "reproduced",
        "reason": "r",
        "detail": "d",
    }
