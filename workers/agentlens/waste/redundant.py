"""Redundant step: looking again at what was seen and has not changed since."""

from __future__ import annotations

from typing import Final

from workers.agentlens.edit_region import edited_files
from workers.agentlens.equivalence import Signature
from workers.agentlens.trace import Trace
from workers.agentlens.waste.finding import Finding

CATEGORY: Final = "redundant_step"
_LOOKS: Final = frozenset({"view", "list", "search"})
_SAME_RANGE: Final = 0.8


def find(trace: Trace) -> list[Finding]:
    """A read, search or listing of the same target that already succeeded, with equal content digest or line
    ranges overlapping by a Jaccard index of at least 0.8, and no write to that file since (for searches and
    listings: no write at all)."""
    seen: dict[str, list[Signature]] = {}
    repeats: dict[str, list[int]] = {}
    for position, index in enumerate(trace.acting):
        signature = trace.signatures[position]
        if signature.kind in _LOOKS:
            earlier = seen.setdefault(signature.action, [])
            if any(_same_look(signature, other) for other in earlier):
                repeats.setdefault(signature.action, []).append(index)
            if trace.states[index].outcome != "error":
                earlier.append(signature)
        elif signature.kind in ("edit", "undo") and seen:
            written = {f"view|{file}" for file in edited_files(trace.states[index])}
            seen = {a: looks for a, looks in seen.items() if a.startswith("view|") and a not in written}
    return [
        Finding(
            category=CATEGORY,
            steps=tuple(steps),
            pattern=action,
            repeats=len(steps),
            evidence=f"{action.replace('|', ' ', 1)} was looked at {len(steps)} more time(s), unchanged",
            hint="use what the first look showed",
        )
        for action, steps in repeats.items()
    ]


def _same_look(a: Signature, b: Signature) -> bool:
    if a.exact == b.exact:
        return True
    if not (a.start and b.start) or a.path != b.path:
        return False
    shared = min(a.end, b.end) - max(a.start, b.start) + 1
    return shared > 0 and shared >= _SAME_RANGE * (a.end - a.start + b.end - b.start + 2 - shared)
