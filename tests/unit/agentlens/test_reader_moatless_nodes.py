"""The nodes of moatless-tools' search tree."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.agentlens.logs import about, one_run, pinned, told
from workers.agentlens.trajectory import Operation


def node(name: str, observation: Any = None, usage: Any = None, /, **given: Any) -> dict[str, Any]:
    action = {"action_args_class": f"moatless.actions.{name}Args", **given}
    completions = {"build_action": {"usage": usage}}
    return {"node_id": 1, "action": action, "observation": observation, "completions": completions}


def test_nodes_keep_thought_tokens_and_what_was_observed() -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "completion_cost": 0.25}
    run = one_run(
        {
            "nodes": [
                {"node_id": 0, "action": None},
                node("FindClass", {"message": "found"}, usage, class_name="C", scratch_pad="why"),
                node("SemanticSearch", {"message": "x", "expect_correction": True}, usage, query="q"),
                node("FindFunction", {"message": "x", "properties": {"fail_reason": "f"}}, function_name="f"),
                node("FindCodeSnippet", code_snippet="c", file_pattern="a.py"),
                node("ViewCode", files=[{"file_path": "a.py", "span_ids": ["f"]}]),
                {
                    "node_id": 2,
                    "action": {
                        "action_args_class": "x.EditActionArguments",
                        "command": "insert",
                        "path": "a.py",
                        "insert_line": 2,
                        "new_str": "y",
                    },
                },
                node("StringReplace", path="a.py", old_str="x", new_str="y", scratch_pad="why"),
                node("Finish"),
                node("Reject"),
                node("Message"),
                node("SendMessage"),
                node("Fly", a=1, scratch_pad="why"),
                {"node_id": 3, "action": {}},
            ],
            "agent": {"completion": {"model": "m"}},
            "metadata": {"instance_id": "p"},
        }
    )
    assert about(run) == {
        "trajectory_id": "x",
        "path": "x.json",
        "format": "moatless-v2",
        "problem": "p",
        "model": "m",
        "cost_usd": 0.5,
        "warnings": tuple(
            f"unknown tool '{name}' (1 calls) counted as a step that touches nothing" for name in ("", "Fly")
        ),
    }
    assert run.blind_signals == ("exit codes", "shell commands", "time stamps")
    spent = {"tokens_in": 7, "tokens_out": 3}
    search = {"operation": Operation.SEARCH}
    assert [told(state) for state in run.states][:6] == [
        {
            **search,
            "tool": "FindClass",
            "command": "grep C .",
            "thought": "why",
            "outcome": "ok",
            "observation": "found",
            **spent,
        },
        {
            **search,
            "tool": "SemanticSearch",
            "command": "grep q .",
            "outcome": "error",
            "observation": "x",
            **spent,
        },
        {**search, "tool": "FindFunction", "command": "grep f .", "outcome": "error", "observation": "x"},
        {**search, "tool": "FindCodeSnippet", "path": "a.py", "command": "grep c a.py"},
        {"tool": "ViewCode", "operation": Operation.VIEW, "path": "a.py", "scope": "f"},
        {
            "tool": "str_replace_editor",
            "operation": Operation.INSERT,
            "path": "a.py",
            "lines": (2, 2),
            "edits": [("", "y", (2, 2))],
        },
    ]
    assert told(run.states[6]) == {
        "tool": "StringReplace",
        "operation": Operation.REPLACE,
        "path": "a.py",
        "edits": [("x", "y")],
        "thought": "why",
    }
    assert [(state.tool, state.operation) for state in run.states][7:11] == [
        ("Finish", Operation.FINISH),
        ("Reject", Operation.MESSAGE),
        ("Message", Operation.MESSAGE),
        ("SendMessage", Operation.MESSAGE),
    ]
    assert run.states[11].content_digest == pinned("tool", "Fly", '{"a": 1}')
    assert run.states[12].content_digest == pinned("tool", "", "{}")
    assert one_run({"nodes": [{"node_id": 1}]}).cost_usd is None


@pytest.mark.parametrize(
    ("name", "given", "operation"),
    [
        ("CreateFile", {"path": "a.py", "file_text": "x"}, Operation.CREATE),
        ("InsertLines", {"path": "a.py", "insert_line": 2, "new_str": "x"}, Operation.INSERT),
        ("ListFiles", {"directory": "a.py"}, Operation.LIST),
        ("ReadFile", {"file_path": "a.py"}, Operation.VIEW),
    ],
)
def test_the_actions_of_later_nodes_are_tools_of_these_names(
    name: str, given: dict[str, Any], operation: Operation
) -> None:
    (state,) = one_run({"nodes": [node(name, **given)]}).states
    assert (state.tool, state.operation, state.path) == (name, operation, "a.py")
