"""Five detectors of wasted steps, one a file. A new one is one file and one line in `DETECTORS`.

A detector looks at one run alone and returns located findings; `charge` then drops what the reference shows
too and adds the rest up (AGENTLENS §7)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import Final

from workers.agentlens.trace import Trace
from workers.agentlens.waste import blind_retry, cycle, exploration, redundant, regression
from workers.agentlens.waste.finding import Finding, is_shown_by

DETECTORS: Final[tuple[Callable[[Trace], list[Finding]], ...]] = (
    regression.find,
    blind_retry.find,
    redundant.find,
    exploration.find,
    cycle.find,
)
CATEGORIES: Final = (
    regression.CATEGORY,
    blind_retry.CATEGORY,
    redundant.CATEGORY,
    exploration.CATEGORY,
    cycle.CATEGORY,
)
_MINUS_MATCHED: Final = {regression.CATEGORY: 1, exploration.CATEGORY: exploration.LEAST_STEPS}
"""Categories whose steps the reference excuses one by one, and how many must remain to be a finding."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Waste:
    """What a run wasted. steps: union of the findings' indices, ascending. severity: their share of all
    states, 0 to 1. tokens: input and output tokens of those steps, None where the log has none."""

    findings: tuple[Finding, ...]
    steps: tuple[int, ...]
    severity: float
    tokens: int | None


def scan(trace: Trace) -> tuple[Finding, ...]:
    """Every pattern in one run, before any reference is asked."""
    return tuple(finding for find in DETECTORS for finding in find(trace))


def blind_retries(findings: Iterable[Finding]) -> int:
    """How many states are blind retries: r of Φcoh."""
    return sum(len(f.steps) for f in findings if f.category == blind_retry.CATEGORY)


def charge(
    trace: Trace,
    findings: Iterable[Finding],
    *,
    donors: Iterable[Iterable[Finding]] = (),
    matched: frozenset[int] = frozenset(),
) -> Waste:
    """The waste that counts. `donors` are the findings of each donor of draw 0, `matched` the indices of the
    candidate's states that some node of that reference matches."""
    shown = tuple(donors)
    counted = []
    for finding in findings:
        if is_shown_by(finding, shown):
            continue
        least = _MINUS_MATCHED.get(finding.category)
        if least is not None:
            steps = tuple(step for step in finding.steps if step not in matched)
            if len(steps) < least:
                continue
            counted.append(dataclasses.replace(finding, steps=steps))
        else:
            counted.append(finding)
    union = sorted({step for finding in counted for step in finding.steps})
    known = [
        (state.tokens_in or 0) + (state.tokens_out or 0)
        for step in union
        if (state := trace.states[step]).tokens_in is not None or state.tokens_out is not None
    ]
    return Waste(
        findings=tuple(counted),
        steps=tuple(union),
        severity=len(union) / len(trace.states) if trace.states else 0.0,
        tokens=sum(known) if known else None,
    )
