"""The arithmetic of consensus (PANEL §2): findings become claims, and code counts who flagged what.

A consensus model may propose merges, wording and names; nothing it says is believed until code has found
the named reviewer's own supported finding in the claim. Everything here is a pure function of its input and
independent of the order in which reviews arrived."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from workers.core.artefact import Files, Span
from workers.core.claim import GATED_SEVERITY, Claim
from workers.core.clustering import cluster, joint_severity
from workers.core.finding import Evidenced, Finding, Review, Severity, unsupported_reason
from workers.core.similarity import REMARK_RULE, RemarkRule
from workers.core.weights import (
    NEW_REVIEWER_WEIGHT,
    Record,
    agreement,
    effective_weights,
    weighted_agreement,
)

#: Claims a consensus model proposes to merge must lie in one file, no further apart than this.
MERGE_SLACK_LINES = 10


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What the consensus model proposes for one claim: which of code's claims it joins, in what words,
    flagged by whom. The names are what the model believes; who flagged a claim is counted in code, so that a
    ghost adds nobody and a list that leaves somebody out silences nobody."""

    claim_ids: tuple[str, ...]
    text: str = ""
    flagged_by: tuple[str, ...] | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Unsupported:
    """A finding that the code does not bear out: kept in the ledger, not counted."""

    finding_id: str
    reviewer: str
    reason: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The counted panel: `weights` are those used, frozen with it, and `records` what they were earned by; a reviewer
    without a record is new."""

    claims: tuple[Claim, ...]
    unsupported: tuple[Unsupported, ...]
    reviewers: tuple[str, ...]
    weights: Mapping[str, float]
    records: Mapping[str, Record] = dataclasses.field(default_factory=dict)


def tally(
    reviews: Sequence[Review],
    files: Files | None,
    *,
    proposals: Sequence[Proposal] = (),
    weights: Mapping[str, float] | None = None,
    rule: RemarkRule = REMARK_RULE,
) -> Tally:
    """Count the panel: check evidence, cluster, apply the proposals that hold, and compute both agreements.

    `files` is the artefact; None where it is not at hand, as with remarks replayed from elsewhere: then no
    finding can be held against it and all of them count.
    """
    reviews = sorted(reviews, key=lambda review: review.reviewer)
    used = {review.reviewer: (weights or {}).get(review.reviewer, NEW_REVIEWER_WEIGHT) for review in reviews}
    supported: list[Finding] = []
    unsupported: list[Unsupported] = []
    artefact = None if files is None else Evidenced(files)
    for finding in (finding for review in reviews for finding in review.findings):
        reason = None if artefact is None else unsupported_reason(finding, artefact)
        if reason is None:
            supported.append(finding)
        else:
            unsupported.append(
                Unsupported(finding_id=finding.finding_id, reviewer=finding.reviewer, reason=reason)
            )
    groups = cluster(supported, rule=rule)
    return Tally(
        claims=_apply(proposals, {f"C{n}": group for n, group in enumerate(groups, start=1)}, reviews, used),
        unsupported=tuple(unsupported),
        reviewers=tuple(review.reviewer for review in reviews),
        weights=used,
    )


def merge_passes(passes: Sequence[Review]) -> Review:
    """One reviewer's passes as its one review: all findings, and how many passes there were.

    A head that says the same thing in every pass is one head; how steadily it said so is the claim's
    `self_consistency`. Raises ValueError unless all are of one reviewer.
    """
    names = {review.reviewer for review in passes}
    if len(names) != 1:
        raise ValueError(f"passes of one reviewer are merged, not of {sorted(names)}")
    return dataclasses.replace(
        passes[0],
        findings=tuple(finding for review in passes for finding in review.findings),
        summary="\n".join(review.summary for review in passes if review.summary),
        passes=sum(review.passes for review in passes),
    )


def _claim(
    claim_id: str,
    findings: Sequence[Finding],
    reviews: Sequence[Review],
    weights: Mapping[str, float],
    *,
    text: str = "",
    floor: Severity = Severity.LOW,
) -> Claim:
    panel = {review.reviewer: review for review in reviews}
    flagged = sorted({finding.reviewer for finding in findings})
    seen = {
        name: {finding.pass_number for finding in findings if finding.reviewer == name} for name in flagged
    }
    spans = [finding.span for finding in findings]
    longest = max(findings, key=lambda finding: (len(finding.claim), finding.finding_id))
    return Claim(
        claim_id=claim_id,
        text=text.strip() or longest.claim,
        category=min(finding.category for finding in findings),
        severity=max(floor, joint_severity(findings)),
        span=Span(
            path=spans[0].path, start=min(span.start for span in spans), end=max(span.end for span in spans)
        ),
        finding_ids=tuple(sorted(finding.finding_id for finding in findings)),
        flagged_by=tuple(flagged),
        families=tuple(sorted({panel[name].family for name in flagged})),
        agreement=agreement(flagged, len(reviews)),
        weighted_agreement=weighted_agreement(flagged, effective_weights(reviews, weights)),
        passes_seen=sum(len(passes) for passes in seen.values()),
        self_consistency=round(
            sum(min(1.0, len(seen[name]) / panel[name].passes) for name in flagged) / len(flagged), 3
        ),
    )


def _apply(
    proposals: Sequence[Proposal],
    groups: Mapping[str, tuple[Finding, ...]],
    reviews: Sequence[Review],
    weights: Mapping[str, float],
) -> tuple[Claim, ...]:
    """Claims after the proposals that hold: each of code's claims is used once, first proposal first.

    Whoever flagged one of the joined claims flags the joined one, whatever names the proposal gives: code's
    own count is the floor, and the names it did not count are ghosts.
    """
    free = dict(groups)
    claims: list[Claim] = []
    for proposal in proposals:
        ids = [claim_id for claim_id in dict.fromkeys(proposal.claim_ids) if claim_id in free]
        joined: list[Finding] = []
        first, floor = "", Severity.LOW
        for claim_id in ids:
            if not joined or _mergeable(joined, free[claim_id]):
                floor = max(floor, joint_severity(free[claim_id]))
                first = first or claim_id
                joined += free.pop(claim_id)
        if joined:
            claims.append(_claim(first, joined, reviews, weights, text=proposal.text, floor=floor))
    claims += [_claim(claim_id, group, reviews, weights) for claim_id, group in free.items()]
    return tuple(sorted(claims, key=lambda claim: int(claim.claim_id[1:])))


def _mergeable(left: Sequence[Finding], right: Sequence[Finding]) -> bool:
    near = all(a.span.overlaps(b.span, slack=MERGE_SLACK_LINES) for a in left for b in right)
    return near and _band(joint_severity(left)) == _band(joint_severity(right))


def _band(severity: Severity) -> Severity:
    """The part of the scale within which a verdict treats claims alike; a merge must not carry one out of it."""
    return min(severity, GATED_SEVERITY)
