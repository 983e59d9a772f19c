"""moatless-tools: the steps, transitions and nodes of its three generations."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.agentlens.logs import about, one_run, refusal, told
from workers.agentlens.trajectory import Operation

DIFF = "--- a/x.py\n+++ b/x.py\n@@ -3 +3 @@\n-one\n+two\n"
NO_SHELL = ("exit codes", "shell commands", "time stamps")


def steps(*actions: Any, **info: Any) -> dict[str, Any]:
    return {"steps": [{"name": "s", "actions": [*actions]}], "info": info}


def act(name: Any, output: Any = None, /, **given: Any) -> dict[str, Any]:
    return {"name": name, "input": given, "output": output}


def only(document: dict[str, Any]) -> dict[str, Any]:
    (state,) = one_run(document).states
    return told(state)


def test_the_steps_of_2024_say_what_they_are_of() -> None:
    run = one_run(
        steps(act("finish"), act("reject"), instance_id="p", total_cost=0.5),
        "d/y.json",
        beside={"report.json": {"p": {"resolved": True}}},
    )
    common = {"trajectory_id": "y", "path": "d/y.json", "problem": "p", "outcome": "passed", "cost_usd": 0.5}
    assert about(run) == {**common, "format": "moatless-v0"}
    assert run.blind_signals == (*NO_SHELL, "what searches showed", "tokens of a step")
    assert [told(state) for state in run.states] == [
        {"tool": "finish", "operation": Operation.FINISH},
        {"tool": "reject", "operation": Operation.MESSAGE},
    ]
    bare = one_run({"steps": [{"name": "s", "actions": []}], "metadata": {"instance_id": 5}})
    assert about(bare) == {
        "trajectory_id": "x",
        "path": "x.json",
        "format": "moatless-v0",
        "warnings": ("no tool calls",),
    }
    assert one_run({"steps": [{"name": "s", "actions": []}], "metadata": {"instance_id": "q"}}).problem == "q"


SEEN = {"outcome": "ok", "observation": "said"}


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        (
            act("search", {"message": "said", "response": "x"}, query="q", code_snippet="c", thoughts="why"),
            {
                "tool": "search",
                "operation": Operation.SEARCH,
                "command": "grep q c .",
                "thought": "why",
                **SEEN,
            },
        ),
        (
            act("search", {"message": "", "response": "said"}, class_name="C", file_pattern="lib/a.py"),
            {
                "tool": "search",
                "operation": Operation.SEARCH,
                "path": "lib/a.py",
                "command": "grep C lib/a.py",
                **SEEN,
            },
        ),
        (
            act("search", {"error": "said"}, function_name="f", file_pattern="**/a.py", reasoning="why"),
            {
                "tool": "search",
                "operation": Operation.SEARCH,
                "command": "grep f .",
                "thought": "why",
                **SEEN,
            },
        ),
        (
            act("search", {"b": 1, "a": 2}, file_pattern="*.py", description="why"),
            {
                "tool": "search",
                "operation": Operation.SEARCH,
                "command": "find *.py .",
                "thought": "why",
                "outcome": "ok",
                "observation": '{"a": 2, "b": 1}',
            },
        ),
        (
            act("search", file_pattern=5),
            {"tool": "search", "operation": Operation.SEARCH, "command": "find  ."},
        ),
        (
            act(
                "identify",
                files_with_spans=[
                    {"file_path": "a.py", "span_ids": ["f"]},
                    {"file_path": 5},
                    {"file_path": "b.py", "span_ids": ["f", "g"], "span_id": 5},
                    "x",
                ],
            ),
            {"tool": "identify", "operation": Operation.VIEW, "path": "a.py", "command": "cat a.py b.py"},
        ),
        (
            act("identify", files_with_spans=[{"file_path": "a.py", "span_ids": ["f"]}]),
            {"tool": "identify", "operation": Operation.VIEW, "path": "a.py", "scope": "f"},
        ),
        (
            act("identify", files_with_spans=[{"file_path": "a.py", "span_id": "g"}]),
            {"tool": "identify", "operation": Operation.VIEW, "path": "a.py", "scope": "g"},
        ),
        (act("identify", files_with_spans=5), {"tool": "identify", "operation": Operation.VIEW}),
        (
            act("request_for_change", file_path="a.py", span_id="f"),
            {"tool": "request_for_change", "operation": Operation.VIEW, "path": "a.py", "scope": "f"},
        ),
        (
            act("specify_lines", file_path="a.py", span_id=5),
            {"tool": "specify_lines", "operation": Operation.VIEW, "path": "a.py"},
        ),
        (act("specify_lines", start_line=1), {"tool": "specify_lines", "operation": Operation.PLAN}),
        (
            act("search_replace", {"diff": DIFF}, file_path="x.py", span_id="f"),
            {
                "tool": "search_replace",
                "operation": Operation.REPLACE,
                "path": "x.py",
                "lines": (3, 3),
                "scope": "f",
                "edits": [("one", "two", (3, 3), "x.py")],
                "outcome": "ok",
                "observation": '{"diff": "--- a/x.py\\n+++ b/x.py\\n@@ -3 +3 @@\\n-one\\n+two\\n"}',
            },
        ),
        (
            act(
                "search_replace",
                {"updated": False},
                file_path="x.py",
                start_line=2,
                end_line=4,
                replacement_code="y",
            ),
            {
                "tool": "search_replace",
                "operation": Operation.REPLACE,
                "path": "x.py",
                "lines": (2, 4),
                "edits": [("", "y", (2, 4))],
                "outcome": "error",
                "observation": '{"updated": false}',
            },
        ),
        (
            act("search_replace", {"error": "said"}, file_path="x.py", start_line=2, replacement_code="y"),
            {
                "tool": "search_replace",
                "operation": Operation.REPLACE,
                "path": "x.py",
                "edits": [("", "y")],
                "outcome": "error",
                "observation": "said",
            },
        ),
        (
            act("fly", b=1, a=2),
            {"tool": "fly", "operation": Operation.SHELL, "command": 'fly {"a": 2, "b": 1}'},
        ),
    ],
)
def test_an_action_of_a_step_is_its_state(action: dict[str, Any], expected: dict[str, Any]) -> None:
    assert only(steps(action)) == expected


def transition(name: str, action: Any, state: Any = None, /, **more: Any) -> dict[str, Any]:
    return {"transitions": [{"name": name, "state": state, "actions": [{"action": action, **more}]}]}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        (
            transition("IdentifyCode", {"identified_spans": [{"file_path": "a.py"}], "scratch_pad": "why"}),
            {"operation": Operation.VIEW, "path": "a.py", "thought": "why"},
        ),
        (
            transition("IdentifyCode", {"files_with_spans": [{"file_path": "a.py"}], "thoughts": "why"}),
            {"operation": Operation.VIEW, "path": "a.py", "thought": "why"},
        ),
        (
            transition(
                "PlanToCode", {"action": "finish"}, retry_message="no", input_tokens=7, output_tokens=3
            ),
            {
                "tool": "finish",
                "operation": Operation.FINISH,
                "observation": "no",
                "outcome": "error",
                "tokens_in": 7,
                "tokens_out": 3,
            },
        ),
        (
            transition("PlanToCode", {"action": {"finish": "x"}}),
            {"tool": "finish", "operation": Operation.FINISH},
        ),
        (
            transition("PlanToCode", {"action": {"reason": "x"}}),
            {"tool": "finish", "operation": Operation.FINISH},
        ),
        (
            transition("PlanToCode", {"action": "review", "file_path": "a.py", "span_id": "f"}),
            {"operation": Operation.VIEW, "path": "a.py", "scope": "f"},
        ),
        (
            transition("PlanToCode", {"action": {"file_path": "a.py", "start_line": 2, "end_line": 4}}),
            {"operation": Operation.VIEW, "path": "a.py", "lines": (2, 4)},
        ),
        (
            transition(
                "ClarifyCodeChange", {"start_line": 2, "end_line": 4}, {"file_path": "a.py", "span_id": "f"}
            ),
            {"operation": Operation.VIEW, "path": "a.py", "scope": "f", "lines": (2, 4)},
        ),
        (
            transition("ClarifyCodeChange", {"start_line": 2}, {"file_path": "a.py", "span_id": 5}),
            {"operation": Operation.VIEW, "path": "a.py"},
        ),
        (transition("PlanToCode", {}), {"operation": Operation.PLAN}),
        (
            transition("EditCode", {"content": "y"}, {"file_path": "x.py", "start_line": 2, "end_line": 4}),
            {
                "operation": Operation.REPLACE,
                "path": "x.py",
                "lines": (2, 4),
                "edits": [("", "y", (2, 4))],
                "outcome": "error",
            },
        ),
        (
            transition(
                "EditCode", {"content": 5}, {"file_path": "x.py"}, output={"diff": "", "message": "said"}
            ),
            {"operation": Operation.REPLACE, "path": "x.py", "edits": [("", "")], "observation": "said"},
        ),
        (
            transition(
                "EditCode", {}, {"file_path": "x.py", "span_id": 5}, output={"diff": DIFF, "message": "said"}
            ),
            {
                "operation": Operation.REPLACE,
                "path": "x.py",
                "lines": (3, 3),
                "edits": [("one", "two", (3, 3), "x.py")],
                "outcome": "ok",
                "observation": "said",
            },
        ),
        (transition("Pending", {}), {"operation": Operation.PLAN}),
    ],
)
def test_a_transition_is_the_state_it_names(document: dict[str, Any], expected: dict[str, Any]) -> None:
    assert only(document) == {"tool": document["transitions"][0]["name"], **expected}


def test_the_searches_of_a_transition_are_steps_and_count_its_tokens_once() -> None:
    requests = [{"query": "q"}, {"class_name": "C"}]
    run = one_run(transition("SearchCode", {"search_requests": requests}, input_tokens=7, output_tokens=3))
    found = {"tool": "SearchCode", "operation": Operation.SEARCH}
    assert [told(state) for state in run.states] == [
        {**found, "command": "grep q .", "tokens_in": 7, "tokens_out": 3},
        {**found, "command": "grep C ."},
    ]
    for given in ({"query": "q"}, {"query": "q", "search_requests": []}):
        assert only(transition("SearchCode", given)) == {**found, "command": "grep q ."}


def test_transitions_say_what_they_are_of() -> None:
    document = {
        "transitions": [
            {"name": "Pending", "state": {}, "actions": []},
            {"name": "Pending", "state": {"model": "m"}, "actions": []},
            {"name": "Pending", "state": {"model": "n"}, "actions": [{}]},
        ],
        "info": {"instance_id": "p", "total_cost": 0.5},
    }
    run = one_run(document)
    assert about(run) == {
        "trajectory_id": "x",
        "path": "x.json",
        "format": "moatless-v1",
        "problem": "p",
        "model": "m",
        "cost_usd": 0.5,
    }
    assert run.blind_signals == (*NO_SHELL, "what searches showed")


@pytest.mark.parametrize(
    ("format_name", "document", "sentence"),
    [
        ("moatless-v0", {}, "steps: expected a list, found null"),
        ("moatless-v0", {"steps": [5]}, "steps[0]: expected an object, found a number"),
        ("moatless-v0", {"steps": [{}]}, "steps[0].actions: expected a list, found null"),
        (
            "moatless-v0",
            {"steps": [{"actions": [5]}]},
            "steps[0].actions[0]: expected an object, found a number",
        ),
        ("moatless-v0", steps(act(5)), "steps[0].actions[0].name: expected a text, found a number"),
        ("moatless-v1", {}, "transitions: expected a list, found null"),
        ("moatless-v1", {"transitions": [5]}, "transitions[0]: expected an object, found a number"),
        ("moatless-v1", {"transitions": [{}]}, "transitions[0].actions: expected a list, found null"),
        (
            "moatless-v1",
            {"transitions": [{"name": 5}]},
            "transitions[0].name: expected a text, found a number",
        ),
        (
            "moatless-v1",
            {"transitions": [{"actions": [5]}]},
            "transitions[0].actions[0]: expected an object, found a number",
        ),
        ("moatless-v2", {}, "nodes: expected a list, found null"),
        ("moatless-v2", {"nodes": [5]}, "nodes[0]: expected an object, found a number"),
        ("moatless-v2", {"nodes": [{"action": 5}]}, "nodes[0].action: expected an object, found a number"),
    ],
)
def test_what_is_wrong_in_a_log_is_said_where_it_is(format_name: str, document: Any, sentence: str) -> None:
    assert refusal(document, format_name=format_name) == "x.json: " + sentence


def test_the_three_generations_are_told_apart() -> None:
    for document in (
        {"steps": []},
        {"steps": [{"name": "x"}]},
        {"steps": [{"actions": []}]},
        {"steps": 5},
        {"transitions": [{}]},
        {"transitions": 5},
        {"nodes": [{"node_id": 1}, {}]},
        {"nodes": 5},
        {},
    ):
        assert "no known trajectory format" in refusal(document)
