"""Where a run leaves the reference, what was expected there, and where it comes back (AGENTLENS §9)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Literal

from workers.agentlens.reference import ROOT, Reference
from workers.agentlens.settings import ScoringSettings
from workers.agentlens.trace import Trace

Kind = Literal["new_target", "new_action", "order_jump", "repeat", "early_stop"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """A step that the reference offers at a place, with the number of donors that took it."""

    node: int
    action: str
    support: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A stretch off the reference: first and last state index, and the state where the run matches again,
    None if it never does."""

    start: int
    end: int
    rejoined_at: int | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The first departure. step: state index. last_node: the tree node reached before, None for the root.
    actual: what the run did there. path: the tree nodes that the run went through. segments: every stretch
    off the reference, the first included."""

    step: int
    last_node: int | None
    expected: tuple[Expected, ...]
    actual: str
    kind: Kind
    rejoined_at: int | None
    segments: tuple[Segment, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Walk:
    """A run's way through the tree. path: (state index, node) for each matched step, in order."""

    path: tuple[tuple[int, int], ...]
    divergence: Divergence | None


Matches = Sequence[Mapping[int, float]]
"""For each acting state, its confidence to each tree node that it matches."""


def walk(trace: Trace, reference: Reference, matches: Matches, settings: ScoringSettings) -> Walk:
    """Follow a run through the tree.

    A state advances to a matching child, else to a matching descendant at most `lookahead` levels further,
    else it is extra. The run diverges at the first state that, like the `divergence_patience − 1` after it,
    matches no descendant of the node reached; it rejoins at the first later state that matches any node."""
    here = ROOT
    path: list[tuple[int, int]] = []
    departures: list[tuple[int, int, int | None]] = []  # position, node reached, position of the return
    position, count = 0, len(trace.acting)
    while position < count:
        ahead = reference.first_below(here, matches, start=position)
        if ahead is None or ahead - position >= settings.divergence_patience:
            back = next((p for p in range(position + 1, count) if matches[p]), None)
            departures.append((position, here, back))
            if back is None:
                break
            here = _surest(matches[back])
            path.append((trace.acting[back], here))
            position = back + 1
            continue
        node = reference.closest_below(here, matches[ahead], reach=1 + settings.lookahead)
        if node is not None:
            path.append((trace.acting[ahead], node))
            here = node
        position = ahead + 1
    return Walk(path=tuple(path), divergence=_divergence(trace, reference, matches, departures, here))


def _surest(match: Mapping[int, float]) -> int:
    return max(match, key=lambda node: (match[node], -node))


def _divergence(
    trace: Trace,
    reference: Reference,
    matches: Matches,
    departures: Sequence[tuple[int, int, int | None]],
    here: int,
) -> Divergence | None:
    if not departures:
        if here != ROOT and reference.is_end(here):
            return None
        return Divergence(
            step=trace.acting[-1] if trace.acting else 0,
            last_node=None if here == ROOT else here,
            expected=_expected(reference, here),
            actual="the run ends",
            kind="early_stop",
            rejoined_at=None,
            segments=(),
        )
    position, node, _ = departures[0]
    segments = tuple(
        Segment(
            start=trace.acting[start],
            end=trace.acting[-1 if back is None else back - 1],
            rejoined_at=None if back is None else trace.acting[back],
        )
        for start, _, back in departures
    )
    return Divergence(
        step=trace.acting[position],
        last_node=None if node == ROOT else node,
        expected=_expected(reference, node),
        actual=trace.signatures[position].action,
        kind=_kind(trace, reference, matches, position),
        rejoined_at=segments[0].rejoined_at,
        segments=segments,
    )


def _expected(reference: Reference, node: int) -> tuple[Expected, ...]:
    offered = [reference.node(child) for child in reference.next_nodes(node)]
    return tuple(
        Expected(node=child.index, action=child.action, support=child.support)
        for child in sorted(offered, key=lambda child: (-child.support, child.index))
    )


def _kind(trace: Trace, reference: Reference, matches: Matches, position: int) -> Kind:
    if matches[position]:
        return "order_jump"
    here = trace.signatures[position]
    if any(earlier.exact == here.exact for earlier in trace.signatures[:position]):
        return "repeat"
    is_known = any(here.path == other.path for donor in reference.donors for other in donor.trace.signatures)
    return "new_action" if is_known else "new_target"
