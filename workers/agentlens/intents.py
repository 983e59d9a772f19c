"""The intent of every state: seven rules, the first that holds gives the label and its number (AGENTLENS §2).

The labeler walks the states once, in order, and remembers only what came before: labelling a prefix gives the
prefix of the labels."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable

from workers.agentlens.paths import kind_of, parent
from workers.agentlens.shell import Command, Group
from workers.agentlens.shell.inline import written_paths
from workers.agentlens.trajectory import Edit, Intent, Operation, State, with_label

# Bound once: looking a member up in its enum costs three times as much as a global.
_E, _I, _V, _O = Intent
_SHELL, _LIST = Operation.SHELL, Operation.LIST
_WRITE, _EXECUTE, _TEST, _NOTHING, _SEARCH = (
    Group.WRITE,
    Group.EXECUTE,
    Group.TEST,
    Group.NOTHING,
    Group.SEARCH,
)

_BOOKKEEPING = frozenset(
    (Operation.THINK, Operation.PLAN, Operation.MESSAGE, Operation.FINISH, Operation.DELEGATE)
)
_EDITING = frozenset((Operation.CREATE, Operation.REPLACE, Operation.INSERT, Operation.UNDO, Operation.PATCH))
_LOOKING = frozenset((Operation.VIEW, Operation.LIST, Operation.SEARCH, Operation.BROWSE))
_LOOKING_KINDS = frozenset((Group.READ, Group.SEARCH))
_CHECKS_THE_CHANGE = frozenset(("git diff", "git status"))

_IDENTIFIER = re.compile(r"[A-Za-z_]\w{2,}")
_COMMON = frozenset(
    [
        "self",
        "cls",
        "def",
        "class",
        "return",
        "import",
        "from",
        "None",
        "True",
        "False",
        "and",
        "not",
        "for",
        "while",
        "with",
        "try",
        "except",
        "raise",
        "else",
        "elif",
        "lambda",
        "pass",
        "yield",
        "assert",
        "global",
        "async",
        "await",
        "print",
        "int",
        "str",
        "float",
        "bool",
        "list",
        "dict",
        "tuple",
        "set",
        "len",
        "range",
        "the",
        "this",
        "that",
        "function",
        "const",
        "let",
        "var",
        "public",
        "private",
        "static",
        "void",
        "new",
        "null",
        "true",
        "false",
        "struct",
        "func",
        "impl",
        "use",
        "mod",
        "end",
        "then",
        "test",
        "tests",
        "python",
    ]
)


class _History:
    """What the run has done so far."""

    def __init__(self) -> None:
        self.patched = False
        self.edited: set[str] = set()
        self.made: set[str] = set()
        self.scripts: dict[str, tuple[str, ...]] = {}
        self.symbols: set[str] = set()
        self.failing_check = ""
        self.last_shell: tuple[Intent, int] = (_O, 1)


def label(states: Iterable[State]) -> tuple[State, ...]:
    """The states with `intent` and `rule` filled; everything else stays as it was."""
    history = _History()
    return tuple(with_label(state, *_step(history, state)) for state in states)


def _step(history: _History, state: State) -> tuple[Intent, int]:
    operation = state.operation
    if operation is _SHELL:
        if state.command is None:
            return history.last_shell
        history.last_shell = _shell(history, state, state.command)
        return history.last_shell
    if operation in _BOOKKEEPING:
        return _O, 1
    if operation in _EDITING:
        writes = (state.path,) if state.command is None else state.command.writes
        return _write(history, state, tuple(path for path in writes if path is not None))
    if operation in _LOOKING:
        return _look(history, state), 6
    return _O, 7


def _shell(history: _History, state: State, command: Command) -> tuple[Intent, int]:
    kind = command.strongest.group
    if kind in _LOOKING_KINDS:
        return _look(history, state), 6
    if kind is _WRITE:
        return _write(history, state, (*_written(command), *_rewritten(history, command)))
    if kind is _EXECUTE:
        return _execute(history, state, command)
    if kind is _TEST:
        _remember_check(history, state)
        return _V, 4
    return _O, 1 if kind is _NOTHING else 7


def _execute(history: _History, state: State, command: Command) -> tuple[Intent, int]:
    rewritten = _rewritten(history, command)
    if rewritten:
        return _write(history, state, rewritten)
    if not history.patched:
        return _E, 5
    _remember_check(history, state)
    return _V, 5


def _written(command: Command) -> tuple[str, ...]:
    return tuple(path for segment in command.segments if segment.group is _WRITE for path in segment.writes)


def _write(history: _History, state: State, paths: tuple[str, ...]) -> tuple[Intent, int]:
    done = state.outcome != "error"
    kinds = {path: "made" if path in history.made else kind_of(path) for path in paths}
    source = [path for path, kind in kinds.items() if kind == "source"]
    if source:
        if done:
            history.patched = True
            history.edited.update(source)
            _remember_symbols(history, state.edits)
        return _I, 2
    if any(kind != "note" for kind in kinds.values()):
        if done:
            history.made.update(paths)
            _remember_scripts(history, state, paths)
        return (_V if history.patched else _E), 3
    return _O, 7


def _rewritten(history: _History, command: Command) -> tuple[str, ...]:
    """The source files that the scripts run by this line rewrite: scripts the agent made before, or in
    this line."""
    found: dict[str, None] = {}
    made: dict[str, tuple[str, ...]] = {}
    for segment in command.segments:
        if segment.group is _WRITE and segment.body is not None and len(segment.writes) == 1:
            made[segment.writes[0]] = _source_written(segment.body)
        elif segment.group is _EXECUTE:
            script = segment.arguments[0] if segment.arguments else segment.program
            found |= dict.fromkeys(made.get(script, history.scripts.get(script, ())))
    return tuple(found)


@functools.lru_cache(maxsize=64)
def _source_written(script: str) -> tuple[str, ...]:
    paths = written_paths(script, "", "")
    return tuple(path for path in paths if "/" in path and kind_of(path) == "source")


def _remember_scripts(history: _History, state: State, paths: tuple[str, ...]) -> None:
    """A script that the agent made and that opens source files for writing is its way to edit them."""
    if len(paths) == 1 and state.edits:
        source = _source_written("\n".join(edit.new for edit in state.edits))
        if source:
            history.scripts[paths[0]] = source


def _remember_symbols(history: _History, edits: tuple[Edit, ...]) -> None:
    for edit in edits:
        changed = set(edit.old.split("\n")) ^ set(edit.new.split("\n"))
        history.symbols.update(_IDENTIFIER.findall("\n".join(changed)))
    history.symbols -= _COMMON


def _remember_check(history: _History, state: State) -> None:
    if state.outcome == "error":
        history.failing_check = state.observation
    elif state.outcome == "ok":
        history.failing_check = ""


def _look(history: _History, state: State) -> Intent:
    return _V if history.patched and _concerns_the_change(history, state) else _E


def _concerns_the_change(history: _History, state: State) -> bool:
    command = state.command
    if command is None:
        return state.path is not None and _is_about(history, state, state.path, state.operation is _LIST)
    for segment in command.segments:
        if segment.program in _CHECKS_THE_CHANGE:
            return True
        if segment.pattern and not history.symbols.isdisjoint(_IDENTIFIER.findall(segment.pattern)):
            return True
        listing = segment.group is _SEARCH
        if any(_is_about(history, state, path, listing) for path in segment.reads):
            return True
    return False


def _is_about(history: _History, state: State, path: str, listing: bool) -> bool:
    if path in history.edited or path in history.made:
        return True
    if listing:
        inside = path + "/" if path else ""
        for edited in history.edited:
            if edited.startswith(inside) and (
                (parent(edited) == path and edited.rpartition("/")[2] in state.observation)
                or edited in state.observation
            ):
                return True
        return False
    return bool(path) and bool(history.failing_check) and path in history.failing_check
