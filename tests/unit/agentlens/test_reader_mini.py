"""mini-swe-agent: trajectories 1 and 1.1 and bare message lists, in the forms of several model interfaces."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.agentlens.logs import about, one_run, refusal, told
from workers.agentlens.trajectory import Operation


def log(*messages: Any, **more: Any) -> dict[str, Any]:
    return {"trajectory_format": "mini-swe-agent-1.1", "messages": list(messages), "info": {}, **more}


def states(*messages: Any, **more: Any) -> list[dict[str, Any]]:
    return [told(state) for state in one_run(log(*messages, **more)).states]


def shell(command: str, **more: Any) -> dict[str, Any]:
    return {"tool": "bash", "operation": Operation.SHELL, "command": command, **more}


def test_the_run_says_what_it_is_of() -> None:
    info = {
        "config": {"environment": {"cwd": "/src"}, "model": {"model_name": "m"}},
        "model_stats": {"instance_cost": 0.25},
    }
    turn = {"role": "assistant", "content": "```bash\ncat /src/lib/a\n```"}
    run = one_run(
        log({"role": "system"}, turn, {"role": "exit"}, info=info, instance_id="p"),
        "d/y.traj.json",
        beside={"../report.json": {"p": {"resolved": True}}},
    )
    assert about(run) == {
        "trajectory_id": "y",
        "path": "d/y.traj.json",
        "format": "mini-swe-agent",
        "problem": "p",
        "model": "m",
        "outcome": "passed",
        "cost_usd": 0.25,
    }
    assert run.blind_signals == ("structured edits",)
    assert [told(state) for state in run.states] == [
        shell("cat /src/lib/a", path="lib/a", thought="```bash\ncat /src/lib/a\n```")
    ]
    bare = one_run(log(info={"config": {"environment": {"cwd": 5}, "model": {"model_name": 5}}}))
    assert about(bare) == {
        "trajectory_id": "x",
        "path": "x.json",
        "format": "mini-swe-agent",
        "warnings": ("no tool calls",),
    }


def test_actions_of_a_turn_find_their_results_by_id_and_count_its_tokens_once() -> None:
    turn = {
        "role": "assistant",
        "content": "why",
        "extra": {
            "actions": [
                {"command": "make a", "tool_call_id": "1"},
                {"command": "make b", "tool_call_id": "2"},
            ],
            "response": {"usage": {"prompt_tokens": 7, "completion_tokens": 3}, "created": 5},
            "timestamp": 1.5,
        },
    }
    results = [
        {
            "role": "tool",
            "tool_call_id": "2",
            "content": "cut",
            "extra": {"raw_output": "whole", "returncode": 1},
        },
        {"role": "tool", "tool_call_id": "1", "content": "text", "extra": {"returncode": 0}},
        {"role": "tool", "tool_call_id": "3", "content": "nobody's"},
    ]
    assert states(turn, *results) == [
        shell(
            "make a",
            thought="why",
            tokens_in=7,
            tokens_out=3,
            timestamp=1.5,
            outcome="ok",
            exit_code=0,
            observation="text",
        ),
        shell(
            "make b",
            thought="why",
            tokens_in=0,
            tokens_out=0,
            timestamp=1.5,
            outcome="error",
            exit_code=1,
            observation="whole",
        ),
    ]


def test_tool_calls_of_a_chat_are_read() -> None:
    turn = {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "1", "function": {"arguments": json.dumps({"command": "make a"})}},
            {"id": "2", "arguments": json.dumps({"command": "make b"})},
            {"id": "3", "function": {"arguments": "no JSON"}},
            {"id": "4", "function": {"arguments": {"command": "make d"}}},
            {"id": 5, "function": {}},
            {"id": "6", "function": {"arguments": json.dumps({"command": 6})}},
        ],
        "usage": {"input_tokens": 7, "output_tokens": 3},
        "created": 5,
    }
    results = [
        {
            "role": "tool",
            "tool_call_id": "1",
            "content": "<returncode>2</returncode>\n<output>\nbroken\n</output>",
        },
        {"role": "tool", "tool_call_id": "2", "content": "odd", "extra": {"exception_info": "lost"}},
        {"role": "tool", "tool_call_id": "3", "content": [{"type": "text", "text": "parts"}]},
    ]
    common = {"timestamp": 5.0}
    assert states(turn, *results) == [
        shell(
            "make a", tokens_in=7, tokens_out=3, outcome="error", exit_code=2, observation="broken", **common
        ),
        shell("make b", tokens_in=0, tokens_out=0, outcome="error", observation="odd", **common),
        shell("", tokens_in=0, tokens_out=0, observation="parts", **common),
        *[shell("", tokens_in=0, tokens_out=0, **common)] * 3,
    ]


def test_items_of_the_responses_interface_are_read() -> None:
    turn = {
        "object": "response",
        "output": [
            {"type": "reasoning"},
            "x",
            {
                "type": "function_call",
                "call_id": "1",
                "name": "bash",
                "arguments": json.dumps({"command": "make"}),
            },
        ],
        "extra": {"response": {}},
        "usage": {"input_tokens": 7, "output_tokens": 3},
    }
    result = {
        "type": "function_call_output",
        "call_id": "1",
        "output": "made",
        "extra": {"raw_output": 5, "returncode": 0.0},
    }
    assert states(turn, result) == [
        shell("make", tokens_in=7, tokens_out=3, outcome="ok", exit_code=0, observation="made")
    ]


def test_the_first_fenced_command_is_run_and_the_user_answers() -> None:
    text = "```mswea_bash_command\nmake a\n```\n```bash\nmake b\n```"
    turn = {"role": "assistant", "content": text}
    for answer, more in (
        (
            "<returncode>0</returncode>\n<output>\nmade\n</output>",
            {"outcome": "ok", "exit_code": 0, "observation": "made"},
        ),
        ("<returncode>1</returncode>", {"outcome": "error", "exit_code": 1}),
        ("words", {"observation": "words"}),
    ):
        expected = shell("make a", thought=text, **more)
        assert states({"role": "user", "content": "task"}, turn, {"role": "user", "content": answer}) == [
            expected
        ]
    stopped = {"role": "user", "content": "stop", "extra": {"interrupt_type": "user"}}
    assert states(turn, stopped) == [shell("make a", thought=text)]


@pytest.mark.parametrize("sentinel", ["COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT", "MINI_SWE_AGENT_FINAL_OUTPUT"])
def test_the_command_that_submits_ends_the_run(sentinel: str) -> None:
    turn = {"role": "assistant", "extra": {"actions": [{"command": f"echo {sentinel}", "tool_call_id": 5}]}}
    assert states(turn, {"role": "user", "content": "bye"}) == [
        {"tool": "bash", "operation": Operation.FINISH, "outcome": "ok", "observation": "bye"}
    ]


def test_a_bare_list_is_known_by_its_answers_or_its_fences() -> None:
    for content in ("<returncode>0</returncode>", "```mswea_bash_command\nls\n```"):
        filler = [{"role": "user", "content": "x"}] * 5
        assert one_run([*filler, {"role": "user", "content": content}]).format == "mini-swe-agent"
        assert one_run([*filler, filler[0], {"role": "user", "content": content}]).format == "chat"
    assert refusal([5, {"content": "<returncode>0</returncode>"}]) == (
        "x.json: messages[0]: expected an object, found a number"
    )


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (5, "file: expected an object, found a number"),
        ({}, "messages: expected a list, found null"),
        (log(), ""),
        (log({"role": "exit"}, "x"), "messages[1]: expected an object, found a text"),
        (
            log({"role": "exit"}, {"role": "robot"}),
            "messages[1].role: expected system, user, assistant, tool or exit, found 'robot'",
        ),
        (log(instance_id=5), "instance_id: expected a text, found a number"),
        (
            log({"role": "assistant", "extra": {"actions": [{}, "x"]}}),
            "messages[0].extra.actions[1]: expected an object, found a text",
        ),
        (
            log({"role": "assistant", "extra": {"actions": [{}, {"command": 5}]}}),
            "messages[0].extra.actions[1].command: expected a text, found a number",
        ),
        (
            log({"role": "assistant", "tool_calls": {"a": 1}}),
            "messages[0].tool_calls: expected a list, found an object",
        ),
        (
            log({"role": "assistant", "tool_calls": [{}, "x"]}),
            "messages[0].tool_calls[1]: expected an object, found a text",
        ),
        (
            log({"role": "assistant", "tool_calls": [{}, {"function": 5}]}),
            "messages[0].tool_calls[1].function: expected an object, found a number",
        ),
    ],
)
def test_what_is_wrong_in_a_log_is_said_where_it_is(document: Any, sentence: str) -> None:
    assert refusal(document, format_name="mini-swe-agent") == (f"x.json: {sentence}" if sentence else "")
