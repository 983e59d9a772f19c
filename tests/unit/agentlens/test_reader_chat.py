"""Chat rows: messages with calls, in the dialects of several producers, and what a row says beside them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.agentlens.logs import about, one_run, refusal, runs, told
from workers.agentlens.formats.chat import FORMAT
from workers.agentlens.trajectory import Operation

TASK = {"role": "user", "content": "x <uploaded_files>\n/src/x/\n</uploaded_files> y"}


def call(identifier: Any, command: str, name: str = "bash") -> dict[str, Any]:
    return {"id": identifier, "function": {"name": name, "arguments": json.dumps({"command": command})}}


def shell(command: str, **more: Any) -> dict[str, Any]:
    return {"tool": "bash", "operation": Operation.SHELL, "command": command, **more}


def states(*messages: Any, **row: Any) -> list[dict[str, Any]]:
    return [told(state) for state in one_run({"messages": [TASK, *messages], **row}).states]


def test_calls_keep_thought_and_results_and_the_tokens_of_their_turn_once() -> None:
    assert states(
        {"role": "system", "content": "s"},
        {"role": "developer", "content": "s"},
        {
            "role": "ai",
            "content": [{"type": "text", "text": "why"}, {"type": "text", "text": "so"}],
            "usage": {"prompt_tokens": 7, "completion_tokens": 3},
            "tool_calls": [
                call("a", "cat /src/x/1"),
                {"id": "b", "name": "bash", "arguments": {"command": "cat 2"}},
                call(5, "cat 3"),
                call("d", "cat 4"),
            ],
        },
        {"role": "tool", "tool_call_ids": ["b"], "content": "OBSERVATION:\ntwo"},
        {"role": "function", "tool_call_id": "a", "text": "one"},
        {"type": "function_call_output", "tool_call_id": "z", "content": "three"},
        {"role": "tool", "tool_call_ids": [], "content": [{"text": "four"}]},
        {"role": "tool", "content": None},
        {"role": "exit", "content": "bye"},
    ) == [
        shell(
            "cat /src/x/1",
            path="1",
            outcome="ok",
            observation="one",
            thought="why\nso",
            tokens_in=7,
            tokens_out=3,
        ),
        shell(
            "cat 2", path="2", outcome="ok", observation="two", thought="why\nso", tokens_in=0, tokens_out=0
        ),
        shell(
            "cat 3", path="3", outcome="ok", observation="three", thought="why\nso", tokens_in=0, tokens_out=0
        ),
        shell(
            "cat 4", path="4", outcome="ok", observation="four", thought="why\nso", tokens_in=0, tokens_out=0
        ),
    ]


def test_a_result_without_its_call_is_told_and_a_turn_without_an_answer_is_kept() -> None:
    run = one_run(
        [
            {"role": "assistant", "content": "", "tool_calls": [call("a", "pwd")]},
            {"role": "assistant", "content": "", "tool_calls": [call("b", "make")]},
            {"role": "tool", "tool_call_id": "a", "content": "late"},
            {"role": "tool", "content": "both"},
            {"role": "tool", "content": "more"},
        ]
    )
    assert [told(state) for state in run.states] == [shell("pwd"), shell("make", observation="both")]
    assert run.warnings == ("2 results without their call",)


def test_an_answer_of_the_environment_is_shared_by_the_calls_of_a_turn() -> None:
    text = "<function=bash><parameter=command>pwd</parameter></function><function=bash>\n</function>"
    first, second = states({"role": "assistant", "content": text}, {"role": "human", "content": "here"})
    assert first == shell("pwd", observation="here", thought=text)
    assert second == shell("bash {}", observation="here", outcome="ok", thought=text)


@pytest.mark.parametrize("role", ["user", "human", "environment"])
def test_a_fenced_command_is_answered_with_its_code(role: str) -> None:
    text = "so\n```bash\nmake\n```"
    for answer, more in (
        (
            "<returncode>2</returncode>\n<output>\nbroken\n</output>",
            {"exit_code": 2, "observation": "broken"},
        ),
        ("<returncode>2</returncode>", {"exit_code": 2}),
        ("<returncode>x</returncode>", {"observation": "<returncode>x</returncode>"}),
    ):
        ended = {"outcome": "error"} if "exit_code" in more else {}
        assert states({"role": "assistant", "content": text}, {"role": role, "content": answer}) == [
            shell("make", thought=text, **ended, **more)
        ]


def test_blocks_of_tool_use_are_calls() -> None:
    assert states(
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "why"},
                {"type": "tool_use", "name": "bash", "input": {"command": "pwd"}, "id": "a"},
                {"type": "tool_use", "name": "bash", "input": {"command": "make"}, "id": "b"},
                "word",
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "b", "content": [{"text": "made"}], "is_error": True},
                {"type": "text", "tool_use_id": "a", "content": "no result"},
                {"type": "tool_result", "tool_use_id": "a", "content": "here", "is_error": False},
                "word",
            ],
        },
        {"role": "user", "content": [{"type": "text", "text": "go on"}]},
    ) == [
        shell("pwd", outcome="ok", observation="here", thought="why\nword"),
        shell("make", outcome="error", observation="made", thought="why\nword"),
    ]


def test_a_list_of_parts_without_results_answers_as_a_text() -> None:
    assert states(
        {"role": "assistant", "content": "", "tool_calls": [call("a", "make")]},
        {"role": "user", "content": [{"type": "text", "text": "made"}, 5]},
    ) == [shell("make", observation="made")]


def test_the_dialect_of_swe_agent_is_its_last_fenced_block() -> None:
    prompt = "\n(Open file: n/a)\n(Current directory: /src/x)\nbash-$"
    row = {
        "messages": [
            {"role": "system", "content": "s"},
            {"role": "user", "content": "<uploaded_files>\n/src/x\n</uploaded_files>" + prompt},
            {"role": "assistant", "content": "why\n```\nls\n```\nor\n```\nopen a.py\n```"},
            {
                "role": "user",
                "content": "[File: /src/x/a.py (2 lines total)]\n1:one\n2:two\n(Open file: /src/x/a.py)\n"
                "(Current directory: /src/x)\nbash-$",
            },
            {"role": "ai", "content": "only words"},
            {"role": "user", "content": "what?"},
            {"role": "assistant", "content": "```\nsubmit\n```"},
        ]
    }
    run = one_run(row)
    assert [told(state) for state in run.states] == [
        {
            "tool": "open",
            "operation": Operation.VIEW,
            "path": "a.py",
            "lines": (1, 2),
            "outcome": "ok",
            "observation": "[File: /src/x/a.py (2 lines total)]\n1:one\n2:two",
            "thought": "why\n```\nls\n```\nor\n```\nopen a.py\n```",
        },
        {"tool": "submit", "operation": Operation.FINISH, "thought": "```\nsubmit\n```"},
    ]
    assert refusal([*row["messages"], {"role": "robot"}]) == (
        "x.json: file[7].role: expected system, user, assistant or tool, found 'robot'"
    )


DONE = {"role": "assistant", "content": "", "tool_calls": [call("a", "pwd")]}


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({}, {}),
        ({"trajectory_id": "t", "traj_id": "u"}, {"trajectory_id": "t"}),
        ({"trajectory_id": "", "traj_id": 7}, {"trajectory_id": "7"}),
        ({"run_id": "t"}, {"trajectory_id": "t"}),
        ({"trial_name": "t", "episode": "e"}, {"trajectory_id": "t"}),
        ({"id": "t"}, {"trajectory_id": "t"}),
        ({"instance_id": "p", "task": "q"}, {"problem": "p"}),
        ({"task": "p"}, {"problem": "p"}),
        ({"task_id": 5}, {"problem": "5"}),
        ({"problem": "p"}, {"problem": "p"}),
        ({"model": "m", "model_name": "n"}, {"model": "m"}),
        ({"model_name": "m"}, {"model": "m"}),
        ({"model_name_or_path": "m"}, {"model": "m"}),
        ({"resolved": True, "target": False}, {"outcome": "passed"}),
        ({"resolved": "?", "target": 0}, {"outcome": "failed"}),
        ({"passed": "yes"}, {"outcome": "passed"}),
        ({"outcome": "failed"}, {"outcome": "failed"}),
        ({"result": 1}, {"outcome": "passed"}),
        ({"result": {"verifier_result": {"reward": 1.0}}}, {"outcome": "passed"}),
        ({"report": {"resolved": True}}, {"outcome": "passed"}),
        ({"task": "p", "p": {"resolved": False}}, {"outcome": "failed", "problem": "p"}),
    ],
)
def test_a_row_says_what_it_is_of(row: dict[str, Any], expected: dict[str, Any]) -> None:
    run = one_run({"messages": [DONE], **row})
    assert about(run) == {"trajectory_id": "x", "path": "x.json", "format": "chat", **expected}
    assert run.blind_signals == ("exit codes where the text does not show them", "time stamps")
    assert FORMAT.blind_signals == run.blind_signals


def test_an_outcome_may_stand_beside_the_log() -> None:
    report = {"report.json": {"resolved_ids": ["p"]}}
    assert one_run({"messages": [DONE], "task": "p"}, beside=report).outcome == "passed"
    assert one_run({"messages": [DONE], "task": "q"}, beside=report).outcome == "unknown"


def test_rows_are_numbered_from_zero_and_episodes_of_a_trial_are_told_apart() -> None:
    rows = [
        {"messages": [DONE]},
        {"id": "t", "messages": [DONE]},
        {"id": "t", "episode": 3, "messages": [DONE]},
    ]
    assert [run.trajectory_id for run in runs(rows)] == ["x#0", "t", "t#3"]
    assert [run.trajectory_id for run in runs(rows, "x.jsonl")] == ["x#0", "t", "t#3"]
    assert [run.trajectory_id for run in runs(rows[2:])] == ["t"]
    assert [run.trajectory_id for run in runs([DONE, DONE], "y.jsonl")] == ["y"]


@pytest.mark.parametrize("name", ["messages", "trajectory", "conversations", "conversation"])
def test_messages_stand_in_one_of_four_columns_also_as_text(name: str) -> None:
    expected = [shell("pwd")]
    assert [told(state) for state in one_run({name: [DONE]}).states] == expected
    assert [told(state) for state in one_run({name: " " + json.dumps([DONE])}).states] == expected
    (run,) = runs([{name: json.dumps([DONE])}], "x.jsonl")
    assert [told(state) for state in run.states] == expected


COLUMNS = "no messages; expected one of the columns messages, trajectory, conversations, conversation"


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"messages": [5]}, "file: " + COLUMNS),
        ({"messages": "[{"}, "file: " + COLUMNS),
        ({"messages": [DONE, 5]}, "file[1]: expected an object, found a number"),
        ([{"messages": [DONE]}, "x"], "[1]: expected an object, found a text"),
        ([{"messages": [DONE]}, {}], "[1]: " + COLUMNS),
        (
            {"messages": [{"role": "robot"}]},
            "file[0].role: expected system, user, assistant or tool, found 'robot'",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": {"a": 1}}]},
            "file[0].tool_calls: expected a list, found an object",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": ["x"]}]},
            "file[0].tool_calls[0]: expected an object, found a text",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{}, {"function": 5}]}]},
            "file[0].tool_calls[1].function: expected an object, found a number",
        ),
        (
            {"messages": [{"role": "assistant", "tool_calls": [{"function": {"name": 5}}]}]},
            "file[0].tool_calls[0].function.name: expected a text, found a number",
        ),
    ],
)
def test_what_is_wrong_in_a_row_is_said_where_it_is(document: Any, sentence: str) -> None:
    assert refusal(document, format_name="chat") == "x.json: " + sentence


def test_the_folder_stands_in_one_of_the_first_four_messages() -> None:
    look = {"role": "assistant", "content": "", "tool_calls": [call("a", "cat /src/x/a")]}
    system = {"role": "system", "content": "s"}
    near = one_run([5, system, system, TASK, look][1:])
    far = one_run([system] * 4 + [TASK, look])
    assert (near.states[0].path, far.states[0].path) == ("a", "ext:/src/x/a")
