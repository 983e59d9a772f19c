"""Codex: session rollouts and the events of `codex exec --json`, record by record."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.agentlens.logs import about, one_run, pinned, refusal, told
from workers.agentlens.trajectory import Operation


def item(kind: str, at: Any = None, **payload: Any) -> dict[str, Any]:
    return {"timestamp": at, "type": "response_item", "payload": {"type": kind, **payload}}


def called(identifier: str, command: str, at: Any = None) -> dict[str, Any]:
    arguments = json.dumps({"cmd": command})
    return item("function_call", at, name="exec_command", arguments=arguments, call_id=identifier)


def output(identifier: str, text: Any) -> dict[str, Any]:
    return item("function_call_output", call_id=identifier, output=text)


def tokens(count: int, out: int) -> dict[str, Any]:
    usage = {"last_token_usage": {"input_tokens": count, "output_tokens": out}}
    return {"type": "event_msg", "payload": {"type": "token_count", "info": usage}}


def shell(command: str, **more: Any) -> dict[str, Any]:
    return {"tool": "exec_command", "operation": Operation.SHELL, "command": command, **more}


def states(*records: Any) -> list[dict[str, Any]]:
    return [told(state) for state in one_run(list(records), "x.jsonl").states]


def test_calls_keep_what_was_thought_before_them_their_time_and_their_outputs() -> None:
    assert states(
        item("reasoning", summary=[{"text": "plan"}]),
        item("reasoning", summary=None),
        item("message", role="assistant", content=[{"type": "output_text", "text": "say"}]),
        item("message", role="user", content=[{"text": "no thought"}]),
        called("1", "make a", "1970-01-01T00:00:05Z"),
        called("2", "make b", 6),
        tokens(7, 3),
        output("2", "b"),
        output("1", "a"),
        output("9", "nobody's"),
        called("3", "make c"),
        tokens(9, 1),
        tokens(8, 2),
    ) == [
        shell("make a", thought="plan\n\nsay", timestamp=5.0, observation="a", tokens_in=7, tokens_out=3),
        shell("make b", timestamp=6.0, observation="b"),
        shell("make c", tokens_in=9, tokens_out=1),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (None, {}),
        ("made", {"observation": "made"}),
        ([{"text": "one"}, {"text": "two"}], {"observation": "one\ntwo"}),
        (
            '{"output": "made", "metadata": {"exit_code": 0}}',
            {"observation": "made", "exit_code": 0, "outcome": "ok"},
        ),
        ('{"output": "made"}', {"observation": "made"}),
        ('{"output": 5}', {"observation": '{"output": 5}'}),
        ("{x", {"observation": "{x"}),
        (
            "Exit code: 2\nWall time: 1 seconds\nOutput:\nbroken",
            {"observation": "broken", "exit_code": 2, "outcome": "error"},
        ),
        (
            "Chunk ID: 1a\nWall time: 0.1 seconds\nProcess exited with code 0\nOriginal token count: 2\nOutput:\n",
            {"exit_code": 0, "outcome": "ok"},
        ),
        (
            "Chunk ID: 1a\nWall time: 0.1 seconds\nProcess running with session ID 5\nOutput:\n>>> ",
            {"observation": ">>> "},
        ),
        ("Exit code: 0\nTotal output lines: 9\nOutput:", {"exit_code": 0, "outcome": "ok"}),
        ("Exit code: 0", {"exit_code": 0, "outcome": "ok"}),
        ("Exit code: 1\nbroken", {"observation": "broken", "exit_code": 1, "outcome": "error"}),
        ("Wall time: 5 s\nof a program", {"observation": "Wall time: 5 s\nof a program"}),
        ("Output:\nof a program", {"observation": "Output:\nof a program"}),
        (
            "Process exited with code -3\nOutput:\nOutput:\nx",
            {"observation": "Output:\nx", "exit_code": -3},
        ),
    ],
)
def test_an_output_is_told_apart_from_what_codex_says_of_it(text: Any, expected: dict[str, Any]) -> None:
    assert states(called("1", "make"), output("1", text)) == [shell("make", **expected)]


def test_each_kind_of_call_is_its_step() -> None:
    patch = "*** Begin Patch\n*** Add File: a\n+x\n*** End Patch"
    action = {"command": ["bash", "-lc", "cat a"], "working_directory": "/r/lib"}
    run = one_run(
        [
            {"type": "session_meta", "payload": {"cwd": "/r"}},
            item("local_shell_call", id="1", action=action),
            item("custom_tool_call", name="apply_patch", input=patch, call_id="2"),
            item("custom_tool_call_output", call_id="2", output="Done!"),
            item("local_shell_call", id="3", call_id="4", action=action),
            output("4", "shown"),
            item("web_search_call", 5, action={"query": "x"}),
            output("x", "not of the search"),
            *(item(kind) for kind in ("message", "ghost_snapshot", "compaction", "other")),
            called("5", "cd lib"),
            called("6", "cat b"),
        ],
        "x.jsonl",
    )
    look = {"tool": "local_shell", "operation": Operation.SHELL, "path": "lib/a", "command": "cat a"}
    assert [told(state) for state in run.states] == [
        look,
        {
            "tool": "apply_patch",
            "operation": Operation.PATCH,
            "path": "a",
            "command": "apply_patch",
            "edits": [("", "x", None, "a")],
            "outcome": "ok",
            "observation": "Done!",
        },
        {**look, "outcome": "ok", "observation": "shown"},
        {"tool": "web_search", "operation": Operation.BROWSE, "timestamp": 5.0},
        shell("cd lib"),
        shell("cat b", path="b"),
    ]
    assert run.states[3].content_digest == pinned("browse", '{"query": "x"}')
    assert run.warnings == ("1 results without their call",)


@pytest.mark.parametrize(
    ("meta", "context", "expected", "path"),
    [
        (
            {"session_id": "s", "id": "i", "cwd": "/r"},
            {"cwd": "/q", "model": "m"},
            {"trajectory_id": "s", "model": "m"},
            "a",
        ),
        ({"id": "i"}, {"cwd": "/r", "model": 5}, {"trajectory_id": "i"}, "a"),
        ({"cwd": 5}, {}, {"trajectory_id": "x"}, "ext:/r/a"),
    ],
)
def test_the_session_says_what_it_is_of(
    meta: dict[str, Any], context: dict[str, Any], expected: dict[str, Any], path: str
) -> None:
    run = one_run(
        [
            {"type": "session_meta", "payload": meta},
            {"type": "turn_context", "payload": context},
            {"type": "turn_context", "payload": {"model": "later", "cwd": "/later"}},
            called("1", "cat /r/a"),
        ],
        "x.jsonl",
        beside={"report.json": {"resolved": False}},
    )
    assert about(run) == {"path": "x.jsonl", "format": "codex-rollout", "outcome": "failed", **expected}
    assert run.blind_signals == ("pass or fail of the run",)
    assert run.states[0].path == path


def event(kind: str, **item_: Any) -> dict[str, Any]:
    return {"type": kind, "item": item_}


def done(kind: str, **item_: Any) -> dict[str, Any]:
    return event("item.completed", **{"id": kind, "type": kind, **item_})


def test_events_of_a_thread_are_its_steps_as_they_were_last() -> None:
    run = one_run(
        [
            {"type": "thread.started", "thread_id": "t"},
            {"type": "turn.started"},
            event("item.started", id="1", type="command_execution", command="bash -lc 'make a'"),
            event(
                "item.updated",
                id="1",
                type="command_execution",
                command="make a",
                aggregated_output="part",
            ),
            event("item.started", id="2", item_type="command_execution", command="make b"),
            event(
                "item.completed",
                id="1",
                type="command_execution",
                command="make a",
                aggregated_output="made",
                exit_code=0,
            ),
            done(
                "file_change",
                changes=[{"path": "a", "kind": "add"}, {"path": "b", "kind": "update"}],
                status="completed",
            ),
            done("file_change", id="f", changes=[{"path": "c"}], status="failed"),
            done("file_change", id="g"),
            done("mcp_tool_call", tool="grep", arguments={"pattern": "x"}, status="failed"),
            done("mcp_tool_call", id="m", tool="grep", arguments={"pattern": "y"}),
            done("web_search", query="q"),
            done("todo_list"),
            *(done(kind) for kind in ("agent_message", "assistant_message", "reasoning", "error")),
            {"type": "thread.started", "thread_id": 5},
            {"type": "turn.completed"},
            {"type": "error"},
        ],
        "x.jsonl",
        beside={"report.json": {"resolved": True}},
    )
    change = {"tool": "file_change", "operation": Operation.REPLACE}
    search = {"tool": "grep", "operation": Operation.SEARCH}
    assert [told(state) for state in run.states] == [
        shell("make a", outcome="ok", exit_code=0, observation="made"),
        shell("make b"),
        {
            "tool": "file_change",
            "operation": Operation.CREATE,
            "path": "a",
            "lines": (1, 1),
            "edits": [("", "")],
            "outcome": "ok",
        },
        {**change, "path": "b", "edits": [("", "")], "outcome": "ok"},
        {**change, "path": "c", "edits": [("", "")], "outcome": "error"},
        {**search, "command": "grep x .", "outcome": "error"},
        {**search, "command": "grep y .", "outcome": "ok"},
        {"tool": "web_search", "operation": Operation.BROWSE},
        {"tool": "update_plan", "operation": Operation.PLAN},
    ]
    assert run.states[7].content_digest == pinned("browse", "q")
    assert about(run) == {
        "trajectory_id": "t",
        "path": "x.jsonl",
        "format": "codex-exec",
        "outcome": "passed",
    }
    assert run.blind_signals == (
        "pass or fail of the run",
        "texts of edits",
        "time stamps",
        "tokens of a step",
    )
    bare = one_run([{"type": "turn.started"}, done("command_execution", command="cd lib")], "x.jsonl")
    assert (bare.trajectory_id, bare.states[0].command is not None) == ("x", True)
    assert one_run([{"type": "turn.started"}], "x.jsonl").warnings == ("no tool calls",)


@pytest.mark.parametrize(
    ("format_name", "records", "sentence"),
    [
        ("codex-rollout", ["x"], "line 1: expected an object, found a text"),
        ("codex-rollout", [{"type": "x"}], "line 1.payload: expected an object, found null"),
        (
            "codex-rollout",
            [{"type": "x", "payload": {}}, {"type": "session_meta"}],
            "line 2.payload: expected an object, found null",
        ),
        (
            "codex-rollout",
            [{"type": "response_item", "payload": {"type": 5}}],
            "line 1.payload.type: expected a text, found a number",
        ),
        ("codex-rollout", [item("fly")], "line 1.payload.type: unknown response item 'fly'"),
        (
            "codex-rollout",
            [item("function_call", name=5)],
            "line 1.payload.name: expected a text, found a number",
        ),
        ("codex-exec", [{"type": 5}], "line 1.type: expected a text, found a number"),
        ("codex-exec", [{"type": "fly"}], "line 1.type: unknown event 'fly'"),
        ("codex-exec", [{"type": "item.started"}], "line 1.item: expected an object, found null"),
        ("codex-exec", [done("fly")], "line 1.item.type: unknown item 'fly'"),
        (
            "codex-exec",
            [done("command_execution", aggregated_output=5)],
            "line 1.item.aggregated_output: expected a text, found a number",
        ),
        (
            "codex-exec",
            [done("file_change", changes=[{"path": 5}])],
            "line 1.item.changes.path: expected a text, found a number",
        ),
    ],
)
def test_what_is_wrong_in_a_session_is_said_where_it_is(
    format_name: str, records: list[Any], sentence: str
) -> None:
    assert refusal(records, "x.jsonl", format_name=format_name) == "x.jsonl: " + sentence


def test_a_document_is_no_session() -> None:
    for name in ("codex-rollout", "codex-exec"):
        assert refusal({}, format_name=name) == "x.json: file: expected JSON lines, found one document"


def test_the_first_three_records_tell_the_format() -> None:
    other = {"type": "x"}
    meta = {"type": "session_meta", "payload": {}}
    assert refusal([other, other, meta], "x.jsonl").endswith("line 1.payload: expected an object, found null")
    for records in ([other, other, other, meta], [{"payload": {}, "type": "x"}], [{"type": "compacted"}]):
        assert "no known trajectory format" in refusal(records, "x.jsonl")
    thread = [{"type": "turn.started"}] * 3
    assert refusal([*thread, other], "x.jsonl") == "x.jsonl: line 4.type: unknown event 'x'"
    assert "no known trajectory format" in refusal([*thread[:2], other], "x.jsonl")
    assert "no known trajectory format" in refusal([5, 6], "x.jsonl")
