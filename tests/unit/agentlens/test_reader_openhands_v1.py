"""OpenHands 1.x: the SDK's events, alone or in benchmark lines."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.agentlens.logs import about, one_run, refusal, runs, told
from workers.agentlens.trajectory import Operation


def action(identifier: str, command: str, **more: Any) -> dict[str, Any]:
    return {
        "kind": "ActionEvent",
        "id": identifier,
        "tool_call_id": "call" + identifier,
        "tool_name": "terminal",
        "action": {"kind": "TerminalAction", "command": command, "timeout": None},
        **more,
    }


def observed(identifier: Any, observation: Any = None, **more: Any) -> dict[str, Any]:
    return {"kind": "ObservationEvent", "action_id": identifier, "observation": observation, **more}


def shell(command: str, **more: Any) -> dict[str, Any]:
    return {"tool": "terminal", "operation": Operation.SHELL, "command": command, **more}


def states(*events: Any) -> list[dict[str, Any]]:
    return [told(state) for state in one_run(list(events)).states]


def test_an_action_keeps_its_thought_its_time_and_its_answer() -> None:
    assert states(
        action("1", "make a", thought=[{"text": "why"}], timestamp="1970-01-01T00:00:05"),
        action("2", "make b", timestamp=6),
        observed("2", {"content": [{"text": "b"}], "exit_code": 0, "metadata": {"exit_code": 1}}),
        observed("1", {"output": "a", "metadata": {"exit_code": 2}}),
        observed("1", {"content": "again", "exit_code": 0}),
        action("3", "make c"),
        observed("3", {"content": "c", "exit_code": -1}),
        action("4", "make d"),
        observed("4", {"content": "d", "is_error": True}),
        action("5", "make e"),
        {"kind": "AgentErrorEvent", "tool_call_id": "call5", "error": "no"},
        action("6", "make f"),
        {"kind": "UserRejectObservation", "action_id": "6", "rejection_reason": "why?"},
        action("7", "make g"),
        observed(None, {"content": "of nobody"}),
        {"kind": "MessageEvent", "action_id": "7"},
        action("8", "make h"),
        observed("x", {"content": "h"}, tool_call_id="call8"),
    ) == [
        shell("make a", thought="why", timestamp=5.0, exit_code=2, outcome="error", observation="a"),
        shell("make b", timestamp=6.0, exit_code=0, outcome="ok", observation="b"),
        shell("make c", observation="c"),
        shell("make d", outcome="error", observation="d"),
        shell("make e", outcome="error", observation="no"),
        shell("make f", outcome="error", observation="why?"),
        shell("make g"),
        shell("make h", observation="h"),
    ]


def test_arguments_are_the_actions_without_its_kind_and_what_is_null_else_the_calls() -> None:
    event = action("1", "")
    assert states(
        {**event, "tool_name": "fly", "action": {"kind": "Fly", "b": None, "a": 1}},
        {**event, "tool_name": "fly", "action": None, "tool_call": {"arguments": '{"kind": 1}'}},
        {**event, "action": None, "tool_call": {"arguments": '{"command": "make"}'}},
        {**event, "tool_name": "fly", "action": None},
    ) == [
        {"tool": "fly", "operation": Operation.SHELL, "command": 'fly {"a": 1}'},
        {"tool": "fly", "operation": Operation.SHELL, "command": 'fly {"kind": 1}'},
        shell("make"),
        {"tool": "fly", "operation": Operation.SHELL, "command": "fly null"},
    ]


BASE = {"id": "c", "agent": {"llm": {"model": "m"}}, "workspace": {"working_dir": "/src"}}
STATS = {
    "kind": "ConversationStateUpdateEvent",
    "key": "stats",
    "value": {"usage_to_metrics": {"a": {"accumulated_cost": 0.25}, "b": {"accumulated_cost": 0.5}, "c": {}}},
}


@pytest.mark.parametrize("name", ["base_state.json", "../base_state.json"])
def test_a_conversation_says_what_it_is_of_in_its_base_state(name: str) -> None:
    run = one_run(
        [action("1", "cat /src/a"), {**STATS, "key": "other", "value": 5}, STATS],
        "x.jsonl",
        beside={name: BASE},
    )
    assert about(run) == {
        "trajectory_id": "c",
        "path": "x.jsonl",
        "format": "openhands-v1",
        "model": "m",
        "cost_usd": 0.75,
    }
    assert run.blind_signals == ("tokens of a step",)
    assert run.states[0].path == "a"
    beside = {"base_state.json": b"{", "../base_state.json": BASE}
    broken = one_run([action("1", "cat /src/a")], "x.jsonl", beside=beside)
    assert (broken.trajectory_id, broken.states[0].path) == ("x", "ext:/src/a")


def test_a_line_of_a_benchmark_says_what_it_is_of() -> None:
    message = {
        "kind": "MessageEvent",
        "llm_message": {"content": [{"text": "<uploaded_files>\n/src/\n</uploaded_files>"}]},
    }
    rows = [
        {
            "instance_id": "p",
            "attempt": 2,
            "instruction": "<uploaded_files>/src</uploaded_files>",
            "metadata": {"llm": {"model": "m"}},
            "metrics": {"accumulated_cost": 0.5},
            "test_result": {"report": {"resolved": True}},
            "history": [action("1", "cat /src/a")],
        },
        {"instance_id": "q", "history": [message, action("1", "cat /src/a")]},
        {"attempt": 1, "instance_id": 5, "history": [action("1", "cat /src/a")]},
    ]
    first, second, third = runs(rows, "x.jsonl", beside={"report.json": {"q": {"resolved": False}}})
    common = {"path": "x.jsonl", "format": "openhands-v1"}
    assert about(first) == {
        **common,
        "trajectory_id": "p#2",
        "problem": "p",
        "model": "m",
        "outcome": "passed",
        "cost_usd": 0.5,
    }
    assert about(second) == {**common, "trajectory_id": "q", "problem": "q", "outcome": "failed"}
    assert about(third) == {**common, "trajectory_id": "x"}
    assert [run.states[0].path for run in (first, second, third)] == ["a", "a", "ext:/src/a"]
    assert about(one_run(rows[0]))["trajectory_id"] == "p#2"
    late = {
        "instance_id": "q",
        "history": [*[{"kind": "PauseEvent"}] * 5, message, action("1", "cat /src/a")],
    }
    assert one_run(late).states[0].path == "ext:/src/a"


def test_the_branch_that_ends_last_counts_even_if_it_names_itself() -> None:
    first = action("1", "make a", parent_id="2")
    second = action("2", "make b", parent_id="1")
    assert [state["command"] for state in states(first, action("3", "make c"), second)] == [
        "make a",
        "make b",
    ]
    assert [state["command"] for state in states(action("1", "a"), action("2", "b"))] == ["a", "b"]


def test_one_event_is_a_conversation() -> None:
    assert [told(state) for state in one_run(action("1", "make")).states] == [shell("make")]
    assert one_run({"kind": "Condensation"}).warnings == ("no tool calls",)
    for kind in ("Condensation", "CondensationRequest", "CondensationSummary", "X1Event", "XObservation"):
        assert one_run([{"kind": kind}]).format == "openhands-v1"
    assert "no known trajectory format" in refusal([{"kind": "Other"}])
    assert "no known trajectory format" in refusal([{"kind": 5}])
    assert "no known trajectory format" in refusal({"history": 5})


@pytest.mark.parametrize(
    ("document", "name", "sentence"),
    [
        (5, "x.json", "file: expected an object, found a number"),
        ({}, "x.json", "history: expected a list, found null"),
        ([{"history": 5}], "x.jsonl", "line 1: history: expected a list, found a number"),
        ({"history": [5]}, "x.json", "history[0]: expected an object, found a number"),
        ([{"history": [5]}], "x.jsonl", "line 1: history[0]: expected an object, found a number"),
        ([action("1", "x"), 5], "x.jsonl", "line 2: expected an object, found a number"),
        (
            [action("1", "x"), {"kind": "Fly"}],
            "x.json",
            "history[1].kind: expected an event's kind, found 'Fly'",
        ),
        ([action("1", "x", tool_name=5)], "x.jsonl", "line 1.tool_name: expected a text, found a number"),
    ],
)
def test_what_is_wrong_in_a_conversation_is_said_where_it_is(document: Any, name: str, sentence: str) -> None:
    assert refusal(document, name, format_name="openhands-v1") == f"{name}: {sentence}"
