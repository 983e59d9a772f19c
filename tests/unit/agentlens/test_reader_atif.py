"""ATIF: documents, lines of steps, continuations and sub-agents, and the deviations of real producers."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.agentlens.logs import about, one_run, refusal, runs, told
from workers.agentlens.trajectory import Operation


def step(*commands: str, number: int = 1, **more: Any) -> dict[str, Any]:
    calls = [
        {"tool_call_id": command, "function_name": "bash", "arguments": {"command": command}}
        for command in commands
    ]
    return {"step_id": number, "source": "agent", "tool_calls": calls, **more}


def log(*steps: Any, **more: Any) -> dict[str, Any]:
    return {"schema_version": "ATIF-v1.7", "steps": list(steps), **more}


def answers(*results: Any) -> dict[str, Any]:
    return {"observation": {"results": list(results)}}


def shell(command: str, **more: Any) -> dict[str, Any]:
    return {"tool": "bash", "operation": Operation.SHELL, "command": command, **more}


def states(*steps: Any, **more: Any) -> list[dict[str, Any]]:
    return [told(state) for state in one_run(log(*steps), **more).states]


def test_a_step_keeps_its_words_its_time_and_counts_its_tokens_once() -> None:
    results = answers(
        {"source_call_id": "make b", "content": "b", "extra": {"tool_result_is_error": True}},
        {"source_call_id": "make a", "content": [{"text": "a"}], "extra": {"is_error": False}},
        {"content": "nobody's"},
    )
    more = {
        "message": "why",
        "timestamp": "1970-01-01T00:00:05Z",
        "metrics": {"prompt_tokens": 7, "completion_tokens": 3},
    }
    assert states(
        step("make a", "make b", "make c", **results, **more), step("make", message=[{"text": "x"}])
    ) == [
        shell(
            "make a", thought="why", timestamp=5.0, tokens_in=7, tokens_out=3, outcome="ok", observation="a"
        ),
        shell(
            "make b",
            thought="why",
            timestamp=5.0,
            tokens_in=0,
            tokens_out=0,
            outcome="error",
            observation="b",
        ),
        shell("make c", thought="why", timestamp=5.0, tokens_in=0, tokens_out=0, observation="nobody's"),
        shell("make", thought="x"),
    ]


def test_results_without_an_id_go_by_their_order_or_are_shared() -> None:
    assert states(
        step("make a", "make b", **answers({"content": "a"}, {"content": "b"})),
        step("make c", "make d", **answers({"content": "both"})),
        step("make e", **answers({"content": "e"}, {"content": "more"})),
        step("make f", **answers({"source_call_id": "other", "content": "x"})),
        step("make g", observation={"results": None}),
    ) == [
        shell("make a", observation="a"),
        shell("make b", observation="b"),
        shell("make c", observation="both"),
        shell("make d", observation="both"),
        shell("make e", observation="e"),
        shell("make f"),
        shell("make g"),
    ]


def test_calls_have_two_forms_or_stand_in_the_message() -> None:
    text = "<function=bash><parameter=command>make b</parameter></function>"
    other = {"id": "1", "name": "bash", "arguments": {"command": "make a"}}
    assert states(
        {
            "step_id": 1,
            "source": "agent",
            "tool_calls": [other],
            **answers({"source_call_id": "1", "content": "a"}),
        },
        {"step_id": 2, "source": "agent", "message": text, **answers({"content": "b"})},
        {"step_id": 3, "source": "user", "message": text},
        step("make c", source="system"),
        step("make d", is_copied_context=True),
        step("make e", is_copied_context="true"),
    ) == [
        shell("make a", observation="a"),
        shell("make b", observation="b", thought=text),
        shell("make e"),
    ]


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (None, ""),
        ("x", "x"),
        ({"text": "x", "content": "y"}, "x"),
        ({"detailedContent": "x", "content": "y"}, "x"),
        ({"content": "x", "output": "y"}, "x"),
        ({"output": "x", "stdout": "y"}, "x"),
        ({"stdout": "x"}, "x"),
        ({"stdout": 1, "b": 2}, '{"b": 2, "stdout": 1}'),
    ],
)
def test_a_result_may_be_an_object_where_a_text_is_due(content: Any, text: str) -> None:
    (state,) = states(step("make", **answers({"content": content})))
    assert state.get("observation", "") == text


def test_a_late_result_names_its_call() -> None:
    def late(name: str, content: str, success: Any = None, source: str = "system") -> dict[str, Any]:
        observation = {"content": content, "result": {"success": success}}
        return {
            "step_id": 9,
            "source": source,
            "message": "Tool result for " + name,
            "observation": observation,
        }

    def call(name: str) -> dict[str, Any]:
        given = {"tool_call_id": name, "function_name": "bash", "arguments": {"command": "make " + name}}
        return {"step_id": 1, "source": "agent", "tool_calls": [given]}

    assert states(
        call("a"),
        late("a", "made", True),
        call("b"),
        late("b", "broken", False),
        call("c"),
        late("c", "said", "yes"),
        call("d"),
        late("d", "typed", True, "user"),
        {"step_id": 9, "source": "system", "message": ["x"]},
    ) == [
        shell("make a", outcome="ok", observation="made"),
        shell("make b", outcome="error", observation="broken"),
        shell("make c", observation="said"),
        shell("make d"),
    ]


def test_a_run_says_what_it_is_of() -> None:
    document = log(
        step("cat /src/a", number=4),
        trajectory_id="t",
        session_id="s",
        agent={"model_name": "m", "model": "n", "extra": {"cwd": "/src"}},
        final_metrics={"total_cost_usd": 0.5},
    )
    beside = {"result.json": b"{", "../result.json": {"task_name": "p", "verifier_result": {"reward": 1}}}
    run = one_run(document, "d/trajectory.json", beside=beside)
    assert about(run) == {
        "trajectory_id": "t",
        "path": "d/trajectory.json",
        "format": "atif",
        "problem": "p",
        "model": "m",
        "outcome": "passed",
        "cost_usd": 0.5,
        "warnings": ("the log starts at step 4",),
    }
    assert run.states[0].path == "a"
    assert run.blind_signals == ("exit codes where the text does not show them",)
    report = {
        "result.json": {"x": 1},
        "../result.json": {"task_name": "p"},
        "report.json": {"p": {"resolved": 0}},
    }
    assert one_run(document, beside=report).outcome == "failed"
    odd = {"result.json": {"task_name": 5}, "report.json": {"resolved": True}}
    run = one_run(log(step(), session_id="s", agent={"model": "n", "extra": {"cwd": 5}}), beside=odd)
    assert about(run) == {
        "trajectory_id": "s",
        "path": "x.json",
        "format": "atif",
        "model": "n",
        "outcome": "passed",
        "warnings": ("no tool calls",),
    }
    bare = one_run(log({"step_id": None, "source": "user"}, agent={"model": 5}), "d/y.trajectory.json")
    assert about(bare) == {
        "trajectory_id": "y",
        "path": "d/y.trajectory.json",
        "format": "atif",
        "warnings": ("no tool calls",),
    }


@pytest.mark.parametrize("version", ["ATIF-v1.0", "ATIF-v1.10.2", "1.4"])
def test_a_document_is_known_by_its_version_and_its_steps(version: str) -> None:
    assert one_run({"schema_version": version, "steps": []}).format == "atif"
    for other in ({"schema_version": version}, {"schema_version": version + "x", "steps": []}, {"steps": []}):
        assert "no known trajectory format" in refusal(other)


def test_lines_are_documents_or_steps_with_or_without_a_header() -> None:
    documents = [log(step("make a"), trajectory_id="a"), log(step("make b"), trajectory_id="b")]
    assert [run.trajectory_id for run in runs(documents, "x.jsonl")] == ["a", "b"]
    header = {"__header__": True, "trajectory_id": "h"}
    versioned = {"schema_version": "1.4", "trajectory_id": "v"}
    steps = [step("make a", number=3), step("make b", number=4)]
    for lines, name in (([header, *steps], "h"), ([*steps, versioned], "v"), (steps, "x")):
        run = one_run(lines, "x.jsonl")
        assert [told(state) for state in run.states] == [shell("make a"), shell("make b")]
        assert (run.trajectory_id, run.warnings) == (name, ("the log starts at step 3",))


def test_a_continuation_is_read_after_the_file_it_continues() -> None:
    last = log(step("make b"))
    first = log(step("make a"), continued_trajectory_ref="next.json")
    assert states(*first["steps"]) == [shell("make a")]
    run = one_run(first, beside={"next.json": last})
    assert [told(state) for state in run.states] == [shell("make a"), shell("make b")]
    assert one_run(first).warnings == ("continuation next.json is not there",)
    for ref in ("", 5):
        assert one_run({**first, "continued_trajectory_ref": ref}).warnings == ()


def test_sub_agents_stand_after_the_call_that_started_them() -> None:
    def started(*references: Any) -> dict[str, Any]:
        named = references[0] if len(references) == 1 else [*references]
        return answers({"content": "x", "subagent_trajectory_ref": named})

    embedded = log(step("make b"), trajectory_id="sub")
    run = one_run(
        {
            **log(
                step("make a", **started({"trajectory_id": "sub"}, {"trajectory_path": "sub.json"}, "x")),
                step("make d", **started({"trajectory_path": "away.json"})),
            ),
            "subagent_trajectories": [embedded],
        },
        beside={"sub.json": log(step("make c"))},
    )
    assert [told(state)["command"] for state in run.states] == ["make a", "make b", "make c", "make d"]
    assert run.warnings == ("sub-agent away.json is not there",)


def test_sub_agents_nest_eight_deep_at_most() -> None:
    def level(number: int) -> dict[str, Any]:
        reference = {"trajectory_path": f"{number + 1}.json"}
        return log(step(f"make {number}", **answers({"subagent_trajectory_ref": reference})))

    beside = {f"{number}.json": level(number) for number in range(1, 20)}
    run = one_run(level(0), beside=beside)
    assert [told(state)["command"] for state in run.states] == [f"make {number}" for number in range(9)]


VERSION = "expected ATIF-v1.0 to ATIF-v1.8"


@pytest.mark.parametrize(
    ("document", "name", "sentence"),
    [
        (5, "x.json", "file: expected an object, found a number"),
        ({}, "x.json", f"schema_version: {VERSION}"),
        (log() | {"steps": 5}, "x.json", "steps: expected a list, found a number"),
        ([log(), {**log(), "steps": 5}], "x.jsonl", "line 2: steps: expected a list, found a number"),
        (log(step(), 5), "x.json", "steps[1]: expected an object, found a number"),
        ([log(5)], "x.jsonl", "line 1: steps[0]: expected an object, found a number"),
        ([step(), 5], "x.jsonl", "line 2: expected an object, found a number"),
        ([step(), step("x", tool_calls=5)], "x.jsonl", "line 2.tool_calls: expected a list, found a number"),
        (log(trajectory_id=5), "x.json", "trajectory_id: expected a text, found a number"),
        ([log(trajectory_id=5)], "x.jsonl", "line 1: trajectory_id: expected a text, found a number"),
        (
            log(step("x", observation={"results": 5})),
            "x.json",
            "steps[0].observation.results: expected a list, found a number",
        ),
        (
            log(step("x", **answers(5))),
            "x.json",
            "steps[0].observation.results: expected an object, found a number",
        ),
        (
            log(step("x", tool_calls=[{"name": "x"}, 5])),
            "x.json",
            "steps[0].tool_calls[1]: expected an object, found a number",
        ),
        (
            log(step("x", tool_calls=[{"name": ""}])),
            "x.json",
            "steps[0].tool_calls[0].function_name: expected the tool's name",
        ),
        (
            log(subagent_trajectories=[log(), 5]),
            "x.json",
            "subagent_trajectories[1]: expected an object, found a number",
        ),
        (log(subagent_trajectories=[{}]), "x.json", f"subagent_trajectories[0].schema_version: {VERSION}"),
        (
            log(continued_trajectory_ref="bad.json"),
            "x.json",
            "bad.json: not JSON: Expecting value: line 1 column 1 (char 0)",
        ),
        (
            log(continued_trajectory_ref="list.json"),
            "x.json",
            "list.json: expected an object, found a list",
        ),
        (log(continued_trajectory_ref="empty.json"), "x.json", f"empty.json: schema_version: {VERSION}"),
    ],
)
def test_what_is_wrong_in_a_document_is_said_where_it_is(document: Any, name: str, sentence: str) -> None:
    beside = {"bad.json": b"x", "list.json": [], "empty.json": {}}
    assert refusal(document, name, format_name="atif", beside=beside) == f"{name}: {sentence}"
