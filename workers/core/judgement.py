"""Whether one claim stands on the code that is signed (PANEL §5): votes, refuter, gate and the lead's fix together.

A test decides where one was run. Where none was, the numbers do, and a costly claim is then at most advisory."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Literal

from workers.core.artefact import Span
from workers.core.claim import GATED_SEVERITY, Claim, ClaimState, is_noise
from workers.core.proof import Proof
from workers.core.refutation import Refuted, Standing
from workers.core.team import Policy

RulingWord = Literal["fixed", "upheld", "dismissed"]


class Band(StrEnum):
    """How much was done to find a claim wrong, most first. A refuter of the proposers' own family lifts nothing, and a
    proof whose control no other test guards is never `confirmed`."""

    CONFIRMED = "confirmed"
    REPRODUCED = "reproduced"
    WITHSTOOD = "withstood"
    AGREED = "agreed"
    LONE = "lone"


class FixWord(StrEnum):
    """What the claim's own test says of the signed code."""

    FIXED = "fixed"
    STANDS = "stands"
    UNCHECKED = "unchecked"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What the lead says of a claim. `changed` are the lines of the signed code that it points at. `override`: it drops
    the claim although a test reproduced it, which is recorded as such."""

    claim_id: str
    ruling: RulingWord
    reason: str = ""
    changed: tuple[Span, ...] = ()
    override: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Proved:
    """What the gate said of a claim. `guards`: how many tests of others were green on code and control alike, which
    a lie that prover and control share would have had to pass; None in runs from before they were counted."""

    claim_id: str
    proof: Proof
    reason: str
    detail: str
    guards: int | None = None

    @property
    def is_unguarded(self) -> bool:
        """It was reproduced, and nothing but its own test says that the control is right."""
        return self.proof is Proof.REPRODUCED and self.guards == 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FixCheck:
    claim_id: str
    word: FixWord
    detail: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What was spent on one claim: models (None: no price is known), and seconds from first question to last run."""

    claim_id: str
    cost_usd: float | None
    seconds: float
    cage_seconds: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Dossier:
    """All that is known of one claim beside its votes."""

    ruling: Ruling | None = None
    refuted: Refuted | None = None
    proved: Proved | None = None
    fix: FixCheck | None = None
    spent: Spent | None = None


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
    #: None where the claim was neither refuted nor tested.
    band: Band | None = None
    refuted: Refuted | None = None
    proved: Proved | None = None
    fix: FixCheck | None = None
    spent: Spent | None = None

    @property
    def is_untested_fix(self) -> bool:
        """The lead's fix was not run."""
        return self.state is ClaimState.FIXED and (self.fix is None or self.fix.word is not FixWord.FIXED)

    @property
    def is_override(self) -> bool:
        """The lead dropped it against its test."""
        return (
            self.state is ClaimState.DISMISSED
            and self.proved is not None
            and self.proved.proof is Proof.REPRODUCED
        )

    @property
    def is_decided(self) -> bool:
        """A refuter or a test ended it, so that no votes are needed."""
        return self.state is ClaimState.KILLED or (
            self.proved is not None and self.proved.proof in {Proof.REPRODUCED, Proof.NOT_REPRODUCED}
        )

    def as_data(self) -> dict[str, Any]:
        """Plain data. What was not done leaves no trace, so that a run without refuters and gate keeps the form that it
        had before there were any."""
        data = dataclasses.asdict(self)
        data["claim"]["severity"] = self.claim.severity.word
        for field in dataclasses.fields(self.claim):
            if data["claim"][field.name] == field.default:
                del data["claim"][field.name]
        for name in ("band", "refuted", "proved", "fix", "spent"):
            if data[name] is None:
                del data[name]
        if self.proved is not None and self.proved.guards is None:
            del data["proved"]["guards"]
        return data


def reaches_quorum(claim: Claim, policy: Policy) -> bool:
    """Enough heads, enough families and enough weight flagged the claim, and it is no noise between passes."""
    return (
        not is_noise(claim)
        and len(claim.flagged_by) >= policy.quorum.heads
        and len(claim.families) >= policy.quorum.families
        and claim.weighted_agreement >= policy.threshold
    )


def judge(claim: Claim, dossier: Dossier, changes: Sequence[Span], policy: Policy) -> JudgedClaim:
    """Whether the claim stands on the signed code. The lead's word alone moves nothing: a fix counts only where the
    claim's test passes or, untested, where it points at lines that changed; a dismissal never lifts a claim that
    reached the quorum; a killed claim stays dead."""
    is_agreed = reaches_quorum(claim, policy)
    state, stands, why = _end(claim, dossier, changes, policy, is_agreed=is_agreed)
    ruling = dossier.ruling
    return JudgedClaim(
        claim=claim,
        state=state,
        is_agreed=is_agreed,
        stands=stands,
        why=why,
        ruling=ruling.ruling if ruling else None,
        ruling_reason=ruling.reason if ruling else "",
        band=_band(dossier, is_agreed=is_agreed),
        refuted=dossier.refuted,
        proved=dossier.proved,
        fix=dossier.fix,
        spent=dossier.spent,
    )


_End = tuple[ClaimState, bool, str]


def _end(claim: Claim, dossier: Dossier, changes: Sequence[Span], policy: Policy, *, is_agreed: bool) -> _End:
    refuted, proved = dossier.refuted, dossier.proved
    if refuted is not None and refuted.standing is Standing.KILLED:
        return ClaimState.KILLED, False, f"killed by its refuter on {refuted.ground}: {refuted.reason}"
    if proved is not None and proved.proof is Proof.NOT_REPRODUCED:
        return ClaimState.DISMISSED, False, f"shown false: {proved.detail}"
    if proved is not None and proved.proof is Proof.REPRODUCED:
        return _reproduced(proved, dossier, changes)
    if _is_pointed_fix(dossier.ruling, changes):
        return ClaimState.FIXED, False, "the lead changed the lines it points at; not tested"
    return _by_votes(claim, dossier, policy, is_agreed=is_agreed)


def _by_votes(claim: Claim, dossier: Dossier, policy: Policy, *, is_agreed: bool) -> _End:
    """No test decided it."""
    ruling = dossier.ruling
    if not is_agreed:
        dismissed = ruling is not None and ruling.ruling == "dismissed"
        state = ClaimState.DISMISSED if dismissed else ClaimState.ADVISORY
        return state, False, _short_of_quorum(claim, policy)
    if claim.severity >= GATED_SEVERITY:
        return ClaimState.ADVISORY, False, _untested(claim, dossier.proved)
    return ClaimState.UPHELD, True, _agreed(ruling)


def _reproduced(proved: Proved, dossier: Dossier, changes: Sequence[Span]) -> _End:
    ruling, fix = dossier.ruling, dossier.fix
    word = fix.word if fix else FixWord.UNCHECKED
    if word is FixWord.FIXED:
        return ClaimState.FIXED, False, "reproduced; its test passes on the signed code"
    if ruling and ruling.ruling == "dismissed" and ruling.override and ruling.reason.strip():
        return ClaimState.DISMISSED, False, f"reproduced; the lead overrides the test: {ruling.reason}"
    if word is FixWord.UNCHECKED and _is_pointed_fix(ruling, changes):
        return ClaimState.FIXED, False, "the lead changed the lines it points at; not tested"
    strength = "; no other test guards the control" if proved.is_unguarded else ""
    return ClaimState.UPHELD, True, f"reproduced by a test: {proved.detail}{strength}"


def _is_pointed_fix(ruling: Ruling | None, changes: Sequence[Span]) -> bool:
    return ruling is not None and ruling.ruling == "fixed" and points_at_change(ruling, changes)


def points_at_change(ruling: Ruling, changes: Sequence[Span]) -> bool:
    """Whether a line that the lead points at really differs between the coder's code and the signed code."""
    return any(pointed.overlaps(change) for pointed in ruling.changed for change in changes)


def _untested(claim: Claim, proved: Proved | None) -> str:
    if proved is None:
        return f"agreed, but severity {claim.severity.word} needs a test that reproduces it and none was run"
    return f"agreed, but severity {claim.severity.word} needs a test and there is none: {proved.detail}"


def _agreed(ruling: Ruling | None) -> str:
    if ruling and ruling.ruling == "fixed":
        return "agreed; the fix that the lead reports changes nothing where it points"
    if ruling and ruling.ruling == "dismissed":
        return "agreed; the lead may not dismiss what the quorum upholds"
    return "agreed and not fixed"


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


def _band(dossier: Dossier, *, is_agreed: bool) -> Band | None:
    refuted, proved = dossier.refuted, dossier.proved
    if refuted is None and proved is None:
        return None
    has_withstood = (
        refuted is not None and refuted.standing is Standing.SURVIVED and not refuted.is_same_family
    )
    if proved is not None and proved.proof is Proof.REPRODUCED:
        is_confirmed = (refuted is None or has_withstood) and not proved.is_unguarded
        return Band.CONFIRMED if is_confirmed else Band.REPRODUCED
    if not is_agreed:
        return Band.LONE
    return Band.WITHSTOOD if has_withstood else Band.AGREED
