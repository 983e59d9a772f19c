"""OpenHands' event streams, before 1.0 and after: actions, their observations, and benchmark lines."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.agentlens.logs import about, one_run, pinned, refusal, runs, told
from workers.agentlens.trajectory import Operation

END = 1_000_000_000


def action(kind: str, identifier: int | None = None, /, **arguments: Any) -> dict[str, Any]:
    event: dict[str, Any] = {"source": "agent", "action": kind, "args": arguments}
    return event if identifier is None else {**event, "id": identifier}


def seen(cause: int | None, content: Any, /, **more: Any) -> dict[str, Any]:
    event = {"source": "agent", "observation": "run", "content": content, **more}
    return event if cause is None else {**event, "cause": cause}


def states(*events: Any, **row: Any) -> list[dict[str, Any]]:
    return [told(state) for state in one_run({"history": list(events), **row}).states]


def shell(command: str, **more: Any) -> dict[str, Any]:
    return {"tool": "execute_bash", "operation": Operation.SHELL, "command": command, **more}


def test_an_action_keeps_thought_time_code_and_what_was_observed() -> None:
    assert states(
        {**action("run", 1, command="make", thought="why"), "timestamp": "1970-01-01T00:00:02"},
        {**action("run", 2, command="make b", thought=5), "timestamp": 3},
        seen(2, "b made", extras={"metadata": {"exit_code": 0}}),
        seen(1, "broken", extras={"exit_code": 2}),
        seen(1, "again", extras={"exit_code": 0}),
        action("run", 3, command="make c"),
        seen(3, "odd", extras={"exit_code": -1}),
        action("run", 4, command="make d"),
        {**seen(4, "lost"), "observation": "error"},
        action("run", None, command="make e"),
        seen(None, "e made", extras={"metadata": {"exit_code": 0}}),
        action("run", None, command="make f"),
        seen(99, "of another"),
        action("run", 7, command="make g"),
    ) == [
        shell("make", thought="why", timestamp=2.0, outcome="error", exit_code=2, observation="broken"),
        shell("make b", timestamp=3.0, outcome="ok", exit_code=0, observation="b made"),
        shell("make c", observation="odd"),
        shell("make d", outcome="error", observation="lost"),
        shell("make e", outcome="ok", exit_code=0, observation="e made"),
        shell("make f"),
        shell("make g"),
    ]


def test_the_tokens_of_a_response_count_once_else_by_their_growth() -> None:
    def response(identifier: Any, tokens: int, model: Any = "m") -> dict[str, Any]:
        usage = {"prompt_tokens": tokens, "completion_tokens": tokens + 1}
        return {"tool_call_metadata": {"model_response": {"id": identifier, "model": model, "usage": usage}}}

    def total(tokens: Any, out: Any) -> dict[str, Any]:
        usage = {"prompt_tokens": tokens, "completion_tokens": out}
        return {"llm_metrics": {"accumulated_token_usage": usage}}

    run = one_run(
        [
            {**action("run", command="a"), **response("1", 5)},
            {**action("run", command="b"), **response("1", 5)},
            {**action("run", command="c"), **response("2", 7, 5)},
            {**action("run", command="d"), **response(None, 8)},
            {**action("run", command="e"), **response(None, 8)},
            {**action("run", command="f"), **total(10, 4)},
            {**action("run", command="g"), **total(25, 5)},
            {**action("run", command="h"), **total(20, None)},
            {**action("run", command="i"), **total(21, 2)},
            action("run", command="j"),
        ]
    )
    assert [(state.tokens_in, state.tokens_out) for state in run.states] == [
        (5, 6),
        (0, 0),
        (7, 8),
        (8, 9),
        (8, 9),
        (10, 4),
        (15, 1),
        (0, 0),
        (1, 2),
        (None, None),
    ]
    assert run.model == "m"


def test_each_kind_of_action_is_its_step() -> None:
    run = one_run(
        [
            action("run", command="y", is_input=True),
            action("run", command=" "),
            action("run_ipython", code="open('/workspace/a.py', 'w')"),
            action("think", thought="x"),
            action("finish"),
            action("reject"),
            action("task_tracking"),
            action("browse", url="u"),
            action("browse_interactive"),
            action("delegate"),
            action("call_tool_mcp", name="grep", arguments={"pattern": "x"}),
            action("fly"),
            *(action(kind) for kind in ("system", "message", "recall", "condensation", "null", "pause")),
            action("run", command="hidden", hidden=True),
            {**action("run", command="typed"), "source": "user"},
            {**action("run", command="typed"), "source": "environment"},
            {"source": "agent", "message": "words"},
        ]
    )
    assert [told(state) for state in run.states] == [
        {"tool": "execute_bash", "operation": Operation.SHELL},
        {"tool": "execute_bash", "operation": Operation.SHELL},
        {
            "tool": "run_ipython",
            "operation": Operation.SHELL,
            "path": "a.py",
            "command": "open('/workspace/a.py', 'w')",
        },
        {"tool": "think", "operation": Operation.THINK, "thought": "x"},
        {"tool": "finish", "operation": Operation.FINISH},
        {"tool": "reject", "operation": Operation.FINISH},
        {"tool": "task_tracking", "operation": Operation.PLAN},
        {"tool": "browse", "operation": Operation.BROWSE},
        {"tool": "browse_interactive", "operation": Operation.BROWSE},
        {"tool": "delegate", "operation": Operation.DELEGATE},
        {"tool": "grep", "operation": Operation.SEARCH, "command": "grep x ."},
        {"tool": "fly", "operation": Operation.SHELL, "command": "fly "},
    ]
    assert run.states[0].content_digest == pinned("keys", "y")
    assert run.states[7].content_digest == pinned("browse", "u")
    assert run.states[8].content_digest == pinned("browse", "")
    answered = one_run(
        [action("run", command="", is_input=True), seen(None, "x"), action("fly"), seen(None, "y")]
    )
    assert [state.observation for state in answered.states] == ["x", "y"]
    assert run.warnings == ("unknown tool 'fly' (1 calls) counted as a step that touches nothing",)


HIDDEN = "print(file_editor(**{'command': 'str_replace', 'path': 'a', 'old_str': 'x', 'new_str': 'y'}))"


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (action("read", path="/app/a"), {"operation": Operation.VIEW, "tool": "read_file"}),
        (
            action("read", path="a", view_range=[2, 4], start=9),
            {"operation": Operation.VIEW, "tool": "read_file", "lines": (2, 4)},
        ),
        (
            action("read", path="a", start=2, end=4),
            {"operation": Operation.VIEW, "tool": "read_file", "lines": (2, 4)},
        ),
        (
            action("read", path="a", start=2),
            {"operation": Operation.VIEW, "tool": "read_file", "lines": (2, END)},
        ),
        (action("read", path="a", start=1, end=-1), {"operation": Operation.VIEW, "tool": "read_file"}),
        (
            action("edit", path="a", command="view", view_range=[2, 4]),
            {"operation": Operation.VIEW, "tool": "read_file", "lines": (2, 4)},
        ),
        (
            action("write", path="a", content="x", command="str_replace"),
            {"operation": Operation.CREATE, "tool": "write", "lines": (1, 1), "edits": [("", "x")]},
        ),
        (
            action("edit", path="a", command="create", file_text="x", content="y"),
            {"operation": Operation.CREATE, "tool": "edit", "lines": (1, 1), "edits": [("", "x")]},
        ),
        (
            action("edit", path="a", content=""),
            {"operation": Operation.CREATE, "tool": "edit", "lines": (1, 1), "edits": [("", "z")]},
        ),
        (
            action("edit", path="a", command="insert", insert_line=2, new_str="x"),
            {
                "operation": Operation.INSERT,
                "tool": "str_replace_editor",
                "lines": (2, 2),
                "edits": [("", "x", (2, 2))],
            },
        ),
        (
            action("edit", path="a", command="undo_edit"),
            {"operation": Operation.UNDO, "tool": "str_replace_editor"},
        ),
        (
            action("edit", path="a", translated_ipython_code=HIDDEN),
            {"operation": Operation.REPLACE, "tool": "str_replace_editor", "edits": [("x", "y")]},
        ),
        (
            action("edit", path="a", translated_ipython_code="file_editor(**{'command': f()})"),
            {"operation": Operation.CREATE, "tool": "edit", "lines": (1, 1), "edits": [("", "z")]},
        ),
    ],
)
def test_a_file_action_is_what_its_command_says(event: dict[str, Any], expected: dict[str, Any]) -> None:
    extras = {"formatted_output_and_error": "Done!", "new_content": "z"}
    (state,) = states(event, seen(None, "other", extras=extras))
    assert state == {"path": "a", "outcome": "ok", "observation": "Done!", **expected}
    failed = {**seen(None, "other", extras=extras), "observation": "error"}
    (state,) = states(event, failed)
    assert (state["observation"], state["outcome"]) == ("other", "error")


TASK = {"source": "user", "action": "message", "message": "<uploaded_files>\n/src/x/\n</uploaded_files>"}
DONE = action("run", command="cat /src/x/a")


def test_a_line_of_a_benchmark_says_what_it_is_of() -> None:
    row = {
        "instance_id": "p",
        "attempt": 2,
        "instruction": "<uploaded_files>/src/x</uploaded_files>",
        "metadata": {"llm_config": {"model": "m"}},
        "metrics": {"accumulated_cost": 0.5},
        "history": [DONE],
        "report": {"resolved": True},
    }
    run = one_run([row], "d/x.jsonl")
    assert about(run) == {
        "trajectory_id": "p#2",
        "path": "d/x.jsonl",
        "format": "openhands-v0",
        "problem": "p",
        "model": "m",
        "outcome": "passed",
        "cost_usd": 0.5,
    }
    assert run.states[0].path == "a"
    beside = {"report.json": {"resolved_ids": ["p"]}}
    plain = [{"instance_id": "p", "history": [TASK, DONE]}, {"trajectory": [DONE]}]
    first, second = runs(plain, "d/x.jsonl", beside=beside)
    assert about(first) == {
        "trajectory_id": "p",
        "path": "d/x.jsonl",
        "format": "openhands-v0",
        "problem": "p",
        "outcome": "passed",
    }
    assert first.states[0].path == "a"
    assert (second.trajectory_id, second.problem, second.states[0].path) == ("x", None, "ext:/src/x/a")
    assert one_run(plain[1]).trajectory_id == "x"
    assert one_run({**plain[1], "attempt": 3}).trajectory_id == "x"


def test_a_stream_is_a_list_of_events_a_line_each_or_pairs() -> None:
    expected = [shell("cat /src/x/a", path="a", observation="x", outcome="ok")]
    answered = seen(None, "x")
    for document, name in (
        ([TASK, DONE, answered], "x.json"),
        ([TASK, DONE, answered], "x.jsonl"),
        ({"history": [TASK, DONE, answered]}, "x.json"),
        ({"trajectory": [[TASK, {}], [DONE, answered, "more"]]}, "x.json"),
    ):
        run = one_run(document, name)
        assert ([told(state) for state in run.states], run.format) == (expected, "openhands-v0")
        assert run.trajectory_id == "x"
    alone = one_run(action("run", command="cat /workspace/a"))
    assert [told(state) for state in alone.states] == [shell("cat /workspace/a", path="a")]


@pytest.mark.parametrize(
    ("document", "name", "sentence"),
    [
        (5, "x.json", "file: expected an object, found a number"),
        ({}, "x.json", "trajectory: expected a list, found null"),
        ({"history": 5}, "x.json", "history: expected a list, found a number"),
        ([{"history": 5}], "x.jsonl", "line 1: history: expected a list, found a number"),
        ({"history": [TASK, 5]}, "x.json", "history[1]: expected an object, found a number"),
        ({"history": [[TASK, 5]]}, "x.json", "history[0][1]: expected an object, found a number"),
        ([TASK, {}], "x.json", "file[1]: expected an event with an action or an observation"),
        ({"history": [{"action": 5}]}, "x.json", "history[0].action: expected a text, found a number"),
        (
            {"history": [action("run", command=5)]},
            "x.json",
            "history[0].args.command: expected a text, found a number",
        ),
        (
            {"history": [action("run_ipython", code=5)]},
            "x.json",
            "history[0].args.code: expected a text, found a number",
        ),
        (
            {"history": [action("read", path=5)]},
            "x.json",
            "history[0].args.path: expected a text, found a number",
        ),
        (
            {"history": [action("edit", command="fly", path="a")]},
            "x.json",
            "history[0].args.command: unknown edit 'fly'",
        ),
        (
            {"history": [DONE, seen(None, 5)]},
            "x.json",
            "history[0]: its observation's content: expected a text, found a number",
        ),
    ],
)
def test_what_is_wrong_in_a_stream_is_said_where_it_is(document: Any, name: str, sentence: str) -> None:
    assert refusal(document, name, format_name="openhands-v0") == f"{name}: {sentence}"


@pytest.mark.parametrize(
    "event",
    [{"action": "x", "args": {}}, {"action": "x", "source": "a"}, {"observation": "x", "source": "a"}],
)
def test_an_event_is_known_by_its_action_or_observation_and_its_origin(event: dict[str, Any]) -> None:
    for document in (event, [event], {"history": [event]}, {"trajectory": [[event, event]]}):
        assert one_run(document).format == "openhands-v0"
    assert "no known trajectory format" in refusal({"action": "x"})
    assert "no known trajectory format" in refusal({"args": {}, "source": "x"})
