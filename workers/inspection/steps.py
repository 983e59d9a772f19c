"""The steps of an opened run as plain values: all of them in little, some at length, an observation in pieces."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from workers.agentlens.mechanisms import MEANING
from workers.agentlens.rating import action as whole_action
from workers.agentlens.trajectory import Edit, Intent, State
from workers.inspection.opened import Held, OpenedRun
from workers.inspection.texts import sound
from workers.scoring.pictures import action, compared_as

INTENTS: Final[Mapping[str, str]] = {
    Intent.E: "exploration",
    Intent.I: "implementation",
    Intent.V: "verification",
    Intent.O: "orchestration",
}
#: Which rule gave the label (AGENTLENS §2).
RULES: Final[Mapping[int, str]] = {
    1: "bookkeeping",
    2: "writes to a source file",
    3: "writes to a test, a reproduction script or a scratch file",
    4: "runs a checker",
    5: "runs something of its own",
    6: "looks at something",
    7: "none of the other rules",
}
TEXT_SHOWN: Final = 2_000
"""Characters of an observation, a thought or an edit that come with a step."""
_EDITS_SHOWN: Final = 8


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Bounded:
    """The beginning of a text, and how many characters the whole has."""

    text: str
    total_chars: int


def bounded(text: str, most: int = TEXT_SHOWN) -> Bounded:
    """The beginning of a text."""
    return Bounded(text=sound(text[:most]), total_chars=len(text))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class EditShown:
    path: str | None
    old: Bounded
    new: Bounded


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """The node of the reference that a step is most like. is_on_way: the walk goes by it here."""

    node: int
    confidence: float
    is_on_way: bool
    action: str
    support: int
    donors: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WasteShown:
    category: str
    evidence: str
    hint: str
    steps: tuple[int, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step at length. line: what it did, in one line. call: as the agent wrote it. compared_as: what a shell line is
    compared as, "" where that is the line itself. is_divergence: the run leaves the reference here."""

    index: int
    intent: str
    intent_name: str
    rule: int
    rule_meaning: str
    tool: str
    operation: str
    line: str
    call: str
    compared_as: str
    path: str | None
    scope: str | None
    edits: tuple[EditShown, ...]
    more_edits: int
    thought: Bounded
    observation: Bounded
    outcome: str
    exit_code: int | None
    tokens_in: int | None
    tokens_out: int | None
    timestamp: float | None
    waste: tuple[WasteShown, ...]
    node: Node | None
    is_off: bool
    is_divergence: bool


def steps(opened: OpenedRun, first: int, count: int) -> list[Step]:
    """The steps from `first` on, at most `count`."""
    states = opened.run.trajectory.states[first : first + count]
    wasted: dict[int, list[Mapping[str, Any]]] = {}
    for finding in waste_of(opened):
        for index in finding["steps"]:
            if first <= index < first + count:
                wasted.setdefault(index, []).append(finding)
    divergence = None if opened.document is None else opened.document["divergence"]
    segments = [] if divergence is None else divergence["segments"]
    return [
        _step(opened, first + offset, state, wasted.get(first + offset, ()), divergence, segments)
        for offset, state in enumerate(states)
    ]


def _step(
    opened: OpenedRun,
    index: int,
    state: State,
    findings: Sequence[Mapping[str, Any]],
    divergence: Mapping[str, Any] | None,
    segments: Sequence[Mapping[str, Any]],
) -> Step:
    intent, rule = label_of(opened, index)
    held = None if opened.against is None else opened.against.held.get(index)
    return Step(
        index=index,
        intent=intent,
        intent_name=INTENTS.get(intent, ""),
        rule=rule,
        rule_meaning=RULES.get(rule, ""),
        tool=sound(state.tool[:200]),
        operation=state.operation.value,
        line=action(state),
        call=sound(whole_action(state)) if state.command is not None else action(state),
        compared_as=compared_as(state),
        path=None if state.path is None else sound(state.path),
        scope=None if state.scope is None else sound(state.scope),
        edits=tuple(_edit(edit) for edit in state.edits[:_EDITS_SHOWN]),
        more_edits=max(0, len(state.edits) - _EDITS_SHOWN),
        thought=bounded(state.thought),
        observation=bounded(opened.observations[index]),
        outcome=state.outcome,
        exit_code=state.exit_code,
        tokens_in=state.tokens_in,
        tokens_out=state.tokens_out,
        timestamp=state.timestamp,
        waste=tuple(
            WasteShown(
                category=finding["category"],
                evidence=sound(finding["evidence"]),
                hint=sound(finding["hint"]),
                steps=tuple(finding["steps"][:50]),
            )
            for finding in findings
        ),
        node=None if held is None else _node(opened, held),
        is_off=any(segment["start"] <= index <= segment["end"] for segment in segments),
        is_divergence=divergence is not None and divergence["step"] == index,
    )


def _edit(edit: Edit) -> EditShown:
    return EditShown(
        path=None if edit.path is None else sound(edit.path), old=bounded(edit.old), new=bounded(edit.new)
    )


def _node(opened: OpenedRun, held: Held) -> Node:
    assert opened.against is not None  # noqa: S101 - what is held is held against it
    tree = opened.against.tree
    node = tree.node(held.node)
    return Node(
        node=held.node,
        confidence=held.confidence,
        is_on_way=held.is_on_way,
        action=action(node.state),
        support=node.support,
        donors=len(tree.donors),
    )


def label_of(opened: OpenedRun, index: int) -> tuple[str, int]:
    """Intent and rule of a step: those of its assessment, else today's."""
    if opened.document is not None and index < len(opened.document["labels"]):
        given = opened.document["labels"][index]
        return given["intent"], given["rule"]
    state = opened.run.trajectory.states[index]
    return "" if state.intent is None else state.intent.value, state.rule


def waste_of(opened: OpenedRun) -> Sequence[Mapping[str, Any]]:
    """What of a run is waste; without an assessment, what would be if no reference showed it too."""
    if opened.document is not None:
        findings: Sequence[Mapping[str, Any]] = opened.document["waste"]["findings"]
        return findings
    return [dataclasses.asdict(finding) for finding in opened.run.findings]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Stretch:
    """Closed range of step numbers."""

    start: int
    end: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """All steps in little. intents: a letter a step. outcomes: o(k), e(rror) or u(nknown) a step. rules: a digit a
    step. wasted: step numbers. matched: (step, node, confidence) along the way. off: stretches off the reference.
    divergence: step number."""

    steps: int
    intents: str
    rules: str
    outcomes: str
    wasted: tuple[int, ...]
    matched: tuple[tuple[int, int, float], ...]
    off: tuple[Stretch, ...]
    divergence: int | None


def overview(opened: OpenedRun) -> Overview:
    """What the timeline draws."""
    states = opened.run.trajectory.states
    labels = [label_of(opened, index) for index in range(len(states))]
    divergence = None if opened.document is None else opened.document["divergence"]
    is_within = divergence is not None and divergence["step"] < len(states)
    held = {} if opened.against is None else opened.against.held
    return Overview(
        steps=len(states),
        intents="".join(intent or "O" for intent, _ in labels),
        rules="".join(str(rule) for _, rule in labels),
        outcomes="".join(state.outcome[0] for state in states),
        wasted=tuple(sorted({step for finding in waste_of(opened) for step in finding["steps"]})),
        matched=tuple((step, at.node, at.confidence) for step, at in sorted(held.items()) if at.is_on_way),
        off=tuple(
            Stretch(start=segment["start"], end=segment["end"])
            for segment in ([] if divergence is None else divergence["segments"])
        ),
        divergence=divergence["step"] if is_within and divergence is not None else None,
    )


def mechanism_meaning(code: str) -> str:
    """What a Lucky mechanism means, in words."""
    return next((text for mechanism, text in MEANING.items() if mechanism.value == code), "")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Characters of a text from `offset` on; next_offset is None behind the last."""

    text: str
    offset: int
    total_chars: int
    next_offset: int | None


def piece_of(text: str, offset: int, limit: int) -> Piece:
    """A part of a text, by characters."""
    part = text[offset : offset + limit]
    following = offset + len(part)
    return Piece(
        text=sound(part),
        offset=offset,
        total_chars=len(text),
        next_offset=following if following < len(text) else None,
    )
