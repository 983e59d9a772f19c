"""What every reader shares: careful access, sentences of refusal, which reader a file gets, what is refused."""

from __future__ import annotations

import json
from datetime import date
from typing import Any

import pytest

from tests.unit.agentlens.logs import about, one_run, refusal, runs
from workers.agentlens.formats import format_names, is_lines, read, read_decoded, read_lines, read_rows
from workers.agentlens.formats.base import (
    Source,
    as_list,
    as_object,
    as_text,
    inner,
    join_text,
    kind_name,
    line_objects,
    number,
    object_at,
    seconds,
    text_at,
    whole,
)
from workers.agentlens.formats.textcalls import calls_in, fenced_commands
from workers.errors import TrajectoryError

SOURCE = Source(path="x.json")


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "null"),
        ({}, "an object"),
        ([], "a list"),
        ("", "a text"),
        (True, "a boolean"),
        (1, "a number"),
        (1.5, "a number"),
        (date(2024, 1, 2), "something else"),
    ],
)
def test_a_value_of_the_wrong_kind_is_named_in_jsons_words(value: Any, name: str) -> None:
    assert kind_name(value) == name
    for wanted, take in (("an object", as_object), ("a list", as_list), ("a text", as_text)):
        if name == wanted:
            assert take(SOURCE, value, "a.b") is value
        elif value is not None or take is not as_text:
            with pytest.raises(TrajectoryError, match=f"^x.json: a.b: expected {wanted}, found {name}$"):
                take(SOURCE, value, "a.b")


def test_access_by_name_puts_the_position_together() -> None:
    holder = {"text": "x", "object": {"a": 1}, "number": 5, "null": None}
    assert text_at(SOURCE, holder, "text", ("a",)) == "x"
    assert text_at(SOURCE, holder, "null", ("a",)) == ""
    assert text_at(SOURCE, holder, "none", ("a",)) == ""
    assert object_at(SOURCE, holder, "object", ("a",)) is holder["object"]
    with pytest.raises(TrajectoryError, match=r"^x.json: a.b.number: expected a text, found a number$"):
        text_at(SOURCE, holder, "number", ("a", "b"))
    with pytest.raises(TrajectoryError, match=r"^x.json: a.b.number: expected an object, found a number$"):
        object_at(SOURCE, holder, "number", ("a", "b"))
    assert (inner({"a": 1}), inner([]), as_text(SOURCE, None, "a")) == ({"a": 1}, {}, "")


def test_lines_are_objects_with_their_position() -> None:
    lines = Source(path="x.jsonl", lines=((2, {}), (4, {"a": 1})))
    assert line_objects(lines) == [("line 2", {}), ("line 4", {"a": 1})]
    with pytest.raises(TrajectoryError, match=r"^x.json: file: expected JSON lines, found one document$"):
        line_objects(SOURCE)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (5, 5),
        (5.0, 5),
        (-(10**15) + 1, -(10**15) + 1),
        (-(10**15), None),
        (10**15 - 1, 10**15 - 1),
        (10**15, None),
        (5.5, None),
        (float("nan"), None),
        (float("inf"), None),
        (True, None),
        ("5", None),
        (None, None),
    ],
)
def test_a_whole_number_is_one_that_counts(value: Any, expected: int | None) -> None:
    found = whole(value)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    ("value", "expected"),
    [(5, 5.0), (0.5, 0.5), (-1e299, -1e299), (1e300, None), (True, None), ("5", None), (None, None)],
)
def test_a_number_is_finite(value: Any, expected: float | None) -> None:
    assert number(value) == expected
    assert seconds(value if value != "5" else "words") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:01:00", 60.0),
        ("1970-01-01T00:01:00Z", 60.0),
        ("1970-01-01T01:01:00+01:00", 60.0),
        ("1970-01-01 00:00:00.5", 0.5),
        ("yesterday", None),
        ("", None),
    ],
)
def test_a_time_without_a_zone_is_utc(text: str, expected: float | None) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ("x", "x"),
        ({"text": "x"}, "x"),
        (
            ["a", {"text": "b"}, {"content": "c"}, {"text": 5, "content": "d"}, {"content": 5}, {}, 5],
            "a\nb\nc\nd",
        ),
        ([{"text": "", "content": "x"}], ""),
        (5, ""),
        (None, ""),
    ],
)
def test_the_text_of_a_message_is_that_of_its_parts(parts: Any, text: str) -> None:
    assert join_text(parts) == text


@pytest.mark.parametrize(
    ("path", "row", "stem"),
    [
        ("d/a.b.json", None, "a.b"),
        ("d\\a.json", None, "a"),
        ("a", None, "a"),
        (".json", None, ".json"),
        ("a_pta.json", None, "a"),
        ("a.traj.json", None, "a"),
        ("a.trajectory.json", None, "a"),
        ("a.traces.json", None, "a"),
        ("a.atif.json", None, "a"),
        ("a.atif.jsonl", None, "a"),
        (".traj.json", None, ".traj"),
        ("t.parquet", 3, "t#3"),
    ],
)
def test_a_run_without_a_name_takes_the_files(path: str, row: int | None, stem: str) -> None:
    assert Source(path=path, row=row).stem == stem


UNKNOWN = "no known trajectory format; name one with --format if it is one"
NAMES = (
    "agentlens-bench, atif, openhands-v1, openhands-v0, swe-agent, mini-swe-agent, moatless-v2, moatless-v1, "
    "moatless-v0, codex-rollout, codex-exec, claude-code, aider, chat"
)


def test_a_file_is_refused_in_a_sentence() -> None:
    assert ", ".join(format_names()) == NAMES
    assert refusal("") == "x.json: the file is empty"
    assert refusal(" \n", "x.jsonl") == "x.jsonl: the file is empty"
    assert refusal("{") == (
        "x.json: not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    )
    assert refusal("5") == f"x.json: {UNKNOWN}"
    assert refusal("5", format_name="fly") == f"x.json: unknown format 'fly'; expected one of {NAMES}"
    assert refusal("[" * 100_000) == "x.json: the JSON is nested too deeply to be a trajectory"
    deep = b'{"role": ' + b"[" * 100_000
    assert refusal(deep.decode(), "x.jsonl") == (
        "x.jsonl: line 1: the JSON is nested too deeply to be a trajectory"
    )
    assert refusal('{"a": 1}\n{', "x.jsonl") == (
        "x.jsonl: line 2: not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    )
    assert refusal("{}", format_name="chat") == (
        "x.json: file: no messages; expected one of the columns messages, trajectory, conversations, conversation"
    )


RUN = {"messages": [{"role": "user", "content": "x"}]}
MESSAGE = RUN["messages"][0]


def test_lines_that_are_runs_come_one_by_one_with_the_error_of_those_that_are_not() -> None:
    mark = b"\xef\xbb\xbf"
    lines = [mark + json.dumps(RUN).encode(), b"\n", b"{", b"[]", json.dumps({**RUN, "id": "b"}).encode()]
    first, broken, other, second = read_lines("x.jsonl", lines)
    assert not isinstance(first, TrajectoryError)
    assert not isinstance(second, TrajectoryError)
    assert about(first) == {
        "trajectory_id": "x#0",
        "path": "x.jsonl",
        "format": "chat",
        "warnings": ("no tool calls",),
    }
    assert second.trajectory_id == "b"
    assert str(broken) == (
        "x.jsonl: line 3: not JSON: Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"
    )
    assert str(other) == "x.jsonl: line 4: expected an object, found a list"
    with pytest.raises(TrajectoryError, match=r"^x.jsonl: line 4: not JSON"):
        list(read("x.jsonl", b"\n".join(lines)))
    with pytest.raises(TrajectoryError, match=r"^x.jsonl: line 1: not JSON"):
        list(read_lines("x.jsonl", [b"{", b"x"]))
    with pytest.raises(TrajectoryError, match=r"^x.jsonl: the file is empty$"):
        list(read_lines("x.jsonl", []))
    assert [run.trajectory_id for run in runs([RUN], "x.jsonl")] == ["x"]


def test_lines_of_one_run_are_read_together_whatever_the_file_is_called() -> None:
    text = "\n".join([json.dumps(MESSAGE)] * 5)
    for name in ("x.jsonl", "x.ndjson", "x.json", "x.txt"):
        assert one_run(text, name).trajectory_id == "x"
    (run,) = read("x.json", b"\xef\xbb\xbf" + json.dumps(RUN).encode())
    assert run.format == "chat"
    with pytest.raises(TrajectoryError, match=r"^x.jsonl: line 2: not JSON"):
        list(read("x.jsonl", json.dumps(MESSAGE).encode() + b"\n{"))


def test_the_format_that_is_named_reads_lines_and_rows() -> None:
    turn = {"type": "assistant", "message": {"content": []}}
    assert one_run([turn], "x.jsonl", format_name="claude-code").format == "claude-code"
    bare = {"type": "queue"}
    assert one_run([bare, bare], "x.jsonl", format_name="claude-code").format == "claude-code"
    assert refusal([bare, bare], "x.jsonl") == f"x.jsonl: {UNKNOWN}"
    assert refusal([RUN], "x.jsonl", format_name="fly").startswith("x.jsonl: unknown format 'fly'; expected")
    event = {"id": 1, "action": "think", "args": {}, "source": "agent"}
    (run,) = read_rows("t.parquet", [event], "openhands-v0")
    assert not isinstance(run, TrajectoryError)
    assert run.format == "openhands-v0"
    with pytest.raises(TrajectoryError, match=r"^t.parquet: unknown format 'fly'"):
        list(read_rows("t.parquet", [RUN], "fly"))
    first, second = read_rows("t.parquet", [RUN, {"messages": 5}])
    assert not isinstance(first, TrajectoryError)
    assert str(second).startswith("t.parquet: row 2: no messages; expected")
    (decoded,) = read_decoded("x.json", RUN)
    assert decoded.trajectory_id == "x"
    with pytest.raises(TrajectoryError, match=r"^x.json: unknown format 'fly'"):
        list(read_decoded("x.json", RUN, "fly"))


def test_a_value_of_another_shape_is_said_with_its_row() -> None:
    class Odd(dict[str, Any]):
        def get(self, name: Any, default: Any = None) -> Any:
            if name == "model":
                raise OverflowError("too large")
            return super().get(name, default)

    shape = "a value has not the shape this format gives it (too large)"
    good, bad = read_rows("t.parquet", [RUN, Odd(RUN)])
    assert not isinstance(good, TrajectoryError)
    assert str(bad) == f"t.parquet: row 2: as chat: {shape}"
    with pytest.raises(TrajectoryError) as raised:
        list(read_decoded("x.json", Odd(RUN)))
    assert str(raised.value) == f"x.json: as chat: {shape}"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'\n {"a": 1}\n{"b"', True),
        (b'{"a": 1}\n \n', False),
        (b'{"a": 1}', False),
        (b"[1]\n[2]", False),
        (b"{\n1}", False),
        (b"[" * 100_000 + b"\nx", False),
    ],
)
def test_lines_are_known_by_their_first_that_is_an_object(data: bytes, expected: bool) -> None:
    assert is_lines(data) is expected


@pytest.mark.parametrize(
    ("records", "sentence"),
    [
        *(
            (
                {"scoring_version": 1, name: []},
                "a report, reference or export that was made from runs is no run; give the logs themselves",
            )
            for name in ("donors", "assessments", "wasted_steps")
        ),
        (
            {"dir": "x", "kind": "x", "ts": 1},
            "a recording of Codex's screen holds fragments of calls; use the session's rollout file instead",
        ),
        *(
            (
                {"type": kind, "data": {}},
                "a Copilot CLI event log does not keep what edits changed; convert the session to ATIF instead",
            )
            for kind in ("session.start", "assistant.message", "user.message", "tool.call")
        ),
        *(
            (
                record,
                "a Cursor transcript keeps calls without their results; convert the session to ATIF instead",
            )
            for record in ({"source_format": "cursor-x"}, {"role": "user", "message": {}})
        ),
        *(
            (
                record,
                "an Inspect log holds evaluations of any kind; export the sample's messages as chat rows instead",
            )
            for record in (
                {"metadata": {"eval_log_url": 1}},
                {"metadata": {"eval_sample_id": 1}},
                {"eval": {}, "samples": []},
            )
        ),
        *(
            (
                record,
                "OpenTelemetry spans do not say which calls belong to the agent; "
                "export the messages as chat rows instead",
            )
            for record in (
                {"spans": [], "trace_id": 1},
                {"resourceSpans": []},
                {"span_id": 1},
                {"trace": "x", "labels": ""},
            )
        ),
    ],
)
def test_what_is_no_log_of_calls_is_refused_with_what_would_be_right(records: Any, sentence: str) -> None:
    expected = f"file: {sentence}"
    assert refusal(records) == f"x.json: {expected}"
    assert refusal([records, 5]) == f"x.json: {expected}"
    assert refusal([records], "x.jsonl") == f"x.jsonl: {expected}"


@pytest.mark.parametrize(
    "other",
    [
        {"type": "session", "data": {}},
        {"role": "user", "message": {}, "type": "x"},
        {"eval": {}},
        {"spans": []},
        {"trace": 5, "labels": ""},
        {"scoring_version": 1},
        {"dir": "x", "kind": "x"},
        {"metadata": 5},
        [],
    ],
)
def test_what_only_looks_like_it_is_of_no_known_format(other: Any) -> None:
    assert refusal(other) == f"x.json: {UNKNOWN}"


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("<function=f>", [("f", {})]),
        (
            "<function=f><parameter=a>1<parameter=b>\n2\n</parameter></function>",
            [("f", {"a": "1", "b": "2"})],
        ),
        ("<function=f></function> <function=g.h-i>", [("f", {}), ("g.h-i", {})]),
        ('<tool_call>{"name": "f", "parameters": {"a": 1}}</tool_call>', [("f", {"a": 1})]),
        ('<tool_call>{"name": "f"}</tool_call><tool_call>{"name": 5}</tool_call>', [("f", {})]),
        ('<tool_call>{"name"}</tool_call>', []),
        (
            'x {"commands": [{"keystrokes": "ls"}, {"keystrokes": 5}, 5]}y',
            [("bash_command", {"keystrokes": "ls"})],
        ),
        ('{"task_complete": true}', [("mark_task_complete", {})]),
        ('{"task_complete": "true"}', []),
        ('{"commands": 5, "task_complete": true}', [("mark_task_complete", {})]),
        ('"keystrokes"', []),
        ('} "keystrokes" {', []),
        ('{"keystrokes"}', []),
    ],
)
def test_calls_that_a_model_wrote_into_its_text_are_found(text: str, calls: list[Any]) -> None:
    assert [tuple(call) for call in calls_in(text)] == calls


def test_fences_of_a_shell_hold_commands() -> None:
    text = "```sh\necho X\n\n```\n```\nb\n```\n```console\nc\n```\n```python\nd\n```\n"
    assert fenced_commands(text) == ["echo X"]
    assert fenced_commands(text, any_language=True) == ["echo X", "b", "c"]
