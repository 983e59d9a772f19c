"""When two steps of two runs are the same step: a cascade of four levels with a confidence (AGENTLENS §3).

`confidence` is the definition, one pair at a time. `confidence_matrix` computes the same numbers for all
pairs at once on integer codes; a property test holds the two together."""

from __future__ import annotations

import functools
import re
from collections.abc import Hashable, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from workers.agentlens.shell import Group
from workers.agentlens.trajectory import Intent, Operation, State

# Bound once: looking a member up in its enum costs three times as much as a global.
_SHELL, _FINISH = Operation.SHELL, Operation.FINISH
_WRITE, _READ, _SEARCH = Group.WRITE, Group.READ, Group.SEARCH
_O = Intent.O

SAME_CONTENT: Final = 1.0
SAME_SCOPE: Final = 0.90
OVERLAP_BASE: Final = 0.80
OVERLAP_SPAN: Final = 0.15
SAME_GROUP: Final = (0.70, 0.75, 0.80, 0.85)
"""By how many of program, target and flags agree; written out, because sums of 0.05 are not exact."""
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
Code = tuple[int, int, int, int, int, int, int, int, int]
_FIELDS: Final = ("exact", "place", "scope", "group", "program", "target", "flags", "start", "end")
_EXACT, _PLACE, _SCOPE, _GROUP, _START, _END = 0, 1, 2, 3, 7, 8
_NULLABLE: Final = 4
_AGREEMENTS: Final = slice(4, 7)
_FAR: Final = 1_000_000_000
"""Line numbers beyond this are the end of the file; it keeps sums of two ranges within 32 bits."""
_PLACED: Final = frozenset({"view", "list", "edit", "undo"})
_GROUPED_BY_KIND: Final = frozenset({"check", "run"})
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,}")


class Signature(NamedTuple):
    """What of a state takes part in comparisons; None never equals anything. A tuple and not a dataclass,
    because one is made for every step of every run and this makes it three times cheaper.

    exact: content digest and path. place: intent, family and file. group: intent, family and what must agree
    inside the semantic group (a search's pattern, a program that is its own group). program, target, flags:
    what raises the confidence inside a group. start, end: line range, 0 if unknown, negative if
    counted from the end of the file.
    kind: the family of action (`view`, `list`, `search`, `edit`, `check`, `run`, …). path: what it acts on.
    action: kind and what it acts on or looks for, the name of the step in waste patterns.
    """

    exact: str | None
    place: str | None = None
    scope: str | None = None
    group: str | None = None
    program: str = ""
    target: str = ""
    flags: tuple[str, ...] = ()
    start: int = 0
    end: int = 0
    kind: str = ""
    path: str | None = None
    action: str = ""


def family(state: State) -> str:
    """The kind of action a state is, whether a tool or a shell line did it."""
    command = state.command
    if command is not None and state.operation is _SHELL:
        strongest = command.strongest
        if strongest.program in _LISTING_PROGRAMS:
            return "list"
        return _FAMILY_OF_GROUP[strongest.group]
    return _FAMILY_OF_OPERATION.get(state.operation) or state.operation.value


def target_path(state: State) -> str | None:
    """The file or folder a state acts on: the tool's path, or what the shell line names."""
    if state.path is not None or state.command is None:
        return state.path
    segment = state.command.strongest
    if segment.group is _WRITE:
        return segment.writes[0] if segment.writes else segment.target
    if segment.group is _READ:
        return segment.reads[0] if segment.reads else segment.target
    if segment.group is _SEARCH:
        return segment.reads[0] if segment.reads else None
    return segment.target


@functools.lru_cache(maxsize=4096)
def searched_for(pattern: str) -> str:
    """The longest identifier of a search's pattern (the pattern itself if it holds none): what two searches
    must share to be the same search."""
    words = _IDENTIFIER.findall(pattern)
    return max(words, key=lambda word: (len(word), word)) if words else pattern


def _lines(state: State) -> tuple[int, int]:
    if state.lines is not None:
        return state.lines.start, state.lines.end
    if state.edits:
        mine = (None, state.path)
        anchors = [edit.anchor for edit in state.edits if edit.anchor is not None and edit.path in mine]
        if anchors:
            return min(lines.start for lines in anchors), max(lines.end for lines in anchors)
    if state.command is not None and state.command.strongest.lines is not None:
        return state.command.strongest.lines
    return 0, 0


@functools.cache
def _stage(intent: Intent, kind: str) -> str:
    return f"{intent.value}|{kind}|"


def signature(state: State) -> Signature:
    """A labelled state's `Signature`. An O state matches on finish only (§3).

    Shell lines that look are of one group only if they look at the same thing; a checker or a script may
    differ in its target and is then of the same group with less confidence."""
    intent, command = state.intent, state.command
    kind, path = family(state), target_path(state)
    if intent is None or intent is _O:
        finish = "finish" if state.operation is _FINISH else None
        return Signature(exact=finish, kind=kind, path=path)
    stage = _stage(intent, kind)
    place = stage + path if path is not None and kind in _PLACED else None
    start, end = _lines(state) if place is not None else (0, 0)
    if not (-_FAR <= start <= _FAR and -_FAR <= end <= _FAR):
        start, end = max(-_FAR, min(start, _FAR)), max(-_FAR, min(end, _FAR))
    exact = f"{state.content_digest}|{path}"
    if command is None:
        return Signature(
            exact,
            place,
            state.scope,
            None,
            "",
            "",
            (),
            start,
            end,
            kind,
            path,
            f"{kind}|{path or state.tool}",
        )
    strongest = command.strongest
    name = path or strongest.program
    if kind == "search" and strongest.pattern is not None:
        name = searched_for(strongest.pattern)
    if kind in _GROUPED_BY_KIND:
        group = stage
    elif kind == "search":
        group = stage + name
    else:
        group = f"{stage}{strongest.program}|{path or ''}"
    return Signature(
        exact,
        place,
        state.scope,
        group,
        strongest.program,
        path or "",
        strongest.flags,
        start,
        end,
        kind,
        path,
        f"{kind}|{name}",
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
        return SAME_GROUP[(a.program == b.program) + (a.target == b.target) + (a.flags == b.flags)]
    return 0.0


class _Codes(dict[Hashable, int]):
    """Gives each new text the next number; None is −1."""

    def __missing__(self, text: Hashable) -> int:
        number = self[text] = len(self) - 1
        return number


class Codebook:
    """Gives each text of one problem an integer. Only equality of codes is ever used, so the order in which
    texts arrive changes no score. A copy of a book takes up new texts without the book growing by them."""

    def __init__(self, known: Codebook | None = None) -> None:
        self._codes: _Codes = _Codes({None: -1} if known is None else known._codes)

    def encode(self, signatures: Iterable[Signature]) -> list[Code]:
        """Each signature as 9 integers: exact, place, scope, group, program, target, flags, start, end."""
        codes = self._codes
        return [
            (
                codes[s[0]],
                codes[s[1]],
                codes[s[2]],
                codes[s[3]],
                codes[s[4]],
                codes[s[5]],
                codes[s[6]],
                s[7],
                s[8],
            )
            for s in signatures
        ]


def _equal_pairs(
    a: npt.NDArray[np.int32], b: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """The positions (i, j) of all pairs with a[i] == b[j], without comparing every pair."""
    order = np.argsort(b, kind="stable")
    ordered = b[order]
    first = np.searchsorted(ordered, a, side="left")
    counts = np.searchsorted(ordered, a, side="right") - first
    i = np.repeat(np.arange(len(a)), counts)
    start_of_run = np.repeat(first - (np.cumsum(counts) - counts), counts)
    return i, order[start_of_run + np.arange(len(i))]


def confidence_matrix(
    rows: Sequence[Code],
    columns: Sequence[Code],
    *,
    threshold: float,
    line_overlap: float = LINE_OVERLAP,
    spare: int = 0,
) -> npt.NDArray[np.float32]:
    """`confidence` for every pair of codes of one codebook, shape (rows, columns + spare); values under
    `threshold` (θ) and in the spare columns are 0.

    Only the few pairs that share content, file or group are looked at closely."""
    a = np.array(rows, dtype=np.int32).reshape(len(rows), len(_FIELDS)).T
    b = np.array(columns, dtype=np.int32).reshape(len(columns), len(_FIELDS)).T
    a[:_NULLABLE][a[:_NULLABLE] < 0] = -2  # so that None equals no other None
    result = np.zeros((len(rows), len(columns) + spare), dtype=np.float32)

    i, j = _equal_pairs(a[_GROUP], b[_GROUP])
    agreements = (a[_AGREEMENTS, i] == b[_AGREEMENTS, j]).sum(axis=0)
    result[i, j] = np.take(SAME_GROUP, agreements)

    i, j = _equal_pairs(a[_PLACE], b[_PLACE])
    a_start, a_end, b_start, b_end = a[_START, i], a[_END, i], b[_START, j], b[_END, j]
    shared = np.maximum(0, np.minimum(a_end, b_end) - np.maximum(a_start, b_start) + 1)
    ratio = shared / ((a_end - a_start + 1) + (b_end - b_start + 1) - shared)
    both_known = (a_start != 0) & (b_start != 0)
    value = np.where(
        both_known & (ratio >= line_overlap),
        OVERLAP_BASE + OVERLAP_SPAN * (ratio - line_overlap) / (1 - line_overlap),
        np.where((a_start == 0) & (b_start == 0), OVERLAP_BASE, result[i, j]),
    )
    result[i, j] = np.where(a[_SCOPE, i] == b[_SCOPE, j], SAME_SCOPE, value)

    result[_equal_pairs(a[_EXACT], b[_EXACT])] = SAME_CONTENT
    if threshold > SAME_GROUP[0]:
        result[result < np.float32(threshold)] = 0.0
    return result
