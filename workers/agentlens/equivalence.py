"""When two steps of two runs are the same step: a cascade of four levels with a confidence (AGENTLENS §3).

`confidence` is the definition, one pair at a time. `confidence_matrix` computes the same numbers for all
pairs at once on integer codes; a property test holds the two together."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from workers.agentlens.shell import Command, Group
from workers.agentlens.trajectory import Intent, Operation, State

SAME_CONTENT: Final = 1.0
SAME_SCOPE: Final = 0.90
OVERLAP_BASE: Final = 0.80
OVERLAP_SPAN: Final = 0.15
GROUP_BASE: Final = 0.70
GROUP_STEP: Final = 0.05
GROUP_CAP: Final = 0.85
LINE_OVERLAP: Final = 0.30

_FAMILY_OF_OPERATION: Final = {
    Operation.VIEW: "view",
    Operation.LIST: "list",
    Operation.SEARCH: "search",
    Operation.CREATE: "edit",
    Operation.REPLACE: "edit",
    Operation.INSERT: "edit",
    Operation.UNDO: "undo",
    Operation.PATCH: "edit",
}
_FAMILY_OF_GROUP: Final = {
    Group.WRITE: "edit",
    Group.TEST: "check",
    Group.EXECUTE: "run",
    Group.READ: "view",
    Group.SEARCH: "search",
    Group.ENVIRONMENT: "environment",
    Group.NOTHING: "nothing",
}
_LISTING_PROGRAMS: Final = frozenset({"ls", "tree", "dir", "find", "fd", "fdfind", "git ls-files"})
Coded = npt.NDArray[np.int64]
_EXACT, _PLACE, _SCOPE, _START, _END, _GROUP = range(6)
_AGREEMENTS: Final = slice(6, 9)
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,}")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """What of a state takes part in comparisons; None never equals anything.

    exact: content digest and path. place: intent, family and file. start, end: line range, 0 if unknown.
    group: intent, family and what must agree inside the semantic group (a search's pattern, a program that
    is its own group). program, target, flags: what raises the confidence inside a group.
    kind: the family of action (`view`, `list`, `search`, `edit`, `check`, `run`, …). path: what it acts on.
    action: kind and what it acts on or looks for, the name of the step in waste patterns.
    """

    exact: str | None
    kind: str = ""
    path: str | None = None
    action: str = ""
    place: str | None = None
    scope: str | None = None
    start: int = 0
    end: int = 0
    group: str | None = None
    program: str = ""
    target: str = ""
    flags: str = ""


def family(state: State) -> str:
    """The kind of action a state is, whether a tool or a shell line did it."""
    if state.operation is Operation.SHELL and state.command is not None:
        if state.command.program in _LISTING_PROGRAMS:
            return "list"
        return _FAMILY_OF_GROUP[state.command.kind]
    return _FAMILY_OF_OPERATION.get(state.operation, state.operation.value)


def target_path(state: State) -> str | None:
    """The file or folder a state acts on: the tool's path, or what the shell line names."""
    if state.path is not None or state.command is None:
        return state.path
    segment = state.command.strongest
    if segment.group is Group.WRITE:
        return segment.writes[0] if segment.writes else segment.target
    if segment.group is Group.READ:
        return segment.reads[0] if segment.reads else segment.target
    if segment.group is Group.SEARCH:
        return segment.reads[0] if segment.reads else None
    return segment.target


def searched_for(state: State) -> str | None:
    """The longest identifier of a search's pattern (the pattern itself if it holds none): what two searches
    must share to be the same search."""
    pattern = state.command.strongest.pattern if state.command is not None else None
    if pattern is None:
        return None
    words = _IDENTIFIER.findall(pattern)
    return max(words, key=lambda word: (len(word), word)) if words else pattern


def _lines(state: State) -> tuple[int, int]:
    if state.lines is not None:
        return state.lines.start, state.lines.end
    anchors = [edit.anchor for edit in state.edits if edit.anchor is not None]
    if anchors:
        return min(lines.start for lines in anchors), max(lines.end for lines in anchors)
    if state.command is not None and state.command.strongest.lines is not None:
        return state.command.strongest.lines
    return 0, 0


def _group(state: State, kind: str, command: Command) -> str | None:
    """The semantic group of a shell line. Lines that look must agree on what they look at; a checker or a
    script may differ in its target and is then the same group with less confidence."""
    if kind in ("check", "run"):
        return f"{state.intent}|{kind}"
    if kind == "search":
        return f"{state.intent}|search|{searched_for(state)}"
    return f"{state.intent}|{kind}|{command.program}|{target_path(state) or ''}"


def signature(state: State) -> Signature:
    """A labelled state's `Signature`. An O state matches on finish only (§3)."""
    kind = family(state)
    path = target_path(state)
    if state.intent is Intent.O:
        return Signature(
            exact="finish" if state.operation is Operation.FINISH else None, kind=kind, path=path
        )
    command = state.command
    searched = searched_for(state) if kind == "search" else None
    start, end = _lines(state)
    has_place = path is not None and kind in ("view", "list", "edit", "undo")
    return Signature(
        exact=f"{state.content_digest}|{path}",
        kind=kind,
        path=path,
        action=f"{kind}|{searched or path or (command.program if command else state.tool)}",
        place=f"{state.intent}|{kind}|{path}" if has_place else None,
        scope=state.scope,
        start=start,
        end=end,
        group=_group(state, kind, command) if command else None,
        program=command.program if command else "",
        target=path or "",
        flags=" ".join(command.flags) if command else "",
    )


def _overlap(a: Signature, b: Signature) -> float:
    shared = min(a.end, b.end) - max(a.start, b.start) + 1
    if shared <= 0:
        return 0.0
    return shared / ((a.end - a.start + 1) + (b.end - b.start + 1) - shared)


def confidence(a: Signature, b: Signature, *, line_overlap: float = LINE_OVERLAP) -> float:
    """How sure it is that two states are the same step: 0, or 0.70 to 1.0 (AGENTLENS §3, first hit wins).

    Two states on one file without any known line range count as a range that overlaps at the least
    accepted Jaccard index, hence 0.80; a known range against an unknown one does not match."""
    if a.exact is not None and a.exact == b.exact:
        return SAME_CONTENT
    if a.place is not None and a.place == b.place:
        if a.scope is not None and a.scope == b.scope:
            return SAME_SCOPE
        if a.start == 0 and b.start == 0:
            return OVERLAP_BASE
        if a.start and b.start:
            ratio = _overlap(a, b)
            if ratio >= line_overlap:
                return OVERLAP_BASE + OVERLAP_SPAN * (ratio - line_overlap) / (1 - line_overlap)
    if a.group is not None and a.group == b.group:
        agreements = (a.program == b.program) + (a.target == b.target) + (a.flags == b.flags)
        return min(GROUP_CAP, GROUP_BASE + GROUP_STEP * agreements)
    return 0.0


class Codebook:
    """Gives each text of one problem an integer. Only equality of codes is ever used, so the order in which
    texts arrive changes no score."""

    def __init__(self) -> None:
        self._codes: dict[tuple[int, str], int] = {}

    def encode(self, signatures: Sequence[Signature], *, absent: int) -> Coded:
        """Signatures as integers, shape (9 fields in the order of `Signature`, signatures).

        `absent` is the negative code of None: rows and columns of a matrix use different ones, so that None
        equals nothing."""
        codes = self._codes

        def code(kind: int, text: str | None) -> int:
            return absent if text is None else codes.setdefault((kind, text), len(codes))

        table = [
            (
                code(0, s.exact),
                code(1, s.place),
                code(2, s.scope),
                s.start,
                s.end,
                code(3, s.group),
                code(4, s.program),
                code(5, s.target),
                code(6, s.flags),
            )
            for s in signatures
        ]
        return np.array(table, dtype=np.int64).reshape(len(table), 9).T


def confidence_matrix(
    rows: Coded, columns: Coded, *, threshold: float, line_overlap: float = LINE_OVERLAP
) -> npt.NDArray[np.float64]:
    """`confidence` for every pair, shape (rows, columns); values under `threshold` (θ) become 0.

    Only the few pairs that share content, file or group are looked at closely."""
    same_exact = rows[_EXACT][:, None] == columns[_EXACT]
    same_place = rows[_PLACE][:, None] == columns[_PLACE]
    same_group = rows[_GROUP][:, None] == columns[_GROUP]
    result = np.zeros(same_exact.shape)

    i, j = np.nonzero(same_group)
    agreements = (rows[_AGREEMENTS, i] == columns[_AGREEMENTS, j]).sum(axis=0)
    result[i, j] = np.minimum(GROUP_CAP, GROUP_BASE + GROUP_STEP * agreements)

    i, j = np.nonzero(same_place)
    a_start, a_end = rows[_START, i], rows[_END, i]
    b_start, b_end = columns[_START, j], columns[_END, j]
    shared = np.maximum(0, np.minimum(a_end, b_end) - np.maximum(a_start, b_start) + 1)
    ratio = shared / ((a_end - a_start + 1) + (b_end - b_start + 1) - shared)
    both_known = (a_start > 0) & (b_start > 0)
    value = np.where(
        both_known & (ratio >= line_overlap),
        OVERLAP_BASE + OVERLAP_SPAN * (ratio - line_overlap) / (1 - line_overlap),
        np.where((a_start == 0) & (b_start == 0), OVERLAP_BASE, result[i, j]),
    )
    result[i, j] = np.where(rows[_SCOPE, i] == columns[_SCOPE, j], SAME_SCOPE, value)

    result[same_exact] = SAME_CONTENT
    result[result < threshold] = 0.0
    return result
