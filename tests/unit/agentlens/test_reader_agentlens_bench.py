"""The runs of AgentLens-Bench: raw arguments and observations, and nothing of the labels beside them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.agentlens.logs import about, one_run, pinned, refusal, told
from workers.agentlens.trajectory import Operation

END = 1_000_000_000


def state(tool: Any, response: Any = "", /, turn: Any = None, **arguments: Any) -> dict[str, Any]:
    entry = {"tool": tool, "args": arguments, "response_preview": response}
    return {"log_entry": entry, "metadata": turn, "stage": "E", "scope": "theirs"}


def log(*states: Any, **metadata: Any) -> dict[str, Any]:
    keyed = {f"S{number}": value for number, value in enumerate(states)}
    return {"initial_state": "S0", "states": keyed, "metadata": metadata}


def test_a_run_says_what_it_is_of() -> None:
    run = one_run(
        log({"log_entry": None}, {}, task_name="p", model_name="m", pass_fail_status="passed"),
        "d/y_pta.json",
    )
    assert about(run) == {
        "trajectory_id": "y",
        "path": "d/y_pta.json",
        "format": "agentlens-bench",
        "problem": "p",
        "model": "m",
        "outcome": "passed",
    }
    assert run.states == ()
    assert run.blind_signals == ("exit codes", "observations beyond 500 characters", "file contents")
    assert one_run(log(pass_fail_status="failed")).outcome == "failed"
    bare = one_run(log(task_name="", model_name=None, pass_fail_status="maybe"))
    assert about(bare) == {"trajectory_id": "x", "path": "x.json", "format": "agentlens-bench"}


TERMINAL = {"tool": "run_in_terminal", "operation": Operation.SHELL}
REPLACE = {"tool": "replace_string_in_file", "path": "a"}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            state(
                "run_in_terminal",
                "made",
                turn={"input_tokens": 7, "output_tokens": 3, "timestamp": "1970-01-01T00:00:05"},
                command="make",
                thought="why",
            ),
            {
                **TERMINAL,
                "command": "make",
                "observation": "made",
                "thought": "why",
                "tokens_in": 7,
                "tokens_out": 3,
                "timestamp": 5.0,
            },
        ),
        (
            state("run_in_terminal", command="cat /testbed/a"),
            {**TERMINAL, "command": "cat /testbed/a", "path": "a"},
        ),
        (state("run_in_terminal", command="y", is_input=True), TERMINAL),
        (state("run_in_terminal", command="y", is_input="true"), {**TERMINAL, "command": "y"}),
        (state("run_in_terminal", command=""), TERMINAL),
        (
            state("run_in_terminal", code="open('/testbed/a', 'w')"),
            {**TERMINAL, "command": "open('/testbed/a', 'w')", "path": "a"},
        ),
        (state("think", thought="x"), {"tool": "think", "operation": Operation.THINK, "thought": "x"}),
        (
            state("read_file", filePath="/lib/a"),
            {"tool": "read_file", "operation": Operation.VIEW, "path": "lib/a"},
        ),
        (
            state("read_file", filePath="/testbed/a", startLine=2, endLine=4),
            {"tool": "read_file", "operation": Operation.VIEW, "path": "a", "lines": (2, 4)},
        ),
        (
            state("read_file", filePath="/tmp/a", startLine=2),
            {"tool": "read_file", "operation": Operation.VIEW, "path": "scratch:/tmp/a", "lines": (2, END)},
        ),
        (state("list_dir", filePath="lib"), {"tool": "list_dir", "operation": Operation.LIST, "path": "lib"}),
        (
            state("create_file", "File created successfully", filePath="a", content="x\n"),
            {
                "tool": "create_file",
                "operation": Operation.CREATE,
                "path": "a",
                "lines": (1, 1),
                "edits": [("", "x\n")],
                "outcome": "ok",
                "observation": "File created successfully",
            },
        ),
        (
            state(
                "replace_string_in_file",
                "The file was edited successfully. The file /a has been edited.",
                filePath="/a",
                command="str_replace",
                oldString="x",
                newString="y",
            ),
            {
                **REPLACE,
                "operation": Operation.REPLACE,
                "edits": [("x", "y")],
                "outcome": "ok",
                "observation": "The file /a has been edited.",
            },
        ),
        (
            state("replace_string_in_file", filePath="/a", command="insert", insert_line=3, newString="y"),
            {**REPLACE, "operation": Operation.INSERT, "lines": (3, 3), "edits": [("", "y", (3, 3))]},
        ),
        (
            state("replace_string_in_file", filePath="/a", command="undo_edit"),
            {**REPLACE, "operation": Operation.UNDO},
        ),
    ],
)
def test_each_of_the_six_tools_is_its_step(given: dict[str, Any], expected: dict[str, Any]) -> None:
    run = one_run(log(given))
    assert [told(state) for state in run.states] == [expected]


def test_keys_are_told_apart() -> None:
    (pressed,) = one_run(log(state("run_in_terminal", command="y", is_input=True))).states
    assert pressed.content_digest == pinned("keys", "y")


ENTRY = "states.S0.log_entry"


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (5, "file: expected an object, found a number"),
        ({"states": {}}, "metadata: expected an object, found null"),
        ({"metadata": {}, "states": []}, "states: expected an object, found a list"),
        (log(5), "states.S0: expected an object, found a number"),
        (log(task_name=5), "metadata.task_name: expected a text, found a number"),
        (log(model_name=5), "metadata.model_name: expected a text, found a number"),
        (log({"log_entry": 5}), f"{ENTRY}: expected an object, found a number"),
        (log(state(5)), f"{ENTRY}.tool: expected a text, found a number"),
        (
            log({"log_entry": {"tool": "think", "args": 5}}),
            f"{ENTRY}.args: expected an object, found a number",
        ),
        (log(state("think", 5)), f"{ENTRY}.response_preview: expected a text, found a number"),
        (log(state("think", thought=5)), f"{ENTRY}.args.thought: expected a text, found a number"),
        (
            log(state("run_in_terminal", command=5)),
            f"{ENTRY}.args.command: expected a text, found a number",
        ),
        (log(state("run_in_terminal", code=5)), f"{ENTRY}.args.code: expected a text, found a number"),
        (log(state("list_dir", filePath=5)), f"{ENTRY}.args.filePath: expected a text, found a number"),
        (
            log(state("create_file", filePath="a", content=5)),
            f"{ENTRY}.args.content: expected a text, found a number",
        ),
        (
            log(state("replace_string_in_file", oldString=5)),
            f"{ENTRY}.args.oldString: expected a text, found a number",
        ),
        (
            log(state("replace_string_in_file", newString=5)),
            f"{ENTRY}.args.newString: expected a text, found a number",
        ),
        (
            log(state("replace_string_in_file", command="fly")),
            f"{ENTRY}.args.command: unknown edit 'fly'; expected str_replace, insert or undo_edit",
        ),
        (
            log(state("fly")),
            f"{ENTRY}.tool: unknown tool 'fly'; expected one of the six tools of AgentLens-Bench",
        ),
    ],
)
def test_what_is_wrong_in_a_run_is_said_where_it_is(document: Any, sentence: str) -> None:
    assert refusal(document, format_name="agentlens-bench") == "x.json: " + sentence


def test_a_run_is_known_by_its_states_keyed_by_name() -> None:
    assert one_run(log()).format == "agentlens-bench"
    for other in ({"states": {}, "metadata": {}}, {"initial_state": 1, "states": []}, {"initial_state": 1}):
        assert "no known trajectory format" in refusal(other)
