"""What single readers make of single records."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.agentlens.formats import read, read_lines, read_rows
from workers.agentlens.formats.seen import Seen
from workers.agentlens.formats.states import StateBuilder
from workers.agentlens.formats.textcalls import calls_in, fenced_commands
from workers.agentlens.formats.tools import add_call
from workers.agentlens.intents import label
from workers.agentlens.trajectory import Operation, State, Trajectory
from workers.errors import TrajectoryError


def only_state(name: str, arguments: Any, text: str = "") -> State:
    builder = StateBuilder()
    add_call(builder, name, arguments, Seen(text=text))
    (state,) = builder.states
    return state


@pytest.mark.parametrize(
    ("name", "arguments", "operation", "path"),
    [
        ("Bash", {"command": "ls a"}, Operation.SHELL, "a"),
        ("shell", {"command": ["bash", "-lc", "cat a.py"]}, Operation.SHELL, "a.py"),
        ("shell", {"command": ["cat", "a b.py"]}, Operation.SHELL, "a b.py"),
        ("exec_command", '{"cmd": "cat x.py", "workdir": "/testbed/lib"}', Operation.SHELL, "lib/x.py"),
        ("bash_command", {"keystrokes": "cat a.py\n"}, Operation.SHELL, "a.py"),
        ("Read", {"file_path": "/testbed/a.py"}, Operation.VIEW, "a.py"),
        ("Write", {"file_path": "a.py", "content": "x"}, Operation.CREATE, "a.py"),
        ("Edit", {"file_path": "a.py", "old_string": "x", "new_string": "y"}, Operation.REPLACE, "a.py"),
        ("Edit", {"file_path": "a.py", "old_string": "", "new_string": "y"}, Operation.CREATE, "a.py"),
        (
            "MultiEdit",
            {"file_path": "a.py", "edits": [{"old_string": "x", "new_string": "y"}]},
            Operation.REPLACE,
            "a.py",
        ),
        ("str_replace_editor", {"command": "view", "path": "/testbed/a.py"}, Operation.VIEW, "a.py"),
        (
            "str_replace_editor",
            {"command": "create", "path": "a.py", "file_text": ""},
            Operation.CREATE,
            "a.py",
        ),
        (
            "str_replace_editor",
            {"command": "insert", "path": "a.py", "insert_line": 3, "new_str": "x"},
            Operation.INSERT,
            "a.py",
        ),
        ("str_replace_editor", {"command": "undo_edit", "path": "a.py"}, Operation.UNDO, "a.py"),
        ("apply_patch", "*** Begin Patch\n*** Add File: a.py\n+x\n*** End Patch", Operation.PATCH, "a.py"),
        ("Grep", {"pattern": "x", "path": "src"}, Operation.SEARCH, "src"),
        ("Glob", {"pattern": "*.py"}, Operation.SEARCH, None),
        ("LS", {"path": "/testbed/src"}, Operation.LIST, "src"),
        ("TodoWrite", {"todos": []}, Operation.PLAN, None),
        ("think", {"thought": "x"}, Operation.THINK, None),
        ("submit", {}, Operation.FINISH, None),
        ("WebFetch", {"url": "x"}, Operation.BROWSE, None),
        ("Task", {"prompt": "x"}, Operation.DELEGATE, None),
    ],
)
def test_a_tool_is_known_whatever_its_agent_calls_it(
    name: str, arguments: Any, operation: Operation, path: str | None
) -> None:
    state = only_state(name, arguments)
    assert (state.operation, state.path, state.tool) == (operation, path, name)


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ({"view_range": [3, 9]}, (3, 9)),
        ({"view_range": "[3, 9]"}, (3, 9)),
        ({"view_range": [3, -1]}, (3, 1_000_000_000)),
        ({"offset": 10, "limit": 5}, (10, 14)),
        ({"start_line": 2, "end_line": 4}, (2, 4)),
        ({}, None),
    ],
)
def test_a_view_knows_its_lines(arguments: dict[str, Any], lines: tuple[int, int] | None) -> None:
    state = only_state("read_file", {"path": "a.py", **arguments})
    assert (state.lines and (state.lines.start, state.lines.end)) == lines


def test_views_of_distant_ranges_are_different_actions() -> None:
    one = only_state("view", {"path": "a.py", "view_range": [1, 20]})
    two = only_state("view", {"path": "a.py", "view_range": [500, 520]})
    assert one.content_digest != two.content_digest


def test_an_unknown_tool_is_a_step_that_touches_nothing_and_is_told() -> None:
    builder = StateBuilder()
    add_call(builder, "mcp__x__book", {"a": 1}, Seen())
    add_call(builder, "Bash", {"cmdx": 1}, Seen())
    assert [f"{state.intent}{state.rule}" for state in label(builder.states)] == ["O7", "O7"]
    assert builder.warnings == (
        "unknown tool 'Bash' (1 calls) counted as a step that touches nothing",
        "unknown tool 'mcp__x__book' (1 calls) counted as a step that touches nothing",
    )


def test_calls_are_found_in_text() -> None:
    assert calls_in("<function=execute_bash>\n<parameter=command>ls\npwd</parameter>\n</function>") == [
        ("execute_bash", {"command": "ls\npwd"})
    ]
    assert calls_in('x <tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>') == [("f", {"a": 1})]
    batch = '{"commands": [{"keystrokes": "ls\\n"}], "task_complete": true}'
    assert [name for name, _ in calls_in(batch)] == ["bash_command", "mark_task_complete"]
    assert calls_in("nothing here") == []
    assert fenced_commands("a\n```bash\nls\n```\nb\n```python\nx\n```") == ["ls"]


def one_run(document: Any, name: str = "x.json") -> Trajectory:
    (run,) = read(name, json.dumps(document).encode())
    return run


def test_results_find_their_calls_by_id_in_any_order() -> None:
    def call(identifier: str, command: str) -> dict[str, Any]:
        return {"id": identifier, "function": {"name": "bash", "arguments": json.dumps({"command": command})}}

    run = one_run(
        [
            {"role": "user", "content": "<uploaded_files>\n/repo/x\n</uploaded_files>"},
            {
                "role": "assistant",
                "content": "t",
                "tool_calls": [call("a", "cat /repo/x/1"), call("b", "cat 2")],
            },
            {"role": "tool", "tool_call_id": "b", "content": "two"},
            {"role": "tool", "tool_call_id": "a", "content": "one"},
            {"role": "tool", "tool_call_id": "c", "content": "three"},
        ]
    )
    assert [(state.path, state.observation, state.thought) for state in run.states] == [
        ("1", "one", "t"),
        ("2", "two", "t"),
    ]
    assert run.warnings == ("1 results without their call",)


def test_copied_context_is_no_step_and_parallel_calls_count_tokens_once() -> None:
    def step(identifier: int, **more: Any) -> dict[str, Any]:
        calls = [
            {"tool_call_id": f"{identifier}{part}", "function_name": "bash", "arguments": {"command": "ls"}}
            for part in "ab"
        ]
        return {"step_id": identifier, "source": "agent", "message": "", "tool_calls": calls, **more}

    run = one_run(
        {
            "schema_version": "ATIF-v1.8",
            "agent": {"name": "x"},
            "steps": [
                step(1, is_copied_context=True),
                step(2, metrics={"prompt_tokens": 7, "completion_tokens": 3}),
            ],
        }
    )
    assert [(state.tokens_in, state.tokens_out) for state in run.states] == [(7, 3), (0, 0)]


def test_an_embedded_sub_agent_stands_after_the_call_that_started_it() -> None:
    def agent_step(name: str, arguments: Any, observation: Any) -> dict[str, Any]:
        return {
            "step_id": 1,
            "source": "agent",
            "message": "",
            "tool_calls": [{"tool_call_id": "1", "function_name": name, "arguments": arguments}],
            "observation": observation,
        }

    inner = {
        "schema_version": "ATIF-v1.7",
        "trajectory_id": "sub",
        "agent": {},
        "steps": [agent_step("bash", {"command": "ls"}, {})],
    }
    result = {
        "results": [
            {"source_call_id": "1", "content": "x", "subagent_trajectory_ref": [{"trajectory_id": "sub"}]}
        ]
    }
    run = one_run(
        {
            "schema_version": "ATIF-v1.7",
            "agent": {},
            "steps": [agent_step("Task", {}, result), agent_step("finish", {}, {})],
            "subagent_trajectories": [inner],
        }
    )
    assert [state.operation for state in run.states] == [
        Operation.DELEGATE,
        Operation.SHELL,
        Operation.FINISH,
    ]


def test_a_continuation_that_names_itself_ends() -> None:
    data = json.dumps(
        {"schema_version": "ATIF-v1.5", "agent": {}, "steps": [], "continued_trajectory_ref": "me.json"}
    ).encode()
    (run,) = read("me.json", data, beside=lambda _name: data)
    assert run.states == ()


def test_only_the_active_branch_of_a_conversation_counts() -> None:
    def action(identifier: str, parent: str | None, command: str) -> dict[str, Any]:
        return {
            "kind": "ActionEvent",
            "id": identifier,
            "parent_id": parent,
            "source": "agent",
            "tool_name": "terminal",
            "tool_call_id": identifier,
            "action": {"kind": "TerminalAction", "command": command},
        }

    events = [action("1", None, "cat a"), action("2", "1", "cat b"), action("3", "1", "cat c")]
    (run,) = read("e.jsonl", "\n".join(map(json.dumps, events)).encode())
    assert [state.path for state in run.states] == ["a", "c"]


def test_old_pairs_of_action_and_observation_are_read() -> None:
    pairs = [
        [
            {"source": "agent", "action": "run", "args": {"command": "pytest"}},
            {"source": "agent", "observation": "run", "content": "1 passed", "extras": {"exit_code": 0}},
        ]
    ]
    run = one_run(
        {"instance_id": "p", "history": pairs, "test_result": {"report": {"resolved": True}}}, "output.jsonl"
    )
    assert [(state.exit_code, state.outcome) for state in run.states] == [(0, "ok")]
    assert (run.problem, run.outcome) == ("p", "passed")


def test_a_folder_change_does_not_outlive_a_fresh_shell() -> None:
    messages = [
        {"role": "assistant", "content": f"```bash\n{line}\n```"}
        if line
        else {"role": "user", "content": "<returncode>0</returncode>"}
        for line in ("cd lib && cat a.py", "", "cat b.py", "")
    ]
    run = one_run(
        {"trajectory_format": "mini-swe-agent-1", "messages": messages, "info": {}, "instance_id": "p"},
        "p.traj.json",
    )
    assert [state.path for state in run.states] == ["lib/a.py", "b.py"]


def test_an_event_stream_without_root_takes_the_workspace() -> None:
    events = [{"id": 1, "source": "agent", "action": "read", "args": {"path": "/workspace/a/b.py"}}]
    assert one_run(events).states[0].path == "a/b.py"


def test_rows_of_a_table_are_told_apart() -> None:
    rows = [{"messages": [{"role": "user", "content": "x"}], "resolved": flag} for flag in (True, False)]
    runs = list(read_rows("t.parquet", rows))
    assert [(run.trajectory_id, run.outcome) for run in runs] == [("t#1", "passed"), ("t#2", "failed")]


KEYS = (
    "steps schema_version source tool_calls function_name arguments observation results content role",
    "messages trajectory action state history agent kind id tool_name args cause states log_entry metadata",
    "initial_state nodes node_id transitions actions name info type message payload sessionId extra",
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from(["", "x", "agent", "user", "assistant", "ls", "run"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from([word for line in KEYS for word in line.split()]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=25,
)


@settings(max_examples=300)
@given(JSON, st.sampled_from(["x.json", "x.jsonl"]))
def test_any_json_is_an_answer_or_a_sentence(document: Any, name: str) -> None:
    if isinstance(document, dict) and "steps" in document:
        document["schema_version"] = "ATIF-v1.7"
    sentence = ""
    runs: list[Trajectory] = []
    try:
        runs = list(read(name, json.dumps(document).encode()))
    except TrajectoryError as error:
        sentence = str(error)
    assert sentence.startswith(name + ": ") or all(isinstance(run, Trajectory) for run in runs)


@settings(max_examples=200)
@given(st.binary(max_size=40))
def test_any_bytes_are_an_answer_or_a_sentence(data: bytes) -> None:
    with pytest.raises(TrajectoryError):
        list(read("x.json", data))


def test_a_strange_line_among_atif_documents_is_no_run_without_steps() -> None:
    document = {"schema_version": "ATIF-v1.4", "steps": [{"step_id": 1, "source": "user", "message": "x"}]}
    lines = [json.dumps(document).encode(), b'{"instance_id": "p", "messages": []}', b'{"__header__": true}']
    first, *others = read_lines("x.jsonl", lines)
    assert isinstance(first, Trajectory)
    assert [str(other) for other in others] == [
        f"x.jsonl: line {line}: expected a document with schema_version and steps, as the first line"
        for line in (2, 3)
    ]


def test_a_table_of_a_refused_format_is_refused_once() -> None:
    rows = [{"trace": "{}", "labels": ""}] * 3
    with pytest.raises(TrajectoryError, match=r"x\.parquet: file: OpenTelemetry spans"):
        list(read_rows("x.parquet", rows))


def test_an_export_is_refused_before_all_of_it_is_read() -> None:
    taken = []

    def lines() -> Iterator[bytes]:
        for number in range(1000):
            taken.append(number)
            yield json.dumps({"scoring_version": "1.0", "wasted_steps": [], "messages": []}).encode()

    with pytest.raises(TrajectoryError, match="made from runs is no run"):
        list(read_lines("train.jsonl", lines()))
    assert len(taken) < 10
