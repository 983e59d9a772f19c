"""Unnecessary exploration: reading on about other files when the patch is already verified."""

from __future__ import annotations

from typing import Final

from workers.agentlens.trace import Trace
from workers.agentlens.trajectory import Intent
from workers.agentlens.waste.finding import Finding

# Bound once: looking a member up in its enum costs three times as much as a global.
_E, _I, _V = Intent.E, Intent.I, Intent.V

CATEGORY: Final = "unnecessary_exploration"
LEAST_STEPS: Final = 2
_EXECUTED: Final = frozenset({"check", "run"})


def find(trace: Trace) -> list[Finding]:
    """A run of at least 2 E states after an executed check that passed with no edit since, all on files that
    the run edits neither before nor after. What the reference looks at too is taken out by `charge`."""
    edited = trace.edited_files
    findings: list[Finding] = []
    verified = False
    current: list[int] = []
    paths: list[str] = []

    def close() -> None:
        if len(current) >= LEAST_STEPS:
            findings.append(_finding(tuple(current), paths))
        current.clear()
        paths.clear()

    has_edit = False
    for position, index in enumerate(trace.acting):
        state, signature = trace.states[index], trace.signatures[position]
        if state.intent is _E and verified and signature.path not in edited:
            current.append(index)
            paths.append(signature.path or signature.action)
            continue
        if current:
            close()
        if state.intent is _I:
            has_edit, verified = True, False
        elif state.intent is _V and signature.kind in _EXECUTED and has_edit:
            verified = state.outcome == "ok"
    close()
    return findings


def _finding(steps: tuple[int, ...], paths: list[str]) -> Finding:
    files = sorted(set(paths))
    return Finding(
        category=CATEGORY,
        steps=steps,
        pattern=" ".join(files),
        repeats=len(steps),
        evidence=f"{len(steps)} steps explored {', '.join(files[:3])} after the patch had been verified",
        hint="stop when the verified patch answers the problem",
    )
