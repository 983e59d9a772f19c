"""The arithmetic of consensus (PANEL §2): findings become claims, and code counts who flagged what.

A consensus model may propose merges, wording and names; nothing it says is believed until code has found
the named reviewer's own supported finding in the claim. Everything here is a pure function of its input and
independent of the order in which reviews arrived."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from workers.core.artefact import Files, Span
from workers.core.finding import Evidenced, Finding, Review, Severity, unsupported_reason
from workers.core.similarity import same_claim, similarity

#: The weight of a reviewer that has not yet earned another (PANEL §2.3).
NEW_REVIEWER_WEIGHT = 0.5

#: Claims a consensus model proposes to merge must lie in one file, no further apart than this.
MERGE_SLACK_LINES = 10


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Findings that say the same thing. `agreement` and `weighted_agreement` are two numbers and never one
    "confidence"; both are shares of the reviewers who returned a valid review."""

    claim_id: str
    text: str
    category: str
    severity: Severity
    span: Span
    finding_ids: tuple[str, ...]
    flagged_by: tuple[str, ...]
    families: tuple[str, ...]
    agreement: float
    weighted_agreement: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What the consensus model proposes for one claim: which of code's claims it joins, in what words,
    flagged by whom. Where it names nobody, or only ghosts, code's own count stands: a claim that nobody flagged
    is none, and naming a ghost must not silence it."""

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
    """The counted panel: `weights` are those used, frozen with it."""

    claims: tuple[Claim, ...]
    unsupported: tuple[Unsupported, ...]
    reviewers: tuple[str, ...]
    weights: Mapping[str, float]


def agreement(flagged_by: Iterable[str], valid_reviewers: int) -> float:
    """Share of valid reviewers who flagged a claim: `round(min(len(flagged), n) / n, 3)`; n = 0 gives 0.0."""
    if valid_reviewers <= 0:
        return 0.0
    return round(min(len(set(flagged_by)), valid_reviewers) / valid_reviewers, 3)


def effective_weights(reviews: Sequence[Review], weights: Mapping[str, float]) -> dict[str, float]:
    """Each reviewer's weight after its family's single unit is shared among the family's valid reviewers.

    Reviewers of one family that all say the same say together what one of them would have said alone, so no
    number of clones lifts a claim above what its family says when it is of one mind (Sybil resistance).
    """
    members: dict[str, int] = {}
    for review in reviews:
        members[review.family] = members.get(review.family, 0) + 1
    return {
        review.reviewer: weights.get(review.reviewer, NEW_REVIEWER_WEIGHT) / members[review.family]
        for review in reviews
    }


def weighted_agreement(flagged_by: Iterable[str], effective: Mapping[str, float]) -> float:
    """Share of the panel's effective weight that flagged a claim, to three places; no weight gives 0.0."""
    total = sum(effective.values())
    if total <= 0:
        return 0.0
    flagged = sum(weight for name, weight in effective.items() if name in set(flagged_by))
    return round(min(1.0, flagged / total), 3)


def tally(
    reviews: Sequence[Review],
    files: Files,
    *,
    proposals: Sequence[Proposal] = (),
    weights: Mapping[str, float] | None = None,
) -> Tally:
    """Count the panel: check evidence, cluster, apply the proposals that hold, and compute both agreements."""
    reviews = sorted(reviews, key=lambda review: review.reviewer)
    used = {review.reviewer: (weights or {}).get(review.reviewer, NEW_REVIEWER_WEIGHT) for review in reviews}
    supported: list[Finding] = []
    unsupported: list[Unsupported] = []
    artefact = Evidenced(files)
    for finding in (finding for review in reviews for finding in review.findings):
        reason = unsupported_reason(finding, artefact)
        if reason is None:
            supported.append(finding)
        else:
            unsupported.append(
                Unsupported(finding_id=finding.finding_id, reviewer=finding.reviewer, reason=reason)
            )
    groups = cluster(supported)
    named = [_claim(f"C{number}", group, reviews, used) for number, group in enumerate(groups, start=1)]
    claims = _apply(
        proposals, dict(zip((claim.claim_id for claim in named), groups, strict=True)), reviews, used
    )
    return Tally(
        claims=claims,
        unsupported=tuple(unsupported),
        reviewers=tuple(review.reviewer for review in reviews),
        weights=used,
    )


def cluster(findings: Iterable[Finding]) -> list[tuple[Finding, ...]]:
    """Group findings that say the same thing: complete linkage, so every two members of a group agree.

    Pairs are joined from the most alike downwards; ties are broken by the findings' own order, so the
    result does not depend on who answered first. Groups come worst severity first, then by place.
    """
    ordered = sorted(findings, key=_place)
    group_of = list(range(len(ordered)))
    members: dict[int, list[int]] = {index: [index] for index in range(len(ordered))}
    alike: dict[tuple[int, int], float] = {}
    for left in range(len(ordered)):
        for right in range(left + 1, len(ordered)):
            if same_claim(ordered[left], ordered[right]):
                alike[left, right] = similarity(ordered[left].claim, ordered[right].claim)
    for left, right in sorted(alike, key=lambda pair: (-alike[pair], pair)):
        one, other = group_of[left], group_of[right]
        if one == other:
            continue
        pairs = ((min(a, b), max(a, b)) for a in members[one] for b in members[other])
        if all(pair in alike for pair in pairs):
            for index in members[other]:
                group_of[index] = one
            members[one] += members.pop(other)
    groups = [tuple(ordered[index] for index in sorted(indices)) for indices in members.values()]
    return sorted(groups, key=lambda group: (-joint_severity(group), _place(group[0])))


def joint_severity(findings: Sequence[Finding]) -> Severity:
    """The worst severity that more than half of the flaggers reach; a flagger counts with its worst remark.

    One head alone can thus not inflate a shared claim, nor one of three talk it down; where the flaggers are
    evenly split, the milder word counts, because only that far do more than half of them go.
    """
    worst: dict[str, Severity] = {}
    for finding in findings:
        worst[finding.reviewer] = max(worst.get(finding.reviewer, Severity.LOW), finding.severity)
    return max(
        severity
        for severity in Severity
        if sum(value >= severity for value in worst.values()) * 2 > len(worst)
    )


def _place(finding: Finding) -> tuple[str, int, int, str, str]:
    span = finding.span
    return (span.path, span.start, span.end, finding.claim, finding.finding_id)


def _claim(
    claim_id: str,
    findings: Sequence[Finding],
    reviews: Sequence[Review],
    weights: Mapping[str, float],
    *,
    text: str = "",
    named: tuple[str, ...] | None = None,
) -> Claim:
    family_of = {review.reviewer: review.family for review in reviews}
    supporters = sorted({finding.reviewer for finding in findings})
    flagged = [name for name in supporters if name in (named or ())] or supporters
    spans = [finding.span for finding in findings]
    longest = max(findings, key=lambda finding: (len(finding.claim), finding.finding_id))
    return Claim(
        claim_id=claim_id,
        text=text.strip() or longest.claim,
        category=min(finding.category for finding in findings),
        severity=joint_severity(findings),
        span=Span(
            path=spans[0].path, start=min(span.start for span in spans), end=max(span.end for span in spans)
        ),
        finding_ids=tuple(sorted(finding.finding_id for finding in findings)),
        flagged_by=tuple(flagged),
        families=tuple(sorted({family_of[name] for name in flagged})),
        agreement=agreement(flagged, len(reviews)),
        weighted_agreement=weighted_agreement(flagged, effective_weights(reviews, weights)),
    )


def _apply(
    proposals: Sequence[Proposal],
    groups: Mapping[str, tuple[Finding, ...]],
    reviews: Sequence[Review],
    weights: Mapping[str, float],
) -> tuple[Claim, ...]:
    """Claims after the proposals that hold: each of code's claims is used once, first proposal first."""
    free = dict(groups)
    claims: list[Claim] = []
    for proposal in proposals:
        ids = [claim_id for claim_id in dict.fromkeys(proposal.claim_ids) if claim_id in free]
        joined: list[Finding] = []
        first = ""
        for claim_id in ids:
            if not joined or _mergeable(joined, free[claim_id]):
                first = first or claim_id
                joined += free.pop(claim_id)
        if joined:
            claims.append(
                _claim(first, joined, reviews, weights, text=proposal.text, named=proposal.flagged_by)
            )
    claims += [_claim(claim_id, group, reviews, weights) for claim_id, group in free.items()]
    return tuple(sorted(claims, key=lambda claim: int(claim.claim_id[1:])))


def _mergeable(left: Sequence[Finding], right: Sequence[Finding]) -> bool:
    return all(a.span.overlaps(b.span, slack=MERGE_SLACK_LINES) for a in left for b in right)
