"""The geometry of the report's pictures: what the template draws as inline SVG. Lengths are in pixels."""

from __future__ import annotations

import bisect
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from workers.agentlens.equivalence import target_path
from workers.agentlens.reference import ROOT, Reference
from workers.agentlens.trajectory import State
from workers.plain import plain

STEPS_SHOWN: Final = 400
"""Longer runs are cut in the pictures, and the report says so."""
MODELS_SHOWN: Final = 40
_TEXT_SHOWN = 140


def shortened(text: str, most: int = _TEXT_SHOWN) -> str:
    """One line of harmless text."""
    line = plain(" ".join(text.split()))
    return line if len(line) <= most else line[: most - 1] + "…"


def action(state: State) -> str:
    """What a step did, in one line: of a shell line what was typed."""
    if state.command is not None:
        return shortened(state.command.text)
    place = target_path(state)
    lines = f":{state.lines.start}-{state.lines.end}" if state.lines is not None else ""
    return shortened(f"{state.operation.value} {place or ''}{lines}")


def compared_as(state: State) -> str:
    """What a shell line is compared as; "" where that is the line itself, or no line was typed."""
    if state.command is None:
        return ""
    normal = shortened(state.command.normal)
    return "" if normal == action(state) else normal


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SlopeLine:
    """One model's line from its place by pass rate (left) to its place by quality (right)."""

    model: str
    left: int
    right: int
    pass_rank: int
    quality_rank: int
    pass_rate: float
    quality: float
    shift: int


def slope(models: Sequence[Mapping[str, Any]], *, row_height: int = 30) -> list[SlopeLine]:
    """A line a model; models of one rank get places of their own, so that names never overlap."""
    by_pass = sorted(models, key=lambda m: (m["rank_by_pass_rate"], m["model"]))[:MODELS_SHOWN]
    by_quality = sorted(by_pass, key=lambda m: (m["rank_by_quality"], m["model"]))
    right = {entry["model"]: place for place, entry in enumerate(by_quality)}
    return [
        SlopeLine(
            model=shortened(entry["model"], 26),
            left=row_height * place + row_height // 2,
            right=row_height * right[entry["model"]] + row_height // 2,
            pass_rank=entry["rank_by_pass_rate"],
            quality_rank=entry["rank_by_quality"],
            pass_rate=entry["pass_rate"],
            quality=entry["quality"]["value"],
            shift=entry["shift"],
        )
        for place, entry in enumerate(by_pass)
    ]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bin:
    """How many runs of each outcome have a score from `start` to under `start + width`; heights 0 to 1."""

    start: float
    passed: int
    failed: int
    passed_height: float
    failed_height: float


def histogram(scores: Iterable[tuple[float, str]], *, width: float = 5.0) -> list[Bin]:
    """(score, outcome) pairs in bins from 0 to 100; 100 belongs to the last."""
    count = round(100 / width)
    edges = [width * (n + 1) for n in range(count - 1)]
    passed, failed = [0] * count, [0] * count
    for score, outcome in scores:
        if outcome != "unknown":
            (passed if outcome == "passed" else failed)[bisect.bisect_right(edges, score)] += 1
    top = max([*passed, *failed, 1])
    return [
        Bin(
            start=width * n,
            passed=passed[n],
            failed=failed[n],
            passed_height=passed[n] / top,
            failed_height=failed[n] / top,
        )
        for n in range(count)
    ]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One step of a timeline."""

    index: int
    x: int
    intent: str
    rule: int
    tool: str
    text: str
    compared_as: str
    outcome: str
    is_wasted: bool
    waste: str
    is_matched: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """From x to x + width."""

    x: int
    width: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """A run as a row of cells. off: stretches away from the reference. divergence: x of the mark."""

    cells: tuple[Cell, ...]
    cell_width: int
    width: int
    ticks: tuple[tuple[int, int], ...]
    off: tuple[Stretch, ...]
    divergence: int | None
    steps: int


def timeline(document: Mapping[str, Any], states: Sequence[State]) -> Timeline:
    """The timeline of an assessment (in its JSON form) and its run's states."""
    shown = states[:STEPS_SHOWN]
    cell = 20 if len(shown) <= 45 else 14 if len(shown) <= 70 else 9
    waste: dict[int, str] = {}
    for finding in document["waste"]["findings"]:
        for step in finding["steps"]:
            waste.setdefault(step, finding["category"])
    matched = {pair["step"] for pair in document["matched"]}
    divergence = document["divergence"]
    segments = [] if divergence is None else divergence["segments"]
    return Timeline(
        cells=tuple(
            Cell(
                index=state.index,
                x=cell * position,
                intent="" if state.intent is None else state.intent.value,
                rule=state.rule,
                tool=shortened(state.tool, 40),
                text=action(state),
                compared_as=compared_as(state),
                outcome=state.outcome,
                is_wasted=position in waste,
                waste=waste.get(position, "").replace("_", " "),
                is_matched=position in matched,
            )
            for position, state in enumerate(shown)
        ),
        cell_width=cell,
        width=max(1, cell * len(shown)),
        ticks=tuple((cell * n, n) for n in range(0, len(shown), 5 if cell == 20 else 10)),
        off=tuple(
            Stretch(x=cell * s["start"], width=cell * (min(s["end"], len(shown) - 1) - s["start"] + 1))
            for s in segments
            if s["start"] < len(shown)
        ),
        divergence=None
        if divergence is None or divergence["step"] >= len(shown)
        else cell * divergence["step"],
        steps=len(states),
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Dot:
    """A node of the tree. step: the step of the run that matched it, None if none did."""

    x: int
    y: int
    intent: str
    support: int
    text: str
    step: int | None
    is_expected: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Lane:
    """Where a donor's path ends, and whose it is."""

    x: int
    y: int
    model: str
    donor_id: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A prefix tree laid out from left to right, one lane a donor. edges: (x, y) of parent and child.
    way: points of the run's path."""

    dots: tuple[Dot, ...]
    edges: tuple[tuple[int, int, int, int], ...]
    way: tuple[tuple[int, int], ...]
    lanes: tuple[Lane, ...]
    width: int
    height: int
    is_cut: bool


def tree(document: Mapping[str, Any], reference: Reference, *, across: int = 18, down: int = 26) -> Tree:
    """The reference of an assessment with the run's way through it. A node that donors share stands in the
    lane of the first of them."""
    lane = {node: donor for donor, path in reversed(list(enumerate(reference.paths))) for node in path}
    where = {
        node: (across * (reference.depth(node) + 1) + 10, down * lane[node] + down // 2)
        for node in range(len(reference))
        if reference.depth(node) < STEPS_SHOWN
    }
    root = (10, down * (len(reference.donors) - 1) // 2 + down // 2)
    steps = {pair["node"]: pair["step"] for pair in document["matched"]}
    divergence = document["divergence"]
    expected = set() if divergence is None else {item["node"] for item in divergence["expected"]}
    nodes = {node: reference.node(node) for node in where}
    return Tree(
        dots=tuple(
            Dot(
                x=where[index][0],
                y=where[index][1],
                intent="" if node.state.intent is None else node.state.intent.value,
                support=node.support,
                text=action(node.state),
                step=steps.get(index),
                is_expected=index in expected,
            )
            for index, node in nodes.items()
        ),
        edges=tuple(
            (*(root if node.parent == ROOT else where[node.parent]), *where[index])
            for index, node in nodes.items()
        ),
        way=(root, *(where[p["node"]] for p in document["matched"] if p["node"] in where)),
        lanes=tuple(
            Lane(
                x=max((where[node][0] for node in path if node in where), default=0),
                y=down * number + down // 2,
                model=shortened(donor.model or "unknown model", 26),
                donor_id=shortened(donor.donor_id),
            )
            for number, (donor, path) in enumerate(zip(reference.donors, reference.paths, strict=True))
        ),
        width=max((x for x, _ in where.values()), default=0) + 14,
        height=down * len(reference.donors),
        is_cut=len(where) < len(reference),
    )
