"""How calls ended, what of an observation is kept, and what the builder of states warns of."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.agentlens.logs import only, pinned, told
from workers.agentlens.formats.seen import Seen, whole_observations
from workers.agentlens.formats.states import StateBuilder
from workers.agentlens.trajectory import Lines, Operation, State

Call = Callable[[StateBuilder], None]


def made(*calls: Call) -> list[State]:
    builder = StateBuilder(root="/r")
    for call in calls:
        call(builder)
    return builder.states


@pytest.mark.parametrize(
    ("line", "seen", "outcome", "code"),
    [
        ("make", {"exit_code": 0}, "ok", 0),
        ("make", {"exit_code": 2}, "error", 2),
        ("make", {"exit_code": 0, "is_error": True}, "ok", 0),
        ("make", {"exit_code": 1, "is_error": False}, "error", 1),
        ("make", {"exit_code": -1, "is_error": True}, "error", -1),
        ("make", {"exit_code": -1}, "unknown", -1),
        ("make", {"text": "<returncode>3</returncode>"}, "error", 3),
        ("make", {"text": "<returncode>3</returncode>", "exit_code": 0}, "ok", 0),
        ("make", {"is_error": True}, "error", None),
        ("make", {"is_error": False}, "ok", None),
        ("make", {"is_error": False, "text": "bash: make: command not found"}, "ok", None),
        ("make", {"text": "bash: make: command not found"}, "error", None),
        ("make", {"text": "made"}, "unknown", None),
        ("pytest | tail", {"exit_code": 0, "text": "1 failed"}, "error", 0),
        ("pytest | tail", {"exit_code": 0, "text": "1 passed"}, "ok", 0),
        ("pytest", {"exit_code": 1, "text": "1 passed"}, "error", 1),
        ("pytest", {"text": "1 passed"}, "ok", None),
    ],
)
def test_a_line_ends_as_its_code_then_its_flag_then_its_text_says(
    line: str, seen: dict[str, Any], outcome: str, code: int | None
) -> None:
    (state,) = made(lambda b: b.shell("t", line, Seen(**seen)))
    assert (state.outcome, state.exit_code) == (outcome, code)


@pytest.mark.parametrize(
    ("seen", "look", "edit"),
    [
        ({"is_error": True}, "error", "error"),
        ({"is_error": False, "text": "ERROR"}, "ok", "ok"),
        ({}, "unknown", "unknown"),
        ({"text": "x"}, "ok", "unknown"),
        ({"text": "ERROR: x"}, "error", "error"),
        ({"text": "Error x"}, "error", "unknown"),
        ({"text": "<tool_use_error>"}, "error", "error"),
        ({"text": "Invalid `path`"}, "error", "error"),
        ({"text": "an Error: x"}, "ok", "error"),
        ({"text": "File updated"}, "ok", "ok"),
        ({"text": "File saved\ncat -n\nError: x"}, "ok", "ok"),
        ({"text": "cat -n\nDone!"}, "ok", "unknown"),
        ({"text": "cat -n\nDone!\ncat -n"}, "ok", "unknown"),
    ],
)
def test_a_look_and_an_edit_end_as_the_flag_or_the_answer_says(
    seen: dict[str, Any], look: str, edit: str
) -> None:
    calls: list[Call] = [
        lambda b: b.view("t", "a", Seen(**seen)),
        lambda b: b.views("t", [("a", None)], Seen(**seen)),
        lambda b: b.listing("t", "a", Seen(**seen)),
        lambda b: b.search("t", "a", "", Seen(**seen)),
        lambda b: b.other("t", "a", Seen(**seen)),
        lambda b: b.create("t", "a", "", Seen(**seen)),
        lambda b: b.replace("t", "a", [("", "x")], Seen(**seen)),
        lambda b: b.replace_lines("t", "a", Lines(start=1, end=1), "x", Seen(**seen)),
        lambda b: b.insert("t", "a", 1, "x", Seen(**seen)),
        lambda b: b.undo("t", "a", Seen(**seen)),
        lambda b: b.patch("t", "a", Seen(**seen)),
    ]
    assert [state.outcome for state in made(*calls)] == [look] * 5 + [edit] * 6
    (note,) = made(lambda b: b.note("t", Operation.THINK, Seen(**seen)))
    assert note.outcome == (look if seen.get("text") else "unknown")


def test_an_observation_is_cut_unless_it_is_shown() -> None:
    long = "x" * 20_001
    (state,) = made(lambda b: b.view("t", "a", Seen(text=long)))
    assert state.observation == "x" * 20_000
    with whole_observations():
        (state,) = made(lambda b: b.view("t", "a", Seen(text=long)))
        assert state.observation == long
    (state,) = made(lambda b: b.view("t", "a", Seen(text=long[1:])))
    assert state.observation == "x" * 20_000


def test_the_warnings_are_notices_then_unknown_tools_by_name_then_that_nothing_was_done() -> None:
    builder = StateBuilder()
    assert builder.warnings == ("no tool calls",)
    builder.notices.append("notice")
    assert builder.warnings == ("notice", "no tool calls")
    for tool in ("b", "a", "b"):
        builder.other(tool, "", Seen())
    assert builder.warnings == (
        "notice",
        "unknown tool 'a' (1 calls) counted as a step that touches nothing",
        "unknown tool 'b' (2 calls) counted as a step that touches nothing",
    )


def test_arguments_that_hold_themselves_are_no_text() -> None:
    circle: dict[str, Any] = {}
    circle["a"] = circle
    assert told(only("what", circle)) == {
        "tool": "what",
        "operation": Operation.SHELL,
        "command": "what ",
    }
    assert only("bash", "[" * 100_000).tool == "bash"


def test_a_call_without_a_name_is_told_apart_by_its_arguments() -> None:
    state = only("", {"b": 1, "a": 2})
    assert state.command is not None
    assert state.command.text == ' {"a": 2, "b": 1}'
    assert state.content_digest == pinned("tool", "", '{"a": 2, "b": 1}')


def test_a_lone_surrogate_of_a_call_has_a_digest() -> None:
    # Half of a pair is three bytes, as in WTF-8.
    expected = hashlib.blake2b(b"keys\0\xed\xa0\x80", digest_size=8).hexdigest()
    assert only("write_stdin", {"chars": "\ud800"}).content_digest == expected
