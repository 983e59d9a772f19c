"""Names in an order in which each comes after those it needs."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping


class CycleError(ValueError):
    """Some names need each other; `cycle` lists one such ring, each name needing the next."""

    def __init__(self, cycle: list[str]) -> None:
        super().__init__("cycle: " + " -> ".join([*cycle, cycle[0]]))
        self.cycle = cycle


def order(dependencies: Mapping[str, Iterable[str]]) -> list[str]:
    """All names, each after its needs, the alphabetically smallest first among those that could come next."""
    unmet: dict[str, set[str]] = {}
    needed_by: dict[str, list[str]] = {}
    for name, needs in dependencies.items():
        unmet.setdefault(name, set()).update(needs)
        for need in unmet[name]:
            unmet.setdefault(need, set())
            needed_by.setdefault(need, []).append(name)
    ready = [name for name, needs in unmet.items() if not needs]
    heapq.heapify(ready)
    result: list[str] = []
    while ready:
        name = heapq.heappop(ready)
        result.append(name)
        del unmet[name]
        for dependent in needed_by.get(name, ()):
            unmet[dependent].discard(name)
            if not unmet[dependent]:
                heapq.heappush(ready, dependent)
    if unmet:
        raise CycleError(_cycle(unmet))
    return result


def _cycle(unmet: Mapping[str, set[str]]) -> list[str]:
    """One ring among names that all wait for another, from its alphabetically smallest name on."""
    walked: list[str] = []
    name = min(unmet)
    while name not in walked:
        walked.append(name)
        name = min(unmet[name])
    cycle = walked[walked.index(name) :]
    first = cycle.index(min(cycle))
    return cycle[first:] + cycle[:first]
