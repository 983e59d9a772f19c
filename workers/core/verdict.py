"""The verdict: a pure function of claims, rulings and what became of each stage (PANEL §5).

No model decides here. The lead may explain, order and fix; whether a claim still stands on the code that is
signed is worked out from the numbers and from the difference between the two versions of the code."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from workers.core.alarm import Triage
from workers.core.artefact import Files, Span
from workers.core.claim import GATED_SEVERITY, Claim, ClaimState, is_noise
from workers.core.code_change import changed_spans
from workers.core.consensus import Tally
from workers.core.finding import Abstention, Review, Severity
from workers.core.injection import CATEGORY, injection_claims
from workers.core.run import Outcome, Stage
from workers.core.slices import LeftOut, unseen
from workers.core.team import Policy, bare_model

#: From this severity on a claim that stands rejects the code.
REJECTING_SEVERITY = Severity.MEDIUM

_STAGE_ORDER = [stage.value for stage in Stage]

RulingWord = Literal["fixed", "upheld", "dismissed"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What the lead says of a claim. `changed` are the lines of the signed code that it points at."""

    claim_id: str
    ruling: RulingWord
    reason: str = ""
    changed: tuple[Span, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StageFailure:
    """A stage (`Stage` value) that ended without a result: `cause` is a closed word, `detail` a sentence."""

    stage: str
    cause: str
    detail: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a run is degraded: `code` is `coder_missing`, `consensus_missing`, `lead_missing` or `quorum_not_met`."""

    code: str
    cause: str
    detail: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class JudgedClaim:
    claim: Claim
    state: ClaimState
    #: It reached the team's quorum and threshold.
    is_agreed: bool
    #: It is true of the signed code, as far as this verdict knows.
    stands: bool
    why: str
    ruling: RulingWord | None = None
    ruling_reason: str = ""


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
    #: Paths whose text the lead changed.
    changed_files: tuple[str, ...] = ()

    def as_data(self) -> dict[str, Any]:
        """Plain data for JSON; equal verdicts give equal data."""
        data = dataclasses.asdict(self)
        data["files"] = dict(sorted(self.files.items()))
        for judged, plain in zip(self.claims, data["claims"], strict=True):
            plain["claim"]["severity"] = judged.claim.severity.word
        return data


def decide(case: Case) -> Verdict:
    """The verdict of a case. Degraded wins over rejected, rejected over accepted."""
    reasons = degradations(case)
    signed = case.signed if case.signed is not None else case.candidate
    changes = changed_spans(case.candidate, signed)
    rulings: Mapping[str, Ruling] = {ruling.claim_id: ruling for ruling in case.rulings}
    policy = _within_reach(case)
    judged = case.judged
    if judged is None:
        judged = tuple(
            judge(claim, rulings.get(claim.claim_id), changes, policy) for claim in case.tally.claims
        )
    claims = judged + _injections(case)
    not_reviewed, thinly_reviewed = unseen(
        [case.hidden.get(review.reviewer, ()) for review in case.reviews], heads=case.policy.quorum.heads
    )
    rejecting = any(item.stands and item.claim.severity >= REJECTING_SEVERITY for item in judged)
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
                item.claim.claim_id for item in judged if item.claim.severity >= GATED_SEVERITY
            ),
            left_out=tuple(case.left_out),
            not_reviewed=not_reviewed,
            thinly_reviewed=thinly_reviewed,
        ),
        notes=_notes(case, claims),
        files=dict(signed),
        signed_by_lead=case.signed is not None,
        changed_files=tuple(
            path for path in sorted(signed) if case.candidate and case.candidate.get(path) != signed[path]
        ),
    )


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


def reaches_quorum(claim: Claim, policy: Policy) -> bool:
    """Enough heads, enough families and enough weight flagged the claim, and it is no noise between passes."""
    return (
        not is_noise(claim)
        and len(claim.flagged_by) >= policy.quorum.heads
        and len(claim.families) >= policy.quorum.families
        and claim.weighted_agreement >= policy.threshold
    )


def judge(claim: Claim, ruling: Ruling | None, changes: Sequence[Span], policy: Policy) -> JudgedClaim:
    """Whether the claim stands on the signed code. The lead's word alone moves nothing: a fix counts only
    where it points at lines that changed, and a dismissal never lifts a claim that reached the quorum."""

    is_agreed = reaches_quorum(claim, policy)

    def judged(state: ClaimState, *, stands: bool, why: str) -> JudgedClaim:
        return JudgedClaim(
            claim=claim,
            state=state,
            is_agreed=is_agreed,
            stands=stands,
            why=why,
            ruling=ruling.ruling if ruling else None,
            ruling_reason=ruling.reason if ruling else "",
        )

    if ruling and ruling.ruling == "fixed" and points_at_change(ruling, changes):
        return judged(
            ClaimState.FIXED, stands=False, why="the lead changed the lines it points at; not tested"
        )
    if not is_agreed:
        dismissed = ruling is not None and ruling.ruling == "dismissed"
        state = ClaimState.DISMISSED if dismissed else ClaimState.ADVISORY
        return judged(state, stands=False, why=_short_of_quorum(claim, policy))
    if claim.severity >= GATED_SEVERITY:
        return judged(
            ClaimState.ADVISORY,
            stands=False,
            why=f"agreed, but severity {claim.severity.word} needs a test that reproduces it and none was run",
        )
    if ruling and ruling.ruling == "fixed":
        why = "agreed; the fix that the lead reports changes nothing where it points"
    elif ruling and ruling.ruling == "dismissed":
        why = "agreed; the lead may not dismiss what the quorum upholds"
    else:
        why = "agreed and not fixed"
    return judged(ClaimState.UPHELD, stands=True, why=why)


def points_at_change(ruling: Ruling, changes: Sequence[Span]) -> bool:
    """Whether a line that the lead points at really differs between the coder's code and the signed code."""
    return any(pointed.overlaps(change) for pointed in ruling.changed for change in changes)


def _short_of_quorum(claim: Claim, policy: Policy) -> str:
    if is_noise(claim):
        return "seen by one head in one of its passes only"
    heads, families = len(claim.flagged_by), len(claim.families)
    if heads < policy.quorum.heads or families < policy.quorum.families:
        return (
            f"flagged by {heads} of the {policy.quorum.heads} heads and {families} of the "
            f"{policy.quorum.families} families that the quorum asks for"
        )
    return f"weighted agreement {claim.weighted_agreement} is below the threshold {policy.threshold}"


def _notes(case: Case, judged: Sequence[JudgedClaim]) -> tuple[str, ...]:
    notes = ["code_submitted"] if case.is_submitted else []
    if case.judged is not None:
        # The receipt then counts reviews of the alarms; nobody looked for anything else.
        notes.append("only_alarms_judged")
    families = {review.family for review in case.reviews}
    coder = bare_model(case.coder_model) if case.coder_model else None
    shares_model = any(bare_model(review.model) == coder for review in case.reviews)
    too_few = len(families) < max(2, case.policy.quorum.families)
    if case.reviews and (shares_model or too_few):
        notes.append("reduced_diversity")
    if any(item.state is ClaimState.FIXED for item in judged):
        notes.append("fix_unverified")
    if any(item.claim.category == CATEGORY and not item.claim.flagged_by for item in judged):
        notes.append("injection_found")
    return tuple(notes)
