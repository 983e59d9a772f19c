"""Calls by name and arguments: which state each becomes, under every name that agents give their arguments."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from tests.unit.agentlens.logs import only, pinned, told
from workers.agentlens.formats.seen import Seen
from workers.agentlens.formats.states import StateBuilder
from workers.agentlens.formats.tools import add_call
from workers.agentlens.trajectory import Operation

END = 1_000_000_000


def shell(text: str, **more: Any) -> dict[str, Any]:
    return {"tool": "bash", "operation": Operation.SHELL, "command": text, **more}


KEYS = {"tool": "bash", "operation": Operation.SHELL}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"command": "pwd", "cmd": "ls a"}, shell("pwd")),
        ({"cmd": "pwd"}, shell("pwd")),
        ({"raw_action": "pwd"}, shell("pwd")),
        ({"command": ["bash", "-lc", "pwd"]}, shell("pwd")),
        ({"command": ["bash", "-c", "pwd"]}, shell("pwd")),
        ({"command": ["bash", "-ic", "pwd"]}, shell("pwd")),
        ({"command": ["bash", "-x", "pwd"]}, shell("bash -x pwd")),
        ({"command": ["echo", "-c", "a", "b"]}, shell("echo -c a b")),
        ({"command": ["cat", 5, "a b"]}, shell("cat 'a b'", path="a b")),
        ({"keystrokes": "pwd\n\n"}, shell("pwd\n")),
        ({"keystrokes": "C-c"}, KEYS),
        ({"command": "pwd", "keystrokes": "ls\n"}, shell("pwd")),
        ({"script": "pwd"}, shell("pwd")),
        ({"input": "pwd"}, shell("pwd")),
        ({"code": "pwd"}, shell("pwd")),
        ({"bash": "pwd"}, shell("pwd")),
        ({"shell_command": "pwd"}, shell("pwd")),
        ({"cmdline": "pwd"}, shell("pwd")),
        ({"command": 5}, shell('bash {"command": 5}')),
        ({}, shell("bash {}")),
        ({"command": "pwd", "is_input": True}, KEYS),
        ({"command": "pwd", "is_input": "true"}, KEYS),
        ({"command": "pwd", "is_input": "false"}, shell("pwd")),
        ({"command": " "}, KEYS),
        ({"command": "^C"}, KEYS),
        ({"command": "cat a", "workdir": "/r/lib"}, shell("cat a", path="lib/a")),
        ({"command": "cat a", "cwd": "lib"}, shell("cat a", path="lib/a")),
        ({"command": "cat a", "workdir": 5}, shell("cat a", path="a")),
        ('{"command": "pwd"}', shell("pwd")),
        ("pwd", shell("bash pwd")),
        ("[1]", shell("bash [1]")),
        (None, shell("bash null")),
        (5, shell("bash 5")),
        ({"b": datetime.date(2024, 1, 2), "a": 1}, shell('bash {"a": 1, "b": "2024-01-02"}')),
    ],
)
def test_a_shell_call_is_its_line(arguments: Any, expected: dict[str, Any]) -> None:
    assert told(only("bash", arguments)) == expected


def test_keys_are_told_apart_by_what_was_pressed() -> None:
    for name in ("chars", "input", "keys"):
        assert only("write_stdin", {name: "y"}).content_digest == pinned("keys", "y")
    assert only("write_stdin", {}).content_digest == pinned("keys", "")
    assert only("bash", {"command": "C-c"}).content_digest == pinned("keys", "C-c")
    assert told(only("write_stdin", {"chars": "y"}, text="ok")) == {
        "tool": "write_stdin",
        "operation": Operation.SHELL,
        "observation": "ok",
    }


@pytest.mark.parametrize("name", ["code", "script", "source", "command"])
def test_a_cell_is_a_script(name: str) -> None:
    assert told(only("ipython", {name: "open('/r/a.py', 'w')"}, text="x")) == {
        "tool": "ipython",
        "operation": Operation.SHELL,
        "path": "a.py",
        "command": "open('/r/a.py', 'w')",
        "observation": "x",
    }


@pytest.mark.parametrize(
    "name",
    ["Bash", "functions.bash", "a.b.BASH", "execute-bash", "run_in_terminal", "swe_agent_action"],
)
def test_a_name_is_known_with_its_namespace_in_any_case_and_with_dashes(name: str) -> None:
    assert told(only(name, {"command": "pwd"})) == shell("pwd", tool=name)


PATHS = [
    "path",
    "file_path",
    "filePath",
    "absolute_path",
    "target_file",
    "filename",
    "file",
    "notebook_path",
    "target_directory",
    "relative_workspace_path",
    "directory",
    "dir_path",
    "dir",
    "folder",
    "pathInProject",
]


@pytest.mark.parametrize("name", PATHS)
def test_a_path_has_many_names(name: str) -> None:
    assert told(only("read", {name: "/r/a.py"})) == {
        "tool": "read",
        "operation": Operation.VIEW,
        "path": "a.py",
    }
    assert only("ls", {name: "/r/a"}).path == "a"
    assert only("grep", {"pattern": "x", name: "/r/a"}).path == "a"


@pytest.mark.parametrize("name", ["path", *PATHS[5:]])
def test_a_search_for_files_looks_in_a_folder(name: str) -> None:
    assert told(only("glob", {"pattern": "*.py", name: "/r/a"})) == {
        "tool": "glob",
        "operation": Operation.SEARCH,
        "path": "a",
        "command": "find *.py a",
    }
    assert only("glob", {"pattern": "*.py", "file_path": "/r/a"}).path is None


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"view_range": [3]}, (3, END)),
        ({"view_range": [3, None]}, (3, END)),
        ({"view_range": ["x", 9]}, None),
        ({"view_range": [0, 9]}, None),
        ({"view_range": [9, 3]}, (9, END)),
        ({"view_range": "3 to 9"}, (3, 9)),
        ({"view_range": "[12, -1]"}, (12, END)),
        ({"view_range": [], "start_line": 2}, (2, END)),
        ({"start_line": 1, "end_line": 4}, (1, 4)),
        ({"startLine": 2, "endLine": 4}, (2, 4)),
        ({"start_line_one_indexed": 2, "end_line_one_indexed_inclusive": 4}, (2, 4)),
        ({"start": 2, "end": 4}, (2, 4)),
        ({"start_line": 0, "start": 5, "end": 6}, (5, 6)),
        ({"offset": 10}, (10, END)),
        ({"limit": 5}, (1, 5)),
        ({"offset": 0, "limit": 5}, (1, 5)),
        ({"offset": 2, "limit": 1}, (2, 2)),
        ({"offset": 3, "limit": 0}, (3, END)),
        ({"offset": "3"}, None),
    ],
)
def test_a_look_at_lines_has_many_forms(arguments: dict[str, Any], lines: Any) -> None:
    expected = {"tool": "read", "operation": Operation.VIEW, "path": "a.py", "lines": lines}
    state = only("read", {"path": "a.py", **arguments})
    assert told(state) == {name: value for name, value in expected.items() if value is not None}


EDITOR = "str_replace_editor"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"command": "view"}, {"operation": Operation.VIEW}),
        ({"cmd": "view", "view_range": [1, 2]}, {"operation": Operation.VIEW, "lines": (1, 2)}),
        (
            {"command": "create", "file_text": "x\ny"},
            {"operation": Operation.CREATE, "lines": (1, 2), "edits": [("", "x\ny")]},
        ),
        (
            {"command": "write", "content": "x"},
            {"operation": Operation.CREATE, "lines": (1, 1), "edits": [("", "x")]},
        ),
        ({"command": "str_replace", "old_str": "x"}, {"operation": Operation.REPLACE, "edits": [("x", "")]}),
        ({"command": "replace", "new_str": "x"}, {"operation": Operation.REPLACE, "edits": [("", "x")]}),
        (
            {"command": "edit", "old_str": "x", "new_str": "y"},
            {"operation": Operation.REPLACE, "edits": [("x", "y")]},
        ),
        (
            {"command": "insert", "insert_line": 3, "new_str": "x"},
            {"operation": Operation.INSERT, "lines": (3, 3), "edits": [("", "x", (3, 3))]},
        ),
        ({"command": "undo_edit"}, {"operation": Operation.UNDO}),
        ({"command": "undo"}, {"operation": Operation.UNDO}),
    ],
)
def test_an_editor_does_what_its_command_says(arguments: dict[str, Any], expected: dict[str, Any]) -> None:
    state = only(EDITOR, {**arguments, "path": "/r/a.py"}, text="said")
    outcome = {"outcome": "ok"} if expected["operation"] is Operation.VIEW else {}
    assert told(state) == {"tool": EDITOR, "path": "a.py", "observation": "said", **outcome, **expected}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        (EDITOR, {"command": "fly", "path": "a"}),
        (EDITOR, {"path": "a"}),
        (EDITOR, {"command": "undo_edit"}),
        ("read", {"path": 5}),
        ("create", {"content": "x"}),
        ("edit", {"old_string": "x"}),
        ("insert", {"path": "a"}),
        ("insert", {"text": "x"}),
        ("apply_patch", {}),
        ("grep", {"path": "a"}),
        ("glob", {"path": "a"}),
        ("ipython", {}),
    ],
)
def test_a_call_without_what_it_needs_touches_nothing_and_is_told(
    name: str, arguments: dict[str, Any]
) -> None:
    builder = StateBuilder()
    add_call(builder, name, arguments, Seen(text="Error: what"))
    (state,) = builder.states
    assert (state.tool, state.operation, state.path, state.outcome) == (name, Operation.SHELL, None, "error")
    assert builder.warnings == (f"unknown tool {name!r} (1 calls) counted as a step that touches nothing",)


@pytest.mark.parametrize("name", ["file_text", "content", "contents", "text", "code_edit", "new_source"])
def test_what_is_written_has_many_names(name: str) -> None:
    assert told(only("write", {"file_path": "/r/a.py", name: "x"})) == {
        "tool": "write",
        "operation": Operation.CREATE,
        "path": "a.py",
        "lines": (1, 1),
        "edits": [("", "x")],
    }


def test_a_file_may_be_created_empty() -> None:
    state = only("write", {"file_path": "/r/a.py"})
    assert (told(state)["edits"], state.content_digest) == ([("", "")], pinned("create", "a.py", ""))


@pytest.mark.parametrize(
    "old", ["old_str", "old_string", "oldString", "old_text", "search", "old", "old_content"]
)
@pytest.mark.parametrize(
    "new", ["new_str", "new_string", "newString", "new_text", "replace", "new", "new_content", "new_source"]
)
def test_what_is_replaced_has_many_names(old: str, new: str) -> None:
    expected = {"tool": "Edit", "operation": Operation.REPLACE, "path": "a.py", "edits": [("x", "y")]}
    assert told(only("Edit", {"path": "/r/a.py", old: "x", new: "y"})) == expected
    assert told(only("Edit", {"path": "/r/a.py", "edits": [{old: "x", new: "y"}, "z"]})) == expected


@pytest.mark.parametrize(
    ("name", "arguments", "seen", "expected"),
    [
        ("Edit", {"new_string": "y"}, {}, (Operation.CREATE, [("", "y")], "unknown")),
        ("multiedit", {"new_string": "y"}, {}, (Operation.CREATE, [("", "y")], "unknown")),
        ("replace", {}, {}, (Operation.CREATE, [("", "")], "unknown")),
        ("Edit", {"old_string": "", "new_string": "y"}, {}, (Operation.CREATE, [("", "y")], "unknown")),
        ("Edit", {"new_string": "y"}, {"is_error": False}, (Operation.CREATE, [("", "y")], "ok")),
        ("Edit", {"new_string": "y"}, {"is_error": True}, (Operation.REPLACE, [("", "y")], "error")),
        ("Edit", {"new_string": "y"}, {"text": "No such file"}, (Operation.REPLACE, [("", "y")], "error")),
        ("Edit", {"old_string": "x"}, {"is_error": True}, (Operation.REPLACE, [("x", "")], "error")),
        ("str_replace", {"new_str": "y"}, {}, (Operation.REPLACE, [("", "y")], "unknown")),
        ("str_replace", {}, {}, (Operation.REPLACE, [("", "")], "unknown")),
        ("Edit", {"edits": [{}]}, {}, (Operation.REPLACE, [("", "")], "unknown")),
    ],
)
def test_an_empty_old_text_makes_a_file_unless_that_failed(
    name: str, arguments: dict[str, Any], seen: dict[str, Any], expected: tuple[Any, ...]
) -> None:
    state = only(name, {"path": "/r/a.py", **arguments}, **seen)
    assert (state.operation, told(state)["edits"], state.outcome) == expected
    assert (state.tool, state.path) == (name, "a.py")


@pytest.mark.parametrize("text", ["new_str", "text", "content", "insert_text", "new_string"])
@pytest.mark.parametrize("line", ["insert_line", "line", "line_number"])
def test_an_insertion_has_many_names(text: str, line: str) -> None:
    assert told(only("insert", {"path": "/r/a.py", text: "x", line: 3})) == {
        "tool": "insert",
        "operation": Operation.INSERT,
        "path": "a.py",
        "lines": (3, 3),
        "edits": [("", "x", (3, 3))],
    }


def test_an_insertion_may_not_say_where() -> None:
    assert told(only("insert", {"path": "/r/a.py", "text": "x"})) == {
        "tool": "insert",
        "operation": Operation.INSERT,
        "path": "a.py",
        "edits": [("", "x")],
    }


PATCH = "*** Begin Patch\n*** Add File: a.py\n+x\n*** End Patch"


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("apply_patch", PATCH),
        ("functions.apply-patch", "\n" + PATCH),
        ("applypatch", PATCH),
        *(("apply_diff", {key: PATCH}) for key in ("patch", "input", "diff", "patch_text", "patchText")),
        ("apply_patch", {"input": PATCH}),
        ("apply_patch", ' {"input": "*** Begin Patch\\n*** Add File: a.py\\n+x\\n*** End Patch"}'),
    ],
)
def test_a_patch_may_be_the_argument_itself(name: str, arguments: Any) -> None:
    state = told(only(name, arguments, text="Done!"))
    assert (state["tool"], state["operation"], state["path"]) == (name, Operation.PATCH, "a.py")
    assert (state["outcome"], state["observation"], state["command"]) == ("ok", "Done!", "apply_patch")
    assert [edit[:2] for edit in state["edits"]] == [("", "x")]


@pytest.mark.parametrize("name", ["pattern", "query", "regex", "search_term", "search_query", "text", "q"])
def test_what_is_searched_for_has_many_names(name: str) -> None:
    assert told(only("grep", {name: "x"}, text="a:1")) == {
        "tool": "grep",
        "operation": Operation.SEARCH,
        "command": "grep x .",
        "outcome": "ok",
        "observation": "a:1",
    }


@pytest.mark.parametrize("name", ["pattern", "glob_pattern", "file_name", "query", "name", "glob"])
def test_which_file_is_looked_for_has_many_names(name: str) -> None:
    assert told(only("find", {name: "x"}, text="a")) == {
        "tool": "find",
        "operation": Operation.SEARCH,
        "command": "find x .",
        "outcome": "ok",
        "observation": "a",
    }


def test_a_listing_without_a_folder_is_of_the_root() -> None:
    nothing: tuple[Any, ...] = ({}, " ", None)
    for arguments in nothing:
        state = only("ls", arguments, text="a")
        assert (told(state), state.content_digest) == (
            {"tool": "ls", "operation": Operation.LIST, "path": "", "outcome": "ok", "observation": "a"},
            pinned("list", ""),
        )


def test_a_look_at_a_folder_is_a_listing() -> None:
    shown = "Here's the files and directories up to 2 levels deep in /r/lib"
    assert told(only("view", {"path": "/r/lib"}, text=shown)) == {
        "tool": "view",
        "operation": Operation.LIST,
        "path": "lib",
        "outcome": "ok",
        "observation": shown,
    }


@pytest.mark.parametrize("arguments", [{"url": "x"}, '{"url": "x"}', "no JSON", "[1]", 5, None])
@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("think", Operation.THINK),
        ("TodoWrite", Operation.PLAN),
        ("submit", Operation.FINISH),
        ("AskUserQuestion", Operation.MESSAGE),
        ("WebFetch", Operation.BROWSE),
        ("Task", Operation.DELEGATE),
    ],
)
def test_a_note_needs_no_arguments(name: str, operation: Operation, arguments: Any) -> None:
    builder = StateBuilder()
    add_call(builder, name, arguments, Seen(text="noted"))
    (state,) = builder.states
    assert told(state) == {"tool": name, "operation": operation, "outcome": "ok", "observation": "noted"}
    given = '{"url": "x"}' if arguments in ({"url": "x"}, '{"url": "x"}') else "{}"
    parts = (operation.value, given) if operation is Operation.BROWSE else (operation.value,)
    assert (state.content_digest, builder.warnings) == (pinned(*parts), ())
