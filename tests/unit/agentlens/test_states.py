"""The states that tool calls become: what each keeps, and which calls are the same step."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from workers.agentlens.formats.seen import Seen
from workers.agentlens.formats.states import StateBuilder
from workers.agentlens.trajectory import Lines, Operation, State

DONE = Seen(text="done", is_error=False)
Call = Callable[[StateBuilder], None]


def made(*calls: Call, root: str = "/r") -> list[State]:
    builder = StateBuilder(root=root)
    for call in calls:
        call(builder)
    return list(builder.states)


CALLS: dict[str, Call] = {
    "view a": lambda b: b.view("t", "/r/a.py", DONE),
    "view b": lambda b: b.view("t", "/r/b.py", DONE),
    "view a 3-9": lambda b: b.view("t", "/r/a.py", DONE, (3, 9)),
    "list d": lambda b: b.listing("t", "/r/d", DONE),
    "list e": lambda b: b.listing("t", "/r/e", DONE),
    "grep x d": lambda b: b.search("t", "x", "/r/d", DONE),
    "grep y d": lambda b: b.search("t", "y", "/r/d", DONE),
    "grep x e": lambda b: b.search("t", "x", "/r/e", DONE),
    "find x d": lambda b: b.search("t", "x", "/r/d", DONE, program="find"),
    "create a 1": lambda b: b.create("t", "/r/a.py", "1", DONE),
    "create a 2": lambda b: b.create("t", "/r/a.py", "2", DONE),
    "create b 1": lambda b: b.create("t", "/r/b.py", "1", DONE),
    "replace a 1 2": lambda b: b.replace("t", "/r/a.py", [("1", "2")], DONE),
    "replace a 1 3": lambda b: b.replace("t", "/r/a.py", [("1", "3")], DONE),
    "replace b 1 2": lambda b: b.replace("t", "/r/b.py", [("1", "2")], DONE),
    "lines a 1-2": lambda b: b.replace_lines("t", "/r/a.py", Lines(start=1, end=2), "x", DONE),
    "lines a 2-2": lambda b: b.replace_lines("t", "/r/a.py", Lines(start=2, end=2), "x", DONE),
    "lines a 1-3": lambda b: b.replace_lines("t", "/r/a.py", Lines(start=1, end=3), "x", DONE),
    "lines a 1-2 y": lambda b: b.replace_lines("t", "/r/a.py", Lines(start=1, end=2), "y", DONE),
    "insert a 3 x": lambda b: b.insert("t", "/r/a.py", 3, "x", DONE),
    "insert a 4 x": lambda b: b.insert("t", "/r/a.py", 4, "x", DONE),
    "insert a 3 y": lambda b: b.insert("t", "/r/a.py", 3, "y", DONE),
}


def test_every_two_calls_that_differ_have_different_content_and_equal_ones_the_same() -> None:
    digests = {name: made(call)[0].content_digest for name, call in CALLS.items()}
    assert len(set(digests.values())) == len(CALLS)
    assert digests == {name: made(call)[0].content_digest for name, call in CALLS.items()}


@pytest.mark.parametrize(
    ("name", "operation", "path", "lines"),
    [
        ("view a", Operation.VIEW, "a.py", None),
        ("view a 3-9", Operation.VIEW, "a.py", Lines(start=3, end=9)),
        ("list d", Operation.LIST, "d", None),
        ("grep x d", Operation.SEARCH, "d", None),
        ("create a 1", Operation.CREATE, "a.py", Lines(start=1, end=1)),
        ("lines a 1-2", Operation.REPLACE, "a.py", Lines(start=1, end=2)),
    ],
)
def test_a_call_keeps_its_operation_its_path_and_its_lines(
    name: str, operation: Operation, path: str, lines: Lines | None
) -> None:
    (state,) = made(CALLS[name])
    assert (state.tool, state.operation, state.path, state.lines) == ("t", operation, path, lines)
    assert (state.outcome, state.observation) == ("ok", "done")


def test_the_first_line_alone_is_a_range() -> None:
    (state,) = made(lambda b: b.view("t", "a.py", DONE, (1, 1)))
    assert state.lines == Lines(start=1, end=1)


def test_a_search_is_the_command_that_it_stands_for() -> None:
    (state,) = made(CALLS["grep x d"])
    assert state.command is not None
    strongest = state.command.strongest
    assert (strongest.program, strongest.pattern, strongest.reads) == ("grep", "x", ("d",))
    assert (strongest.target, state.command.text) == ("x in d", "grep x d")
    (everywhere,) = made(lambda b: b.search("t", "x", "/r", DONE))
    assert everywhere.command is not None
    assert (everywhere.command.text, everywhere.command.strongest.target) == ("grep x .", "x in .")


def test_what_was_created_or_seen_gives_the_text_of_lines_that_are_replaced() -> None:
    created: Call = lambda b: b.create("t", "/r/a.py", "one\ntwo\nthree\n", DONE)  # noqa: E731
    (_, state) = made(created, CALLS["lines a 2-2"])
    assert [(edit.old, edit.new) for edit in state.edits] == [("two", "x")]
    (_, state) = made(created, CALLS["lines a 1-2"])
    assert [(edit.old, edit.new) for edit in state.edits] == [("one\ntwo", "x")]
    assert [(edit.old, edit.new) for edit in made(created)[0].edits] == [("", "one\ntwo\nthree\n")]


def test_a_cell_and_a_line_run_in_the_repository_of_the_log() -> None:
    cell, line = made(
        lambda b: b.python("t", "open('/r/a.py', 'w')", DONE), lambda b: b.shell("t", "cat /r/b.py", DONE)
    )
    assert cell.command is not None
    assert line.command is not None
    assert (cell.command.writes, line.command.reads) == (("a.py",), ("b.py",))
