"""Regression loop: editing the same place again and again while the check keeps failing, or undoing it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Final

from workers.agentlens.edit_region import edited_files
from workers.agentlens.equivalence import Signature
from workers.agentlens.trace import Trace
from workers.agentlens.trajectory import Edit, Intent, Operation, State
from workers.agentlens.waste.finding import Finding

# Bound once: looking a member up in its enum costs three times as much as a global.
_V, _I = Intent.V, Intent.I
_UNDO = Operation.UNDO

CATEGORY: Final = "regression_loop"
LEAST_ROUNDS: Final = 2
_OVERLAP: Final = 0.30
_EXECUTED: Final = frozenset({"check", "run"})


@dataclasses.dataclass(slots=True)
class _Loop:
    """Rounds of edit → failing check → edit on one region: positions in the run of what took part."""

    edits: list[int]
    failures: list[int]


def find(trace: Trace) -> list[Finding]:
    """Two kinds. At least 2 consecutive rounds (edit of a region, executed check that fails, edit of an
    overlapping region): wasted from the second edit to the last failing check. An edit that takes back an
    earlier one: wasted are the two edits and the failed checks between them."""
    findings: list[Finding] = []
    open_loops: dict[str, _Loop] = {}
    for position, index in enumerate(trace.acting):
        state, signature = trace.states[index], trace.signatures[position]
        if state.intent is _V and signature.kind in _EXECUTED:
            if state.outcome == "error":
                for waiting in open_loops.values():
                    waiting.failures.append(position)
        elif state.intent is _I and state.outcome != "error":
            for path in edited_files(state):
                loop = open_loops.get(path)
                if loop is not None and _continues(trace, loop, position, path):
                    loop.edits.append(position)
                else:
                    findings += _close(trace, loop, path)
                    open_loops[path] = _Loop(edits=[position], failures=[])
    for path, unfinished in open_loops.items():
        findings += _close(trace, unfinished, path)
    findings += _taken_back(trace)
    return sorted(findings, key=lambda finding: finding.steps)


def _continues(trace: Trace, loop: _Loop, position: int, path: str) -> bool:
    last = loop.edits[-1]
    failed_since = any(failure > last for failure in loop.failures)
    return failed_since and _same_region(trace, last, position, path)


def _same_region(trace: Trace, earlier: int, later: int, path: str) -> bool:
    a, b = trace.signatures[earlier], trace.signatures[later]
    if a.path == b.path == path:  # scope and lines are those of a state's own file
        if a.scope is not None and a.scope == b.scope:
            return True
        if a.start and b.start:
            return _overlap(a, b) >= _OVERLAP
    before, after = trace.states[trace.acting[earlier]], trace.states[trace.acting[later]]
    return _text_overlap(_edits_in(path, before, a), _edits_in(path, after, b)) >= _OVERLAP


def _edits_in(path: str, state: State, signature: Signature) -> list[Edit]:
    return [edit for edit in state.edits if (edit.path or signature.path) == path]


def _overlap(a: Signature, b: Signature) -> float:
    shared = min(a.end, b.end) - max(a.start, b.start) + 1
    return shared / (a.end - a.start + b.end - b.start + 2 - shared) if shared > 0 else 0.0


def _text_overlap(earlier: Iterable[Edit], later: Iterable[Edit]) -> float:
    """Share of the lines that the later edit takes as old text which the earlier one wrote."""
    written = {line.strip() for edit in earlier for line in edit.new.splitlines()} - {""}
    replaced = {line.strip() for edit in later for line in edit.old.splitlines()} - {""}
    return len(written & replaced) / len(written | replaced) if written and replaced else 0.0


def _close(trace: Trace, loop: _Loop | None, path: str) -> list[Finding]:
    if loop is None or len(loop.edits) <= LEAST_ROUNDS:
        return []
    last_failure = loop.failures[-1]
    steps = trace.acting[loop.edits[1] : last_failure + 1]
    rounds = len(loop.edits) - 1
    return [
        Finding(
            category=CATEGORY,
            steps=steps,
            pattern=path,
            repeats=rounds,
            evidence=f"{path} was edited in the same place {len(loop.edits)} times, the check still failing",
            hint="find out why the check fails before the next edit",
        )
    ]


def _taken_back(trace: Trace) -> list[Finding]:
    findings: list[Finding] = []
    written: dict[tuple[str, str, str], int] = {}
    last_edit: dict[str, int] = {}
    failures: list[int] = []
    for position, index in enumerate(trace.acting):
        state, signature = trace.states[index], trace.signatures[position]
        if state.intent is _V and signature.kind in _EXECUTED and state.outcome == "error":
            failures.append(index)
        if state.intent is not _I or state.outcome == "error":
            continue
        for path in edited_files(state):
            edits = _edits_in(path, state, signature)
            if state.operation is _UNDO:
                restored = last_edit.pop(path, None)
            else:
                restored = _restored(path, edits, written)
                last_edit[path] = index
            if restored is not None:
                between = [failure for failure in failures if restored < failure < index]
                findings.append(_undo_finding(path, (restored, *between, index)))
            for edit in edits:
                written[path, edit.old, edit.new] = index
    return findings


def _restored(path: str, edits: Iterable[Edit], written: dict[tuple[str, str, str], int]) -> int | None:
    for edit in edits:
        if edit.old and edit.old != edit.new and (path, edit.new, edit.old) in written:
            return written.pop((path, edit.new, edit.old))
    return None


def _undo_finding(path: str, steps: tuple[int, ...]) -> Finding:
    return Finding(
        category=CATEGORY,
        steps=steps,
        pattern=f"undo {path}",
        repeats=1,
        evidence=f"an edit of {path} at step {steps[0]} was taken back at step {steps[-1]}",
        hint="try the idea in a scratch file first",
    )
