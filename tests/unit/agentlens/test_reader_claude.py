"""Claude Code's sessions: records, their sub-agents inside and in files beside, and what counts once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.agentlens.logs import about, one_run, refusal, told
from workers.agentlens.formats.claude_code import FORMAT
from workers.agentlens.trajectory import Operation


def use(identifier: str, command: str) -> dict[str, Any]:
    return {"type": "tool_use", "id": identifier, "name": "Bash", "input": {"command": command}}


def turn(*blocks: Any, **more: Any) -> dict[str, Any]:
    message = {"id": "m1", "content": list(blocks), **more.pop("message", {})}
    return {"type": "assistant", "sessionId": "s", "message": message, **more}


def answer(identifier: str, text: Any, **more: Any) -> dict[str, Any]:
    flag = {"is_error": more.pop("is_error")} if "is_error" in more else {}
    block = {"type": "tool_result", "tool_use_id": identifier, "content": text, **flag}
    return {"type": "user", "message": {"content": [{"type": "text"}, block]}, **more}


def shell(command: str, **more: Any) -> dict[str, Any]:
    return {"tool": "Bash", "operation": Operation.SHELL, "command": command, **more}


def states(*records: Any, **more: Any) -> list[dict[str, Any]]:
    return [told(state) for state in one_run(list(records), "d/x.jsonl", **more).states]


USAGE = {
    "input_tokens": 1,
    "cache_creation_input_tokens": 20,
    "cache_read_input_tokens": 300,
    "output_tokens": 5,
}


def test_a_turn_keeps_its_words_its_time_and_counts_its_tokens_once() -> None:
    words = {"type": "text", "text": "why"}
    assert states(
        turn({"type": "thinking", "thinking": "hm"}, message={"usage": USAGE}),
        turn(
            words,
            use("1", "cat /r/a"),
            use("2", "make"),
            message={"usage": USAGE},
            timestamp="1970-01-01T00:01:00Z",
            cwd="/r",
        ),
        turn(use("3", "ls b"), message={"usage": USAGE}, cwd="/r/lib", timestamp=7),
        answer("3", [{"type": "text", "text": "b"}]),
        answer("2", "broken", is_error=True),
        answer("1", "one", is_error="no"),
        turn(use("4", "make"), message={"id": "m2", "usage": {"output_tokens": 2}}),
        turn(use("5", "make"), message={"id": "m3", "usage": {}}),
        turn(use("6", "make"), use("7", "make"), message={"id": "m4", "usage": {"input_tokens": 4}}),
        answer("4", "made", is_error=False),
    ) == [
        shell(
            "cat /r/a",
            path="a",
            outcome="ok",
            observation="one",
            thought="why",
            tokens_in=321,
            tokens_out=5,
            timestamp=60.0,
        ),
        shell(
            "make",
            outcome="error",
            observation="broken",
            thought="why",
            tokens_in=0,
            tokens_out=0,
            timestamp=60.0,
        ),
        shell("ls b", path="lib/b", outcome="ok", observation="b", tokens_in=0, tokens_out=0, timestamp=7.0),
        shell("make", outcome="ok", observation="made", tokens_in=0, tokens_out=2),
        shell("make"),
        shell("make", tokens_in=4),
        shell("make", tokens_in=0, tokens_out=0),
    ]


def test_the_session_says_what_it_is_of() -> None:
    run = one_run(
        [
            {"type": "system", "session_id": "s", "cwd": 5},
            turn(use("1", "cat /r/sub/a"), cwd="/r/sub/", message={"model": "m"}),
            turn(message={"model": "<synthetic>"}, cwd="/r"),
            turn(message={"content": "words"}),
            answer("9", "x"),
            {"type": "user", "message": {"content": "words"}},
            {"type": "result", "total_cost_usd": 0.5, "cost_usd": 0.25},
        ],
        "d/x.jsonl",
        beside={"report.json": {"resolved": True}},
    )
    assert about(run) == {
        "trajectory_id": "s",
        "path": "d/x.jsonl",
        "format": "claude-code",
        "model": "m",
        "outcome": "passed",
        "cost_usd": 0.5,
        "warnings": ("1 results without their call",),
    }
    assert run.blind_signals == FORMAT.blind_signals
    assert [state.path for state in run.states] == ["sub/a"]


def test_a_session_without_a_name_takes_the_files_and_the_older_cost() -> None:
    run = one_run(
        [{"type": "user", "message": {"content": "x"}}, {"type": "result", "cost_usd": 0.25}], "d/x.jsonl"
    )
    assert about(run) == {
        "trajectory_id": "x",
        "path": "d/x.jsonl",
        "format": "claude-code",
        "cost_usd": 0.25,
        "warnings": ("no tool calls",),
    }


@pytest.mark.parametrize(
    ("folders", "path"),
    [
        (["/r", "/r/lib"], "lib/a"),
        (["/r/lib", "/r"], "lib/a"),
        (["/r/", "/rx"], "lib/a"),
        (["/rx", "/r"], "ext:/r/lib/a"),
        ([], "ext:/r/lib/a"),
    ],
)
def test_the_root_is_the_folder_that_holds_the_others_else_the_first(folders: list[str], path: str) -> None:
    records = [{"type": "system", "sessionId": "s", "cwd": folder} for folder in folders]
    assert states(*records, turn(use("1", "cat /r/lib/a")))[0]["path"] == path


def test_a_record_that_is_there_twice_counts_once() -> None:
    first = turn(use("1", "make a"), uuid="u", parentUuid="v")
    beginning = turn(use("2", "make b"), uuid="w", parentUuid=None)
    assert [state["command"] for state in states(first, first, beginning, beginning)] == [
        "make a",
        "make b",
        "make b",
    ]
    said = {**answer("1", "made"), "uuid": "u", "parentUuid": "v"}
    assert states(first, said) == [shell("make a", observation="made")]


def lines(*records: Any) -> bytes:
    return b"\n\n".join(json.dumps(record).encode() for record in records)


@pytest.mark.parametrize("name", ["x/subagents/agent-7.jsonl", "subagents/agent-7.jsonl", "agent-7.jsonl"])
@pytest.mark.parametrize("named", [{"agentId": "7"}, {"toolUseResult": {"agentId": "7"}}])
def test_a_sub_agent_in_a_file_stands_after_the_call_that_started_it(
    name: str, named: dict[str, Any]
) -> None:
    beside = {name: lines(turn(use("2", "make b")), answer("2", "made"))}
    assert states(
        turn(use("1", "make a")),
        {**answer("1", "x"), **named},
        {**answer("1", "x"), **named},
        turn(use("3", "make c")),
        beside=beside,
    ) == [shell("make a", observation="x"), shell("make b", observation="made"), shell("make c")]
    inside = {**answer("1", "x"), **named, "isSidechain": True}
    assert states(turn(use("1", "make a")), inside, beside=beside) == [shell("make a", observation="x")]


def test_the_nearest_file_of_a_sub_agent_counts_alone() -> None:
    beside = {
        "subagents/agent-7.jsonl": lines(turn(use("2", "make b"))),
        "agent-7.jsonl": lines(turn(use("3", "make c"))),
    }
    found = states(turn(use("1", "make a")), {**answer("1", "x"), "agentId": "7"}, beside=beside)
    assert [state["command"] for state in found] == ["make a", "make b"]


@pytest.mark.parametrize(
    ("records", "beside", "sentence"),
    [
        ([{"sessionId": "s"}], {}, "line 1.type: expected the record's type as a text"),
        (["x"], {}, "line 1: expected an object, found a text"),
        ([{"type": "assistant"}], {}, "line 1.message: expected an object, found null"),
        (
            [{"type": "assistant", "message": {"content": 5}}],
            {},
            "line 1.message.content: expected a list, found a number",
        ),
        ([turn("x")], {}, "line 1.message.content[0]: expected an object, found a text"),
        (
            [turn({"type": "tool_use", "name": 5})],
            {},
            "line 1.message.content[0].name: expected a text, found a number",
        ),
        ([{"type": "user"}], {}, "line 1.message: expected an object, found null"),
        (
            [{"type": "user", "message": {"content": 5}}],
            {},
            "line 1.message.content: expected a list, found a number",
        ),
        (
            [{"type": "user", "message": {"content": ["x"]}}],
            {},
            "line 1.message.content[0]: expected an object, found a text",
        ),
        (
            [{**answer("1", "x"), "agentId": "7"}],
            {"agent-7.jsonl": b'{"type": "x"}\n{'},
            "agent-7.jsonl: line 2: not JSON: "
            "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
        ),
        (
            [{**answer("1", "x"), "agentId": "7"}],
            {"agent-7.jsonl": b"5"},
            "agent-7.jsonl: line 1: expected an object, found a number",
        ),
        (
            [{**answer("1", "x"), "agentId": "7"}],
            {"agent-7.jsonl": b"{}"},
            "agent-7.jsonl: line 1.type: expected the record's type as a text",
        ),
    ],
)
def test_what_is_wrong_in_a_session_is_said_where_it_is(
    records: list[Any], beside: dict[str, Any], sentence: str
) -> None:
    found = refusal(records, "x.jsonl", format_name="claude-code", beside=beside)
    assert found == "x.jsonl: " + sentence


@pytest.mark.parametrize("mark", ["sessionId", "session_id", "parentUuid", "leafUuid", "messageId"])
def test_a_record_is_known_by_its_turn_or_by_what_names_its_session(mark: str) -> None:
    assert one_run([{"type": "summary", mark: "x"}], "x.jsonl").format == "claude-code"
    assert one_run([{"type": "user", "message": {"content": "x"}}], "x.jsonl").format == "claude-code"
    for record in ({"type": "summary"}, {"type": 5, mark: "x"}, {"type": "user", "message": "x"}, {mark: 1}):
        assert "no known trajectory format" in refusal([record], "x.jsonl")
    assert "no known trajectory format" in refusal([{"type": "log", "message": {}}], "x.jsonl")
    filler = [{"type": "summary"}] * 49
    assert one_run([*filler, {"type": "summary", mark: "x"}], "x.jsonl").format == "claude-code"
    assert "no known" in refusal([*filler, filler[0], {"type": "summary", mark: "x"}], "x.jsonl")
