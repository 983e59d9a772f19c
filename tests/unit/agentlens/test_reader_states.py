"""What the builder of states keeps of each kind of call: fields, digests, the command it stands for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.agentlens.logs import pinned, told
from workers.agentlens.formats.seen import Seen
from workers.agentlens.formats.states import StateBuilder
from workers.agentlens.shell import Command, Group, Segment
from workers.agentlens.trajectory import Lines, Operation, State

END = 1_000_000_000
Call = Callable[[StateBuilder], None]


def made(*calls: Call, root: str = "/r", **more: Any) -> list[State]:
    builder = StateBuilder(root=root, **more)
    for call in calls:
        call(builder)
    assert [state.index for state in builder.states] == list(range(len(calls)))
    return builder.states


def full() -> Seen:
    return Seen(text="seen", is_error=False, thought="why", tokens_in=7, tokens_out=3, timestamp=1.5)


FULL = {
    "tool": "t",
    "outcome": "ok",
    "observation": "seen",
    "thought": "why",
    "tokens_in": 7,
    "tokens_out": 3,
    "timestamp": 1.5,
}


@pytest.mark.parametrize(
    ("call", "expected", "payload"),
    [
        (
            lambda b: b.shell("t", "ls a", full()),
            {"operation": Operation.SHELL, "path": "a", "command": "ls a"},
            ("shell", "ls a"),
        ),
        (
            lambda b: b.python("t", "open('/r/a.py', 'w')", full()),
            {"operation": Operation.SHELL, "path": "a.py", "command": "open('/r/a.py', 'w')"},
            ("shell", "python -c open('/r/a.py', 'w')"),
        ),
        (lambda b: b.keys("t", "C-c", full()), {"operation": Operation.SHELL}, ("keys", "C-c")),
        (
            lambda b: b.view("t", "/r/a", full()),
            {"operation": Operation.VIEW, "path": "a"},
            ("view", "a", "None"),
        ),
        (
            lambda b: b.view("t", "/r/a", full(), (3, 9)),
            {"operation": Operation.VIEW, "path": "a", "lines": (3, 9)},
            ("view", "a", "(3, 9)"),
        ),
        (
            lambda b: b.view("t", "/r/a", full(), (1, -1)),
            {"operation": Operation.VIEW, "path": "a", "lines": (1, END)},
            ("view", "a", "(1, 1000000000)"),
        ),
        (
            lambda b: b.view("t", "/r/a", full(), (0, 9)),
            {"operation": Operation.VIEW, "path": "a"},
            ("view", "a", "None"),
        ),
        (
            lambda b: b.views("t", [("/r/a", "f")], full(), (4, 2)),
            {"operation": Operation.VIEW, "path": "a", "lines": (4, 4), "scope": "f"},
            ("views", "a", "f", "(4, 2)"),
        ),
        (
            lambda b: b.views("t", [("/r/a", "f"), ("b", None)], full(), (1, 2)),
            {"operation": Operation.VIEW, "path": "a", "lines": (1, 2), "command": "cat a b"},
            ("views", "a", "b", "f", "None", "(1, 2)"),
        ),
        (
            lambda b: b.views("t", [], full(), (0, 2)),
            {"operation": Operation.VIEW},
            ("views", "(0, 2)"),
        ),
        (
            lambda b: b.listing("t", "/r/d", full()),
            {"operation": Operation.LIST, "path": "d"},
            ("list", "d"),
        ),
        (
            lambda b: b.search("t", "x", "/r/d", full()),
            {"operation": Operation.SEARCH, "path": "d", "command": "grep x d"},
            ("search", "grep", "x", "d"),
        ),
        (
            lambda b: b.search("t", "x", "", full(), program="find"),
            {"operation": Operation.SEARCH, "command": "find x ."},
            ("search", "find", "x", ""),
        ),
        (
            lambda b: b.create("t", "/r/a", "x\ny\n", full()),
            {"operation": Operation.CREATE, "path": "a", "lines": (1, 2), "edits": [("", "x\ny\n")]},
            ("create", "a", "x\ny\n"),
        ),
        (
            lambda b: b.create("t", "/r/a", "", full()),
            {"operation": Operation.CREATE, "path": "a", "lines": (1, 1), "edits": [("", "")]},
            ("create", "a", ""),
        ),
        (
            lambda b: b.replace("t", "/r/a", [("1", "2"), ("3", "4")], full()),
            {"operation": Operation.REPLACE, "path": "a", "edits": [("1", "2"), ("3", "4")]},
            ("replace", "a", "1", "2", "3", "4"),
        ),
        (
            lambda b: b.replace_lines("t", "/r/a", Lines(start=2, end=3), "x", full()),
            {
                "operation": Operation.REPLACE,
                "path": "a",
                "lines": (2, 3),
                "edits": [("", "x", (2, 3))],
            },
            ("lines", "a", "2", "3", "x"),
        ),
        (
            lambda b: b.insert("t", "/r/a", 3, "x", full()),
            {"operation": Operation.INSERT, "path": "a", "lines": (3, 3), "edits": [("", "x", (3, 3))]},
            ("insert", "a", "3", "x"),
        ),
        (
            lambda b: b.insert("t", "/r/a", None, "x", full()),
            {"operation": Operation.INSERT, "path": "a", "edits": [("", "x")]},
            ("insert", "a", "None", "x"),
        ),
        (
            lambda b: b.undo("t", "/r/a", full()),
            {"operation": Operation.UNDO, "path": "a"},
            ("undo", "a"),
        ),
        (
            lambda b: b.patch("t", "", full()),
            {"operation": Operation.PATCH, "command": "apply_patch"},
            ("patch", ""),
        ),
        (
            lambda b: b.other("t", "x", full()),
            {"operation": Operation.SHELL, "command": "t x"},
            ("tool", "t", "x"),
        ),
        (lambda b: b.note("t", Operation.THINK, full(), "x"), {"operation": Operation.THINK}, ("think",)),
        (
            lambda b: b.note("t", Operation.BROWSE, full(), "x"),
            {"operation": Operation.BROWSE},
            ("browse", "x"),
        ),
        (lambda b: b.note("t", Operation.BROWSE, full()), {"operation": Operation.BROWSE}, ("browse", "")),
    ],
)
def test_a_call_keeps_all_that_is_known_of_it(
    call: Call, expected: dict[str, Any], payload: tuple[str, ...]
) -> None:
    (state,) = made(call)
    assert told(state) == {**FULL, **expected}
    assert state.content_digest == pinned(*payload)


def command(text: str, segment: Segment, normal: str | None = None) -> Command:
    return Command(
        text=text,
        normal=text if normal is None else normal,
        segments=(segment,),
        strongest=segment,
        directory="lib",
    )


DIFF = "--- a/x.py\n+++ b/x.py\n@@ -3 +3 @@ def f():\n-    one\n+    two\n"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (
            lambda b: b.views("t", [("/r/a", None), ("b", None)], full()),
            command(
                "cat a b",
                Segment(
                    program="cat", group=Group.READ, arguments=("a", "b"), reads=("a", "b"), target="a b"
                ),
            ),
        ),
        (
            lambda b: b.search("t", "x", "/r/d", full(), program="find"),
            command(
                "find x d",
                Segment(
                    program="find",
                    group=Group.SEARCH,
                    arguments=("x", "d"),
                    reads=("d",),
                    pattern="x",
                    target="x in d",
                ),
            ),
        ),
        (
            lambda b: b.search("t", "x", "", full()),
            command(
                "grep x .",
                Segment(
                    program="grep",
                    group=Group.SEARCH,
                    arguments=("x", ""),
                    reads=("",),
                    pattern="x",
                    target="x in .",
                ),
            ),
        ),
        (
            lambda b: b.patch("t", "*** Update File: x.py\n*** Add File: y.py\n+y", full()),
            command(
                "apply_patch",
                Segment(
                    program="apply_patch",
                    group=Group.WRITE,
                    writes=("lib/x.py", "lib/y.py"),
                    target="lib/x.py lib/y.py",
                    body="*** Update File: x.py\n*** Add File: y.py\n+y",
                ),
                "apply_patch\n*** Update File: x.py\n*** Add File: y.py\n+y",
            ),
        ),
        (
            lambda b: b.patch("t", "", full()),
            command(
                "apply_patch",
                Segment(program="apply_patch", group=Group.WRITE, writes=("",), body=""),
                "apply_patch\n",
            ),
        ),
        (
            lambda b: b.other("t", "x", full()),
            command("t x", Segment(program="t", group=Group.ENVIRONMENT, arguments=("x",))),
        ),
        (
            lambda b: b.other("t", "", full()),
            command("t ", Segment(program="t", group=Group.ENVIRONMENT)),
        ),
    ],
)
def test_a_call_stands_for_a_command(call: Call, expected: Command) -> None:
    (state,) = made(call, directory="lib")
    assert state.command == expected


def test_a_patch_is_its_edits_in_the_folder_of_the_session() -> None:
    (state,) = made(lambda b: b.patch("t", DIFF, full()), directory="lib")
    assert told(state) == {
        **FULL,
        "operation": Operation.PATCH,
        "path": "lib/x.py",
        "lines": (3, 3),
        "scope": "f",
        "command": "apply_patch",
        "edits": [("    one", "    two", (3, 3), "lib/x.py")],
    }
    assert state.content_digest == pinned("patch", DIFF)


def test_a_diff_of_a_file_that_the_log_names_is_a_replacement() -> None:
    (state,) = made(lambda b: b.patch_file("t", "/r/y.py", DIFF, None, full()))
    assert told(state) == {
        **FULL,
        "operation": Operation.REPLACE,
        "path": "y.py",
        "lines": (3, 3),
        "scope": "f",
        "edits": [("    one", "    two", (3, 3), "y.py")],
    }
    assert state.content_digest == pinned("replace", "y.py", DIFF)
    (named,) = made(lambda b: b.patch_file("t", "y.py", DIFF, "g", Seen(text="Error: no")))
    assert (named.scope, named.outcome) == ("g", "ok")
    (failed,) = made(lambda b: b.patch_file("t", "y.py", DIFF, "g", Seen(is_error=True)))
    assert failed.outcome == "error"


def test_a_shell_keeps_its_folder_or_starts_anew() -> None:
    calls = (
        lambda b: b.shell("t", "cd sub && cat a", Seen()),
        lambda b: b.shell("t", "cat a", Seen()),
        lambda b: b.shell("t", "cat a", Seen(directory="else")),
        lambda b: b.shell("t", "cat a", Seen()),
        lambda b: b.shell("t", "cat a", Seen(directory="")),
        lambda b: b.python("t", "open('a', 'w')", Seen()),
        lambda b: b.view("t", "a", Seen()),
    )
    kept = made(*calls, directory="lib")
    assert [state.path for state in kept] == [
        "lib/sub/a",
        "lib/sub/a",
        "else/a",
        "else/a",
        "a",
        "a",
        "a",
    ]
    fresh = made(*calls, directory="lib", keeps_directory=False)
    assert [state.path for state in fresh] == ["lib/sub/a", "lib/a", "else/a", "lib/a", "a", "lib/a", "a"]
    assert StateBuilder().directory == ""
    assert StateBuilder().root == ""
    assert StateBuilder().keeps_directory is True


def test_a_line_that_shows_or_changes_lines_keeps_them() -> None:
    (shown,) = made(lambda b: b.shell("t", "sed -n '3,9p' a.py", Seen(text="x")))
    assert (shown.path, shown.lines) == ("a.py", Lines(start=3, end=9))
    (looked,) = made(lambda b: b.shell("t", "ls /r", Seen(text="x")))
    assert looked.path is None
    view: Call = lambda b: b.view("t", "a.py", Seen(text="def f():\n    one\n    two"))  # noqa: E731
    change: Call = lambda b: b.shell("t", "sed -i 's/one/three/' a.py", Seen(exit_code=0))  # noqa: E731
    failed: Call = lambda b: b.shell("t", "sed -i 's/one/three/' a.py", Seen(exit_code=1))  # noqa: E731
    (_, changed) = made(view, change)
    assert told(changed) == {
        "tool": "t",
        "operation": Operation.SHELL,
        "path": "a.py",
        "lines": (2, 2),
        "scope": "f",
        "command": "sed -i 's/one/three/' a.py",
        "edits": [("one", "three", (2, 2))],
        "outcome": "ok",
        "exit_code": 0,
    }
    (_, failing) = made(view, failed)
    assert (failing.lines, failing.scope, failing.outcome) == (None, None, "error")
    cat: Call = lambda b: b.shell("t", "cat a.py", Seen(text="def f():\n    one\n    two"))  # noqa: E731
    part: Call = lambda b: b.shell("t", "sed -n '8,9p' a.py", Seen(text="def f():\n    one"))  # noqa: E731
    assert made(cat, change)[1].lines == Lines(start=2, end=2)
    assert made(part, change)[1].lines == Lines(start=9, end=9)


def test_an_edit_of_seen_lines_knows_where_it_stood_and_what_encloses_it() -> None:
    text = "def f():\n    one\n    two\n"
    view: Call = lambda b: b.view("t", "/r/a.py", Seen(text=text), (5, 7))  # noqa: E731
    whole: Call = lambda b: b.create("t", "/r/a.py", text, Seen(is_error=False))  # noqa: E731
    refused: Call = lambda b: b.create("t", "/r/a.py", text, Seen(is_error=True))  # noqa: E731

    def replaced(seen: Seen) -> Call:
        return lambda b: b.replace("t", "a.py", [("    two", "    x"), ("    one", "    y")], seen)

    def lined(seen: Seen) -> Call:
        return lambda b: b.replace_lines("t", "a.py", Lines(start=2, end=3), "    one\n    x", seen)

    def inserted(seen: Seen) -> Call:
        return lambda b: b.insert("t", "a.py", 2, "    x", seen)

    done, failed = Seen(is_error=False), Seen(is_error=True)
    (_, state) = made(view, replaced(done))
    assert (state.lines, state.scope) == (Lines(start=7, end=7), "f")
    assert told(state)["edits"] == [("    two", "    x", (7, 7)), ("    one", "    y", (6, 6))]
    (_, state) = made(whole, replaced(done))
    assert (state.lines, state.scope) == (Lines(start=3, end=3), "f")
    for before in (made(refused, replaced(done)), made(whole, replaced(failed))):
        assert (before[1].lines, before[1].scope) == (None, None)
    (_, state) = made(whole, lined(done))
    assert (told(state)["edits"], state.scope) == (
        [("    one\n    two", "    one\n    x", (2, 3))],
        "f",
    )
    (_, state) = made(whole, lined(failed))
    assert (told(state)["edits"], state.scope) == (
        [("    one\n    two", "    one\n    x", (2, 3))],
        None,
    )
    (_, state) = made(whole, inserted(done))
    assert (state.lines, state.scope) == (Lines(start=2, end=2), "f")
    assert made(whole, inserted(failed))[1].scope is None
    undo: Call = lambda b: b.undo("t", "/r/a.py", done)  # noqa: E731
    assert made(whole, undo, replaced(done))[2].lines is None
    at_top: Call = lambda b: b.insert("t", "a.py", 0, "    x", done)  # noqa: E731
    assert made(whole, at_top)[1].scope is None


def test_an_insertion_takes_the_lines_that_its_answer_shows() -> None:
    said = Seen(is_error=False, text="     1\tdef g():\n     2\t    one\n     3\t    x\n     4\tdef h():")
    (state,) = made(lambda b: b.insert("t", "a.py", 2, "    x", said))
    assert state.scope == "g"
