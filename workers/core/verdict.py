"""The verdict: a pure function of claims, rulings and what became of each stage (PANEL §5).

No model decides here. The lead may explain, order and fix; whether a claim still stands on the code that is
signed is worked out from the numbers and from the difference between the two versions of the code."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any

from workers.core.alarm import Triage
from workers.core.artefact import Files, Span
from workers.core.claim import GATED_SEVERITY, ClaimState
from workers.core.code_change import changed_spans
from workers.core.consensus import Tally
from workers.core.finding import Abstention, Review, Severity
from workers.core.injection import CATEGORY, injection_claims
from workers.core.judgement import (
    Dossier,
    FixCheck,
    JudgedClaim,
    Proved,
    Ruling,
    Spent,
    judge,
)
from workers.core.proof import CODE_TAMPERS, Proof
from workers.core.receipt import (
    Cost,
    GateReceipt,
    RefuterReceipt,
    RoundsReceipt,
    TestReceipt,
    WeightReceipt,
    costs,
    count_proofs,
    count_refutations,
    weights_used,
)
from workers.core.refutation import Refuted
from workers.core.run import Outcome, Stage
from workers.core.slices import LeftOut, unseen
from workers.core.team import Policy, bare_model

#: From this severity on a claim that stands rejects the code.
REJECTING_SEVERITY = Severity.MEDIUM
_STAGE_ORDER = [stage.value for stage in Stage]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StageFailure:
    """A stage (`Stage` value) that ended without a result: `cause` is a closed word, `detail` a sentence."""

    stage: str
    cause: str
    detail: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a run is degraded: `code` is `coder_missing`, `consensus_missing`, `gate_missing`, `lead_missing` or
    `quorum_not_met`."""

    code: str
    cause: str
    detail: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """The receipt: who reviewed, who was missing, what was not counted and what was not tested."""

    valid_reviews: int
    panel_size: int
    abstained: tuple[Abstention, ...]
    unsupported_findings: int
    ungated_claims: tuple[str, ...]
    #: Files that were never sent to anybody; lines that no valid review was shown; lines that too few for a quorum saw.
    left_out: tuple[LeftOut, ...] = ()
    not_reviewed: tuple[Span, ...] = ()
    thinly_reviewed: tuple[Span, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All that the verdict depends on."""

    policy: Policy
    panel_size: int
    coder_model: str | None
    candidate: Files
    signed: Files | None
    reviews: Sequence[Review]
    abstentions: Sequence[Abstention]
    tally: Tally
    rulings: Sequence[Ruling] = ()
    failures: Sequence[StageFailure] = ()
    #: The candidate is code that was submitted to be judged; no coder was asked.
    is_submitted: bool = False
    left_out: Sequence[LeftOut] = ()
    #: What each reviewer was not shown.
    hidden: Mapping[str, Sequence[Span]] = dataclasses.field(default_factory=dict)
    #: Alarms of a scanner, whose fate is settled already; None where the panel's own claims are judged.
    judged: tuple[JudgedClaim, ...] | None = None
    refuted: Sequence[Refuted] = ()
    proved: Sequence[Proved] = ()
    fixes: Sequence[FixCheck] = ()
    spent: Sequence[Spent] = ()
    #: Claims that should have been refuted or tested and were not: nobody answered, or there were too many.
    unanswered: Sequence[str] = ()
    not_refuted: Sequence[str] = ()
    not_tested: Sequence[str] = ()
    tests: TestReceipt | None = None
    rounds: RoundsReceipt | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What a run concluded. `files` is the code it carries: signed by the lead, else the coder's, else empty."""

    outcome: Outcome
    reasons: tuple[Reason, ...]
    claims: tuple[JudgedClaim, ...]
    coverage: Coverage
    notes: tuple[str, ...]
    files: Files
    signed_by_lead: bool
    #: Paths of submitted code whose text the lead changed; None where a coder wrote the code.
    changed_files: tuple[str, ...] | None = None
    refutation: RefuterReceipt | None = None
    gate: GateReceipt | None = None
    costs: tuple[Cost, ...] = ()
    tests: TestReceipt | None = None
    rounds: RoundsReceipt | None = None
    weights: tuple[WeightReceipt, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Plain data for JSON; equal verdicts give equal data. Receipts of what was not done are left out, so that
        verdicts from before there were refuters, a gate, rounds, submitted code and records are recomputed to the byte.
        """
        data = dataclasses.asdict(self)
        data["files"] = dict(sorted(self.files.items()))
        data["claims"] = [judged.as_data() for judged in self.claims]
        for name in ("refutation", "gate", "costs", "tests", "rounds", "weights"):
            if not data[name]:
                del data[name]
        if self.gate is not None and not self.gate.unguarded:
            del data["gate"]["unguarded"]
        if self.changed_files is None:
            del data["changed_files"]
            for name in ("left_out", "not_reviewed", "thinly_reviewed"):
                if not data["coverage"][name]:
                    del data["coverage"][name]
        return data


def decide(case: Case) -> Verdict:
    """The verdict of a case. Degraded wins over rejected, rejected over accepted."""
    reasons = degradations(case)
    signed = case.signed if case.signed is not None else case.candidate
    changes = changed_spans(case.candidate, signed)
    policy = _within_reach(case)
    dossiers = _dossiers(case)
    judged = case.judged
    if judged is None:
        judged = tuple(judge(claim, dossiers[claim.claim_id], changes, policy) for claim in case.tally.claims)
    claims = judged + _injections(case)
    not_reviewed, thinly_reviewed = unseen(
        [case.hidden.get(review.reviewer, ()) for review in case.reviews], heads=case.policy.quorum.heads
    )
    rejecting = any(item.stands and item.claim.severity >= REJECTING_SEVERITY for item in judged)
    # A team that runs the submitted tests holds the code to them: what fails one is not what was asked for.
    is_red = case.policy.coder_tests and case.tests is not None and bool(case.tests.red_submitted)
    rejecting = rejecting or is_red
    outcome = Outcome.DEGRADED if reasons else Outcome.REJECTED if rejecting else Outcome.ACCEPTED
    return Verdict(
        outcome=outcome,
        reasons=reasons,
        claims=claims,
        coverage=Coverage(
            valid_reviews=len(case.reviews),
            panel_size=case.panel_size,
            abstained=tuple(sorted(case.abstentions, key=lambda item: item.reviewer)),
            unsupported_findings=len(case.tally.unsupported),
            ungated_claims=tuple(
                item.claim.claim_id
                for item in judged
                if item.claim.severity >= GATED_SEVERITY and not item.is_decided
            ),
            left_out=tuple(case.left_out),
            not_reviewed=not_reviewed,
            thinly_reviewed=thinly_reviewed,
        ),
        notes=_notes(case, claims),
        files=dict(signed),
        signed_by_lead=case.signed is not None,
        changed_files=_changed_files(case, signed),
        refutation=count_refutations(judged, unanswered=case.unanswered, left_out=case.not_refuted),
        gate=count_proofs(judged, left_out=case.not_tested),
        costs=costs(judged),
        tests=case.tests,
        rounds=case.rounds,
        weights=weights_used(case.tally),
    )


def _changed_files(case: Case, signed: Files) -> tuple[str, ...] | None:
    if not case.is_submitted:
        return None
    return tuple(path for path in sorted(signed) if case.candidate.get(path) != signed[path])


def judged_alarms(fates: Sequence[Triage]) -> tuple[JudgedClaim, ...]:
    """Alarms as the verdict lists them: what is not dismissed stands, whatever the lead says of it."""
    return tuple(
        JudgedClaim(
            claim=fate.claim,
            state=ClaimState.DISMISSED if fate.is_dismissed else ClaimState.UPHELD,
            is_agreed=fate.is_dismissed,
            stands=not fate.is_dismissed,
            why=fate.why,
        )
        for fate in fates
    )


def _injections(case: Case) -> tuple[JudgedClaim, ...]:
    """What in the artefact tries to instruct its reviewers (PANEL). It is told, and it moves nothing: a text must
    not be able to get itself accepted, nor somebody else's code rejected."""
    return tuple(
        JudgedClaim(
            claim=claim,
            state=ClaimState.ADVISORY,
            is_agreed=False,
            stands=False,
            why="found by code, not by a vote: text that addresses the reviewers is data, and changes no verdict",
        )
        for claim in injection_claims(case.candidate, Severity[case.policy.injection_severity.upper()])
    )


def _dossiers(case: Case) -> Mapping[str, Dossier]:
    rulings = {item.claim_id: item for item in case.rulings}
    refuted = {item.claim_id: item for item in case.refuted}
    proved = {item.claim_id: item for item in case.proved}
    fixes = {item.claim_id: item for item in case.fixes}
    spent = {item.claim_id: item for item in case.spent}
    return {
        claim.claim_id: Dossier(
            ruling=rulings.get(claim.claim_id),
            refuted=refuted.get(claim.claim_id),
            proved=proved.get(claim.claim_id),
            fix=fixes.get(claim.claim_id),
            spent=spent.get(claim.claim_id),
        )
        for claim in case.tally.claims
    }


def _within_reach(case: Case) -> Policy:
    """The policy with no more families asked for than answered.

    Otherwise a panel of one family, all that the keys at hand allow (PANEL §6), could uphold nothing and
    accept whatever it is shown; its verdict says `reduced_diversity` instead.
    """
    families = {review.family for review in case.reviews}
    if not families or len(families) >= case.policy.quorum.families:
        return case.policy
    quorum = case.policy.quorum.model_copy(update={"families": len(families)})
    return case.policy.model_copy(update={"quorum": quorum})


def degradations(case: Case) -> tuple[Reason, ...]:
    """The typed reasons why this run is degraded, in stage order; empty if it is not."""
    failures = sorted(case.failures, key=lambda failure: (_STAGE_ORDER.index(failure.stage), failure.cause))
    reasons = [
        Reason(code=f"{failure.stage}_missing", cause=failure.cause, detail=failure.detail)
        for failure in failures
    ]
    missing = {failure.stage for failure in failures}
    if case.policy.gate == "required":
        reasons += _missing_cage(case)
    coder_is_there = Stage.CODER not in missing
    if coder_is_there and case.signed is None and Stage.LEAD not in missing:
        reasons.append(Reason(code="lead_missing", cause="unsigned", detail="no lead signed the code"))
    if coder_is_there and len(case.reviews) < case.policy.quorum.heads:
        reasons.append(
            Reason(
                code="quorum_not_met",
                cause="abstentions",
                detail=f"{len(case.reviews)} of {case.panel_size} reviewers gave a valid review; "
                f"the team's quorum is {case.policy.quorum.heads}",
            )
        )
    return tuple(reasons)


def _missing_cage(case: Case) -> list[Reason]:
    """A team that requires the gate is not served by a run in which there was no cage."""
    absent = [
        item
        for item in case.proved
        if item.proof is Proof.UNPROVABLE and item.reason in {"no_sandbox", "cage_failed"}
    ]
    return [Reason(code="gate_missing", cause=item.reason, detail=item.detail) for item in absent[:1]]


class Note(StrEnum):
    """What a reader of an outcome should know beside it; `docs/states.md` says each in words."""

    CODE_SUBMITTED = "code_submitted"
    ONLY_ALARMS_JUDGED = "only_alarms_judged"
    REDUCED_DIVERSITY = "reduced_diversity"
    FIX_UNVERIFIED = "fix_unverified"
    OVERRIDE = "override"
    NO_TESTS = "no_tests"
    UNGUARDED_PROOF = "unguarded_proof"
    TAMPERING = "tampering"
    TESTS_FAILING = "tests_failing"
    REWRITE_DISCARDED = "rewrite_discarded"
    OSCILLATION = "oscillation"
    INJECTION_FOUND = "injection_found"


def _notes(case: Case, judged: Sequence[JudgedClaim]) -> tuple[str, ...]:
    proofs = [item.proved for item in judged if item.proved is not None]
    tests = case.tests
    holds = {
        Note.CODE_SUBMITTED: case.is_submitted,
        # The receipt then counts reviews of the alarms; nobody looked for anything else.
        Note.ONLY_ALARMS_JUDGED: case.judged is not None,
        Note.REDUCED_DIVERSITY: _has_few_views(case),
        Note.FIX_UNVERIFIED: any(item.is_untested_fix for item in judged),
        Note.OVERRIDE: any(item.is_override for item in judged),
        # Silence would read as green.
        Note.NO_TESTS: case.policy.coder_tests and tests is None and case.signed is not None,
        Note.UNGUARDED_PROOF: any(proof.is_unguarded for proof in proofs),
        Note.TAMPERING: any(proof.reason == CODE_TAMPERS for proof in proofs),
        Note.TESTS_FAILING: tests is not None and bool(tests.red_after),
        Note.REWRITE_DISCARDED: tests is not None and tests.is_rewrite_discarded,
        Note.OSCILLATION: case.rounds is not None and case.rounds.stopped == "oscillation",
        Note.INJECTION_FOUND: any(
            item.claim.category == CATEGORY and not item.claim.flagged_by for item in judged
        ),
    }
    return tuple(note.value for note in Note if holds[note])


def _has_few_views(case: Case) -> bool:
    """Fewer families than the team wants looked at the code, or one of them wrote it."""
    families = {review.family for review in case.reviews}
    coder = bare_model(case.coder_model) if case.coder_model else None
    shares_model = any(bare_model(review.model) == coder for review in case.reviews)
    too_few = len(families) < max(2, case.policy.quorum.families)
    return bool(case.reviews) and (shares_model or too_few)
