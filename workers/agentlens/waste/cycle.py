"""Cyclic pattern: a short sequence of different actions, repeated back to back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from workers.agentlens.trace import Trace
from workers.agentlens.waste.finding import Finding

CATEGORY: Final = "cyclic_pattern"
PERIODS: Final = (2, 3, 4, 5)


def find(trace: Trace) -> list[Finding]:
    """Sequences of 2 to 5 actions repeated contiguously at least twice: shortest period first, as far as it
    goes. Wasted are the repetitions after the first; one action repeated is no cycle but a retry."""
    names: dict[str, int] = {}
    codes = [names.setdefault(signature.action, len(names)) for signature in trace.signatures]
    actions = tuple(names)
    taken = [False] * len(codes)
    findings: list[Finding] = []
    for period in PERIODS:
        for start, rounds in _repetitions(codes, period):
            end = start + rounds * period
            unit = codes[start : start + period]
            if len(set(unit)) == 1 or any(taken[start:end]):
                continue
            taken[start:end] = [True] * (end - start)
            findings.append(_finding(trace.acting[start + period : end], [actions[c] for c in unit], rounds))
    return findings


def _repetitions(codes: Sequence[int], period: int) -> list[tuple[int, int]]:
    """(start, rounds) of every maximal stretch in which each code equals the one a period earlier."""
    found: list[tuple[int, int]] = []
    run = 0
    for position in range(period, len(codes) + 1):
        if position < len(codes) and codes[position] == codes[position - period]:
            run += 1
            continue
        if run >= period:
            found.append((position - run - period, run // period + 1))
        run = 0
    return found


def _finding(steps: tuple[int, ...], unit: list[str], rounds: int) -> Finding:
    pivot = unit.index(min(unit))
    turned = unit[pivot:] + unit[:pivot]
    return Finding(
        category=CATEGORY,
        steps=steps,
        pattern=" > ".join(turned),
        repeats=rounds - 1,
        evidence=f"{len(unit)} actions were gone through {rounds} times in a row",
        hint="change the plan after the first round",
    )
