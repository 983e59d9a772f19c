"""The geometry of a run's page: the timeline as a strip of any number of steps, the tree, and the way through it."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable, Mapping
from typing import Final

from workers.inspection.opened import OpenedRun
from workers.inspection.steps import INTENTS, overview
from workers.scoring import pictures

_LETTERS_UP_TO: Final = 64
_TICKS: Final = 10
_ROUND: Final = (1, 2, 5, 10, 20, 25, 50, 100, 200, 250, 500, 1_000, 2_000, 5_000, 10_000, 50_000, 100_000)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """Something at a place, in percent of the width."""

    percent: float
    text: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Strip:
    """A timeline that fits any width. Paths are for a box `steps` wide and 1 high: of each intent that occurs, of
    wasted steps, of steps along the reference, of stretches off it. counts: steps by intent, in words."""

    steps: int
    intents: Mapping[str, str]
    wasted: str
    matched: str
    off: str
    divergence: Mark | None
    ticks: tuple[Mark, ...]
    letters: tuple[Mark, ...]
    counts: Mapping[str, int]


def strip(opened: OpenedRun) -> Strip:
    """The timeline of a run."""
    seen = overview(opened)
    total = seen.steps
    by_intent = {
        letter: [index for index, of in enumerate(seen.intents) if of == letter] for letter in INTENTS
    }
    every = next((step for step in _ROUND if total / step <= _TICKS), _ROUND[-1])
    return Strip(
        steps=total,
        intents={letter: _path(indices) for letter, indices in by_intent.items() if indices},
        wasted=_path(seen.wasted),
        matched=_path(step for step, _, _ in seen.matched),
        off=_path(sorted({step for part in seen.off for step in range(part.start, part.end + 1)})),
        divergence=None
        if seen.divergence is None
        else Mark(percent=_middle(seen.divergence, total), text=str(seen.divergence)),
        ticks=tuple(Mark(percent=_middle(index, total), text=str(index)) for index in range(0, total, every)),
        letters=tuple(
            Mark(percent=_middle(index, total), text=letter) for index, letter in enumerate(seen.intents)
        )
        if total <= _LETTERS_UP_TO
        else (),
        counts={name: len(by_intent[letter]) for letter, name in INTENTS.items()},
    )


def _middle(index: int, total: int) -> float:
    return round(100 * (index + 0.5) / total, 3)


def _path(indices: Iterable[int]) -> str:
    """Squares from index to index + 1, neighbours joined."""
    parts = []
    for _, group in itertools.groupby(enumerate(indices), key=lambda pair: pair[1] - pair[0]):
        members = [index for _, index in group]
        parts.append(f"M{members[0]} 0h{len(members)}v1h-{len(members)}z")
    return "".join(parts)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Passed:
    """A step along the reference, and the node that it goes by."""

    step: int
    node: int
    intent: str
    action: str
    support: int
    confidence: float


def way(opened: OpenedRun) -> list[Passed]:
    """How a run goes through its reference, in order; nothing without one."""
    if opened.against is None:
        return []
    tree = opened.against.tree
    found = []
    for step, held in sorted(opened.against.held.items()):
        if held.is_on_way:
            node = tree.node(held.node)
            found.append(
                Passed(
                    step=step,
                    node=held.node,
                    intent="" if node.state.intent is None else node.state.intent.value,
                    action=pictures.action(node.state),
                    support=node.support,
                    confidence=held.confidence,
                )
            )
    return found


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """The reference as the report draws it. nodes: the index of each dot, in the order of the dots."""

    tree: pictures.Tree
    nodes: tuple[int, ...]


def picture(opened: OpenedRun) -> Picture | None:
    """The tree with the run's path; None without a reference."""
    if opened.against is None or opened.document is None:
        return None
    reference = opened.against.tree
    drawn = pictures.tree(opened.document, reference)
    nodes = [node for node in range(len(reference)) if reference.depth(node) < pictures.STEPS_SHOWN]
    return Picture(tree=drawn, nodes=tuple(nodes))
