"""Regression loop: editing the same place again and again while the check keeps failing, or undoing it."""

from __future__ import annotations

import dataclasses
from typing import Final

from workers.agentlens.equivalence import Signature
from workers.agentlens.trace import Trace
from workers.agentlens.trajectory import Intent, Operation, State
from workers.agentlens.waste.finding import Finding

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
        if state.intent is Intent.V and signature.kind in _EXECUTED:
            if state.outcome == "error":
                for waiting in open_loops.values():
                    waiting.failures.append(position)
        elif state.intent is Intent.I and state.outcome != "error" and signature.path is not None:
            loop = open_loops.get(signature.path)
            if loop is not None and _continues(trace, loop, position):
                loop.edits.append(position)
            else:
                findings += _close(trace, loop, signature.path)
                open_loops[signature.path] = _Loop(edits=[position], failures=[])
    for path, unfinished in open_loops.items():
        findings += _close(trace, unfinished, path)
    findings += _taken_back(trace)
    return sorted(findings, key=lambda finding: finding.steps)


def _continues(trace: Trace, loop: _Loop, position: int) -> bool:
    last = loop.edits[-1]
    failed_since = any(failure > last for failure in loop.failures)
    return failed_since and _same_region(trace, last, position)


def _same_region(trace: Trace, earlier: int, later: int) -> bool:
    a, b = trace.signatures[earlier], trace.signatures[later]
    if a.scope is not None and a.scope == b.scope:
        return True
    if a.start and b.start:
        return _overlap(a, b) >= _OVERLAP
    return _text_overlap(trace.states[trace.acting[earlier]], trace.states[trace.acting[later]]) >= _OVERLAP


def _overlap(a: Signature, b: Signature) -> float:
    shared = min(a.end, b.end) - max(a.start, b.start) + 1
    return shared / (a.end - a.start + b.end - b.start + 2 - shared) if shared > 0 else 0.0


def _text_overlap(earlier: State, later: State) -> float:
    """Share of the lines that the later edit takes as old text which the earlier one wrote."""
    written = {line.strip() for edit in earlier.edits for line in edit.new.splitlines()} - {""}
    replaced = {line.strip() for edit in later.edits for line in edit.old.splitlines()} - {""}
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
        if state.intent is Intent.V and signature.kind in _EXECUTED and state.outcome == "error":
            failures.append(index)
        if state.intent is not Intent.I or state.outcome == "error" or signature.path is None:
            continue
        restored = _restored(state, signature.path, written, last_edit)
        if restored is not None:
            between = [failure for failure in failures if restored < failure < index]
            findings.append(_undo_finding(signature.path, (restored, *between, index)))
        for edit in state.edits:
            written[signature.path, edit.old, edit.new] = index
        if state.operation is not Operation.UNDO:
            last_edit[signature.path] = index
    return findings


def _restored(
    state: State, path: str, written: dict[tuple[str, str, str], int], last_edit: dict[str, int]
) -> int | None:
    if state.operation is Operation.UNDO:
        return last_edit.pop(path, None)
    for edit in state.edits:
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
