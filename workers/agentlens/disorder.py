"""Temporal disorder: steps that come at the wrong time. Located for the reader, not scored by itself."""

from __future__ import annotations

import dataclasses
from typing import Literal

from workers.agentlens.trace import Trace
from workers.agentlens.trajectory import Intent

# Bound once: looking a member up in its enum costs three times as much as a global.
_E, _I, _V = Intent.E, Intent.I, Intent.V

Kind = Literal["verification_before_implementation", "exploration_after_verified_patch"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Disorder:
    """One kind of disorder with the states that show it, ascending and never empty."""

    kind: Kind
    steps: tuple[int, ...]


def find(trace: Trace) -> tuple[Disorder, ...]:
    """Verification before any implementation, and exploration of files that the run never edits after an
    executed check had passed with no edit since."""
    early: list[int] = []
    late: list[int] = []
    has_edit = verified = False
    for position, index in enumerate(trace.acting):
        intent, signature = trace.intents[index], trace.signatures[position]
        if intent is _I:
            has_edit, verified = True, False
        elif intent is _V and not has_edit:
            early.append(index)
        elif intent is _V and signature.kind in ("check", "run"):
            verified = trace.states[index].outcome == "ok"
        elif intent is _E and verified and signature.path not in trace.edited_files:
            late.append(index)
    found: list[Disorder] = []
    if early:
        found.append(Disorder(kind="verification_before_implementation", steps=tuple(early)))
    if late:
        found.append(Disorder(kind="exploration_after_verified_patch", steps=tuple(late)))
    return tuple(found)
