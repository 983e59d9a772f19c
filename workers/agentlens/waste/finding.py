"""One located piece of waste, and when the reference excuses it (AGENTLENS §7)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """A pattern of waste in one run.

    category: which detector. steps: indices of the wasted states, ascending, never empty. pattern: what is
    repeated, without indices or wording, so that two runs can show the same one. repeats: how many times
    beyond the first. evidence: one sentence. hint: what would have been better.
    """

    category: str
    steps: tuple[int, ...]
    pattern: str
    repeats: int
    evidence: str
    hint: str


def is_shown_by(finding: Finding, donors: Iterable[Iterable[Finding]]) -> bool:
    """Whether one donor has the same pattern at least as many times."""
    return any(
        other.category == finding.category
        and other.pattern == finding.pattern
        and other.repeats >= finding.repeats
        for findings in donors
        for other in findings
    )
