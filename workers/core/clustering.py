"""Findings become groups that say the same thing: by text and place, or by text alone where there is no place.

Nothing here depends on who answered first: findings are put into an order of their own, and ties are broken
by it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from workers.core.finding import NOWHERE, Finding, Severity
from workers.core.similarity import REMARK_RULE, RemarkRule, same_claim, similarity

Pair = tuple[int, int]


def cluster(findings: Iterable[Finding], *, rule: RemarkRule = REMARK_RULE) -> list[tuple[Finding, ...]]:
    """Group findings that say the same thing. Groups come worst severity first, then by place.

    Findings with a place are linked completely, so every two members of a group agree. Remarks without one
    have only their words to go by; those are linked on average.
    """
    ordered = in_order(findings)
    placed = [finding for finding in ordered if finding.span != NOWHERE]
    remarks = [finding for finding in ordered if finding.span == NOWHERE]
    groups = _cluster_placed(placed) + _cluster_remarks(remarks, rule)
    return sorted(groups, key=lambda group: (-joint_severity(group), _place(group[0])))


def in_order(findings: Iterable[Finding]) -> list[Finding]:
    """Findings in an order that does not depend on who answered first."""
    return sorted(findings, key=_place)


def link_completely(count: int, alike: Mapping[Pair, float]) -> list[list[int]]:
    """Groups of 0 … count-1 in which every two members are a key of `alike`; the most alike are joined first."""
    group_of = list(range(count))
    members = {index: [index] for index in range(count)}
    for left, right in sorted(alike, key=lambda pair: (-alike[pair], pair)):
        one, other = group_of[left], group_of[right]
        if one == other:
            continue
        pairs = ((min(a, b), max(a, b)) for a in members[one] for b in members[other])
        if all(pair in alike for pair in pairs):
            for index in members[other]:
                group_of[index] = one
            members[one] += members.pop(other)
    return [sorted(indices) for indices in members.values()]


def link_on_average(count: int, alike: Mapping[Pair, float], least: float) -> list[list[int]]:
    """Groups of 0 … count-1 joined while the mean likeness of two groups' members is at least `least`.

    Average linkage (UPGMA); a pair that `alike` does not hold has likeness 0.
    """
    members = {index: [index] for index in range(count)}
    sums = {pair: value for pair, value in alike.items() if value > 0}
    while sums:
        mean, one, other = max(
            (total / (len(members[one]) * len(members[other])), -one, -other)
            for (one, other), total in sums.items()
        )
        if mean < least:
            break
        one, other = -one, -other
        for index in members:
            moved = sums.pop((min(index, other), max(index, other)), 0.0)
            if index not in (one, other) and moved:
                pair = (min(index, one), max(index, one))
                sums[pair] = sums.get(pair, 0.0) + moved
        members[one] += members.pop(other)
    return [sorted(indices) for indices in members.values()]


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


def _cluster_placed(placed: Sequence[Finding]) -> list[tuple[Finding, ...]]:
    alike = {
        (left, right): similarity(placed[left].claim, placed[right].claim)
        for right in range(len(placed))
        for left in range(right)
        if same_claim(placed[left], placed[right])
    }
    return [tuple(placed[index] for index in group) for group in link_completely(len(placed), alike)]


def _cluster_remarks(remarks: Sequence[Finding], rule: RemarkRule) -> list[tuple[Finding, ...]]:
    alike = rule.likenesses(tuple(remark.claim for remark in remarks))
    groups = link_on_average(len(remarks), alike, rule.least)
    return [tuple(remarks[index] for index in group) for group in groups]


def _place(finding: Finding) -> tuple[str, int, int, str, str]:
    span = finding.span
    return (span.path, span.start, span.end, finding.claim, finding.finding_id)
