"""Remarks of real reviewers as panels of ours, and how their claims are counted against known issues."""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from workers.core.finding import NOWHERE, Finding, Review, Severity
from workers.core.weights import Record

Panel = tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A pull request: its known issues, and each reviewer's remarks with the issues they match."""

    name: str
    project: str
    issues: tuple[str, ...]
    reviews: dict[str, Review]
    matches: dict[str, frozenset[str]]


def read_changes(path: Path) -> list[Change]:
    """The pull requests of a file in JSON lines, as `docs/panel-benchmark.md` describes them.

    Raises SystemExit with a sentence for a file that is none of these.
    """
    changes = []
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise SystemExit(
            f"{path}: cannot be read ({error.strerror}); name a file of replayed remarks"
        ) from None
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            try:
                changes.append(_change(json.loads(line)))
            except (ValueError, KeyError, TypeError) as error:
                raise SystemExit(
                    f"{path}:{number}: not a pull request with pr, project, golden, reviewers and comments ({error!r})"
                ) from None
    if not changes:
        raise SystemExit(f"{path}: holds no pull request")
    return changes


def _change(item: dict[str, object]) -> Change:
    data = json.loads(json.dumps(item))
    findings: dict[str, list[Finding]] = {name: [] for name in data["reviewers"]}
    matches = {}
    for comment in data["comments"]:
        name = comment["reviewer"]
        own = findings.setdefault(name, [])
        finding = Finding(
            finding_id=f"{name}/1/{len(own) + 1}",
            reviewer=name,
            pass_number=1,
            claim=str(comment["text"]),
            category="correctness",
            severity=Severity.MEDIUM,
            span=NOWHERE,
        )
        own.append(finding)
        matches[finding.finding_id] = frozenset(comment["matches"])
    return Change(
        name=data["pr"],
        project=data["project"],
        issues=tuple(issue["id"] for issue in data["golden"]),
        reviews={
            name: Review(reviewer=name, model=name, family=name, findings=tuple(own))
            for name, own in findings.items()
        },
        matches=matches,
    )


def reviewers_of(changes: Sequence[Change]) -> list[str]:
    return sorted({name for change in changes for name in change.reviews})


def panels_of(
    reviewers: Sequence[str], size: int, *, at_most: int | None = None, seed: int = 0
) -> list[Panel]:
    """All panels of that size, or a fixed sample of `at_most`."""
    panels = list(itertools.combinations(reviewers, size))
    if at_most is None or len(panels) <= at_most:
        return panels
    chosen = np.random.default_rng(seed).choice(len(panels), at_most, replace=False)
    return [panels[index] for index in sorted(chosen)]


def records_of(changes: Sequence[Change]) -> dict[str, Record]:
    """Each reviewer's record: a remark that matches a known issue is upheld, another refuted."""
    right, wrong = Counter[str](), Counter[str]()
    for change in changes:
        for finding_id, issues in change.matches.items():
            (right if issues else wrong)[finding_id.partition("/")[0]] += 1
    return {name: Record(upheld=right[name], refuted=wrong[name]) for name in sorted({*right, *wrong})}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """One claim: `found` is the one issue it is right about, strictly; `touched` all that any member matches."""

    found: str | None
    touched: frozenset[str]


def judge(change: Change, finding_ids: Sequence[str]) -> Judged:
    """Strictly, a claim is right if more than half of its reviewers match the same issue, and finds only that
    one (the one most of them match; ties by name). Leniently, any member's matches count."""
    by_head: dict[str, set[str]] = {}
    for finding_id in finding_ids:
        by_head.setdefault(finding_id.partition("/")[0], set()).update(change.matches[finding_id])
    votes = Counter(issue for issues in by_head.values() for issue in issues)
    best = min(votes, key=lambda issue: (-votes[issue], issue), default=None)
    is_right = best is not None and 2 * votes[best] > len(by_head)
    return Judged(found=best if is_right else None, touched=frozenset(votes))


#: Counts of one pull request: claims promoted, strictly right, issues found, leniently right, issues touched.
COUNTS = 5


def counts(change: Change, promoted: Sequence[Sequence[str]]) -> np.ndarray:
    judged = [judge(change, ids) for ids in promoted]
    return np.array(
        [
            len(judged),
            sum(item.found is not None for item in judged),
            len({item.found for item in judged} - {None}),
            sum(bool(item.touched) for item in judged),
            len(frozenset[str]().union(*(item.touched for item in judged))),
        ],
        dtype=float,
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Precision, recall and F1 along the last axis removed; `once` also counts a repeated issue as a false alarm."""

    precision: np.ndarray
    recall: np.ndarray
    strict: np.ndarray
    lenient: np.ndarray
    once: np.ndarray


def figures(table: np.ndarray, issues: float | np.ndarray) -> Figures:
    """From summed counts (… × `COUNTS`) and the number of known issues."""
    promoted, right, found, touching, touched = np.moveaxis(table, -1, 0)
    known = np.maximum(issues, 1)

    def f1(hits: np.ndarray, reached: np.ndarray) -> np.ndarray:
        precision, recall = hits / np.maximum(promoted, 1), reached / known
        return 2 * precision * recall / np.maximum(precision + recall, 1e-12)

    return Figures(
        precision=right / np.maximum(promoted, 1),
        recall=found / known,
        strict=f1(right, found),
        lenient=f1(touching, touched),
        once=f1(found, found),
    )


def replay(
    changes: Sequence[Change],
    panels: Sequence[Panel],
    promote: Callable[[Change, Panel], Sequence[Sequence[Sequence[str]]]],
) -> np.ndarray:
    """Counts, ways × panels × pull requests × `COUNTS`; `promote` gives the finding ids of each claim that each
    way of counting promotes."""
    table = [
        [[counts(change, promoted) for promoted in promote(change, panel)] for change in changes]
        for panel in panels
    ]
    return np.moveaxis(np.array(table, dtype=float), 2, 0)
