"""Which lines of which files a run changed, net of what it undid (AGENTLENS §5, Φedit).

A line is known by its file and its text in the version the run started from. Line numbers shift with every
edit and many logs lack them; the replaced text is in all of them."""

from __future__ import annotations

import dataclasses
import difflib
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

from workers.agentlens.equivalence import target_path
from workers.agentlens.paths import kind_of
from workers.agentlens.trajectory import Edit, Intent, Operation, State

# Bound once: looking a member up in its enum costs three times as much as a global.
_I = Intent.I
_UNDO, _CREATE, _INSERT = Operation.UNDO, Operation.CREATE, Operation.INSERT

Line = tuple[str, str]
"""A file and a line's text without its indentation; "" stands for a file that was created."""

_REVERTING_PROGRAMS: Final = frozenset({"git checkout", "git restore", "git stash", "git reset"})


@dataclasses.dataclass(frozen=True, slots=True)
class _Change:
    """One edit of one file: the lines it took away or anchored on, and the lines it brought."""

    path: str
    touched: tuple[str, ...]
    added: tuple[str, ...]
    old: str
    new: str


def region(states: Iterable[State]) -> frozenset[Line]:
    """The set of (file, line) that the run's successful source edits replaced or inserted at.

    Left out: edits that failed, were undone, were reverted by the opposite edit or by git, and lines that the
    run itself had added before."""
    standing: list[_Change] = []
    for state in states:
        if state.intent is not _I or state.outcome == "error":
            continue
        path = target_path(state) or ""
        if state.operation is _UNDO:
            _undo(standing, path)
        elif state.command is not None and state.command.program in _REVERTING_PROGRAMS:
            reverted = set(state.command.writes)
            standing = [c for c in standing if reverted and not _covers(reverted, c.path)]
        else:
            for change in _changes(state, path):
                _stack(standing, change)
    return _net(standing)


def written_sources(state: State) -> tuple[str, ...]:
    """The source files that an implementing state writes: all that a shell line or a patch names."""
    paths = state.command.writes if state.command is not None else ()
    return tuple(
        path for path in dict.fromkeys(paths or (target_path(state),)) if path and kind_of(path) == "source"
    )


def edited_files(state: State) -> tuple[str, ...]:
    """The files that a state edits: those that its edits name, else its own; empty if none is known."""
    own = target_path(state)
    if any(edit.path is not None for edit in state.edits):
        files = dict.fromkeys(edit.path or own for edit in state.edits)
        return tuple(file for file in files if file is not None)
    return () if own is None else (own,)


def _covers(reverted: set[str], path: str) -> bool:
    return any(r in ("", ".") or path == r or path.startswith(r + "/") for r in reverted)


def _undo(standing: list[_Change], path: str) -> None:
    for position in range(len(standing) - 1, -1, -1):
        if standing[position].path == path:
            del standing[position]
            return


def _stack(standing: list[_Change], change: _Change) -> None:
    """Add a change, unless it takes back an earlier one: then both go."""
    for position in range(len(standing) - 1, -1, -1):
        earlier = standing[position]
        if earlier.path == change.path and earlier.old == change.new and earlier.new == change.old:
            del standing[position]
            return
    standing.append(change)


def _changes(state: State, path: str) -> list[_Change]:
    if state.edits:
        return [
            change
            for edit in state.edits
            if (edit.path is None or kind_of(edit.path) == "source")
            and (change := _change(edit.path or path, edit, state.operation)) is not None
        ]
    return [_Change(file, ("",), (), "", state.content_digest) for file in written_sources(state)]


def _change(path: str, edit: Edit, operation: Operation) -> _Change | None:
    if edit.old == edit.new:
        return None
    if operation is _CREATE or (not edit.old and operation is not _INSERT):
        return _Change(path, ("",), tuple(_stripped(edit.new.splitlines())), edit.old, edit.new)
    touched, added = changed_lines(edit.old.splitlines(), edit.new.splitlines())
    if not touched and edit.anchor is not None:
        touched = (f"@{edit.anchor.start}",)
    return _Change(path, touched, added, edit.old, edit.new)


def _stripped(lines: Iterable[str]) -> list[str]:
    return [text for line in lines if (text := line.strip())]


def changed_lines(old: Sequence[str], new: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The lines of `old` that are replaced, or next to which something is inserted, and the lines that `new`
    brings, all without indentation; blank lines are nobody's work and are left out.

    An insertion anchors on the nearest line before it, else on the one after it."""
    head, limit = 0, min(len(old), len(new))
    while head < limit and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < limit - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    gone, come = old[head : len(old) - tail], new[head : len(new) - tail]
    touched: list[str] = []
    added: list[str] = []
    for gone_from, gone_to, come_from, come_to in _hunks(gone, come):
        added.extend(_stripped(come[come_from:come_to]))
        replaced = _stripped(gone[gone_from:gone_to])
        if replaced:
            touched.extend(replaced)
        elif come_to > come_from:
            touched.extend(_anchor(old, head + gone_from))
    return tuple(touched), tuple(added)


def _hunks(gone: Sequence[str], come: Sequence[str]) -> list[tuple[int, int, int, int]]:
    if not gone or not come or set(gone).isdisjoint(come):
        return [(0, len(gone), 0, len(come))]
    matcher = difflib.SequenceMatcher(None, gone, come, autojunk=False)
    return [(a, b, c, d) for tag, a, b, c, d in matcher.get_opcodes() if tag != "equal"]


def _anchor(old: Sequence[str], position: int) -> list[str]:
    for line in [*reversed(old[:position]), *old[position:]]:
        if line.strip():
            return [line.strip()]
    return []


def _net(standing: Sequence[_Change]) -> frozenset[Line]:
    own: Counter[Line] = Counter()
    net: set[Line] = set()
    for change in standing:
        for text in change.touched:
            line = (change.path, text)
            if own[line] > 0:
                own[line] -= 1
            else:
                net.add(line)
        own.update((change.path, text) for text in change.added)
    return frozenset(net)
