"""SWE-agent: its commands one by one, its trajectories and its histories."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.unit.agentlens.logs import about, one_run, refusal, told
from workers.agentlens.formats.aci import AciSession
from workers.agentlens.formats.seen import Seen
from workers.agentlens.formats.states import StateBuilder
from workers.agentlens.trajectory import Operation

END = 1_000_000_000
SHOWN = "[File: /r/a.py (20 lines total)]\n(1 more lines above)\n3:three\n4:four\n"
PROMPT = "\n(Open file: /r/a.py)\n(Current directory: /r)\nbash-$ "


def session(*actions: tuple[str, str]) -> list[dict[str, Any]]:
    builder = StateBuilder(root="/r")
    following = AciSession(builder)
    for action, text in actions:
        following.add(action, Seen(text=text))
    return [told(state) for state in builder.states]


OPENED = ("open a.py", SHOWN)
LOOK = {"operation": Operation.VIEW, "path": "a.py", "lines": (3, 4), "outcome": "ok"}
SEARCH = {"operation": Operation.SEARCH, "outcome": "ok", "observation": "x"}


@pytest.mark.parametrize(
    ("action", "text", "expected"),
    [
        ("open b.py", "", {"tool": "open", "operation": Operation.VIEW, "path": "a.py"}),
        ("goto 3", SHOWN, {"tool": "goto", **LOOK, "observation": SHOWN}),
        ("scroll_up", SHOWN + PROMPT, {"tool": "scroll_up", **LOOK, "observation": SHOWN}),
        (
            "scroll_down",
            SHOWN.replace("\n", "\r\n"),
            {"tool": "scroll_down", **LOOK, "observation": SHOWN},
        ),
        (
            "create b.py",
            "[File: /r/b.py (1 lines total)]\n1:",
            {
                "tool": "create",
                "operation": Operation.CREATE,
                "path": "b.py",
                "lines": (1, 1),
                "edits": [("", "")],
                "outcome": "ok",
                "observation": "[File: /r/b.py (1 lines total)]\n1:",
            },
        ),
        (
            "create",
            "",
            {
                "tool": "create",
                "operation": Operation.CREATE,
                "path": "a.py",
                "lines": (1, 1),
                "edits": [("", "")],
            },
        ),
        (
            "insert 'a b' 3",
            "",
            {
                "tool": "insert",
                "operation": Operation.INSERT,
                "path": "a.py",
                "lines": (3, 3),
                "edits": [("", "a b", (3, 3))],
            },
        ),
        (
            "insert x y",
            "",
            {"tool": "insert", "operation": Operation.INSERT, "path": "a.py", "edits": [("", "x")]},
        ),
        (
            "insert x",
            "",
            {"tool": "insert", "operation": Operation.INSERT, "path": "a.py", "edits": [("", "x")]},
        ),
        (
            "insert",
            "",
            {"tool": "insert", "operation": Operation.INSERT, "path": "a.py", "edits": [("", "")]},
        ),
        ("search_dir x lib", "x", {**SEARCH, "tool": "search_dir", "path": "lib", "command": "grep x lib"}),
        ("search_dir x", "x", {**SEARCH, "tool": "search_dir", "command": "grep x ."}),
        ("search_dir", "x", {**SEARCH, "tool": "search_dir", "command": "grep  ."}),
        ("search_file x", "x", {**SEARCH, "tool": "search_file", "path": "a.py", "command": "grep x a.py"}),
        ("search_file x b", "x", {**SEARCH, "tool": "search_file", "path": "b", "command": "grep x b"}),
        ("find_file x", "x", {**SEARCH, "tool": "find_file", "command": "find x ."}),
        ("find_file x lib", "x", {**SEARCH, "tool": "find_file", "path": "lib", "command": "find x lib"}),
        (
            "edit 3:4\nnew\nlines\nend_of_edit",
            "File updated",
            {
                "tool": "edit",
                "operation": Operation.REPLACE,
                "path": "a.py",
                "lines": (3, 4),
                "edits": [("three\nfour", "new\nlines", (3, 4))],
                "outcome": "ok",
                "observation": "File updated",
            },
        ),
        (
            "edit 'x y' z",
            "",
            {"tool": "edit", "operation": Operation.REPLACE, "path": "a.py", "edits": [("x y", "z")]},
        ),
        ("edit x", "", {"tool": "edit", "operation": Operation.SHELL, "command": "edit edit x"}),
        ("edit 'x", "", {"tool": "edit", "operation": Operation.SHELL, "command": "edit edit 'x"}),
        (" make \n", "", {"tool": "bash", "operation": Operation.SHELL, "command": "make"}),
        ("", "", {"tool": "bash", "operation": Operation.SHELL, "command": ""}),
        *(
            (word, "x", {"tool": word, "operation": Operation.FINISH, "outcome": "ok", "observation": "x"})
            for word in ("submit", "exit_cost", "exit_context", "exit_format", "exit_forfeit", "exit")
        ),
    ],
)
def test_a_command_acts_on_the_file_that_is_open(action: str, text: str, expected: dict[str, Any]) -> None:
    assert session(OPENED, (action, text))[1] == expected


def test_without_an_open_file_the_command_names_it_or_nothing_does() -> None:
    shown = {"tool": "open", "operation": Operation.VIEW}
    assert session(("open b.py", "")) == [{**shown, "path": "b.py"}]
    assert session(("open", "")) == [{**shown, "path": ""}]
    following = AciSession(StateBuilder(root="/r"))
    for open_file in ("", "n/a", "/r/c.py", "n/a", ""):
        following.add("open b.py", Seen(), open_file)
    assert [state.path for state in following.builder.states] == ["b.py", "b.py", "c.py", "c.py", "c.py"]
    following.add("goto 1", Seen(text=SHOWN), "/r/d.py")
    assert following.builder.states[-1].path == "a.py"


EDITOR = {"tool": "str_replace_editor", "path": "a.py"}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("view /r/a.py", {**EDITOR, "operation": Operation.VIEW}),
        ("view /r/a.py --view_range 2 4", {**EDITOR, "operation": Operation.VIEW, "lines": (2, 4)}),
        ("view /r/a.py x --view_range 2 -1", {**EDITOR, "operation": Operation.VIEW, "lines": (2, END)}),
        ("view /r/a.py --view_range 2 x", {**EDITOR, "operation": Operation.VIEW, "lines": (2, END)}),
        (
            "create a.py --file_text 'x y'",
            {**EDITOR, "operation": Operation.CREATE, "lines": (1, 1), "edits": [("", "x y")]},
        ),
        (
            "str_replace a.py --old_str x --new_str y",
            {**EDITOR, "operation": Operation.REPLACE, "edits": [("x", "y")]},
        ),
        (
            "str_replace a.py --view_range 1 2 --old_str x z --new_str y",
            {**EDITOR, "operation": Operation.REPLACE, "edits": [("x", "y")]},
        ),
        (
            "str_replace a.py --old_str x --new_str",
            {**EDITOR, "operation": Operation.REPLACE, "edits": [("x", "")]},
        ),
        (
            "insert a.py --insert_line 3 --new_str x",
            {**EDITOR, "operation": Operation.INSERT, "lines": (3, 3), "edits": [("", "x", (3, 3))]},
        ),
        (
            "insert a.py --insert_line x --new_str y",
            {**EDITOR, "operation": Operation.INSERT, "edits": [("", "y")]},
        ),
        ("undo_edit a.py", {**EDITOR, "operation": Operation.UNDO}),
        ("view", {"tool": "str_replace_editor", "operation": Operation.VIEW, "path": ""}),
        (
            "",
            {
                "tool": "str_replace_editor",
                "operation": Operation.SHELL,
                "command": 'str_replace_editor {"command": "", "path": ""}',
            },
        ),
    ],
)
def test_an_editors_options_are_its_arguments(line: str, expected: dict[str, Any]) -> None:
    assert session(("str_replace_editor " + line, "")) == [expected]


def step(action: str, observation: Any = "", **more: Any) -> dict[str, Any]:
    return {"action": action, "observation": observation, **more}


def test_a_trajectory_is_its_steps_and_says_what_it_is_of() -> None:
    steps = [
        step("make", "made", thought="why", state={"open_file": 5, "working_dir": 5}),
        step("open", state=json.dumps({"open_file": "/r/c.py", "working_dir": "/r"})),
        step("open", state=" "),
        step("open", state="{"),
        step("open", state={"open_file": "/r/d.py", "working_dir": "/q"}),
        step("open", state=5),
    ]
    run = one_run(
        {"trajectory": steps, "info": {"model_stats": {"instance_cost": 0.5}}},
        "d/p.traj",
        beside={"report.json": {"p": {"resolved": True}}},
    )
    shown = {"tool": "open", "operation": Operation.VIEW}
    assert [told(state) for state in run.states] == [
        {
            "tool": "bash",
            "operation": Operation.SHELL,
            "command": "make",
            "observation": "made",
            "thought": "why",
        },
        {**shown, "path": "c.py"},
        {**shown, "path": "c.py"},
        {**shown, "path": "c.py"},
        {**shown, "path": "d.py"},
        {**shown, "path": "d.py"},
    ]
    assert about(run) == {
        "trajectory_id": "p",
        "path": "d/p.traj",
        "format": "swe-agent",
        "problem": "p",
        "outcome": "passed",
        "cost_usd": 0.5,
    }
    assert run.blind_signals == ("exit codes", "time stamps", "tokens of a step")


def test_a_history_is_its_turns_and_their_answers() -> None:
    def turn(action: str, **more: Any) -> dict[str, Any]:
        return {"role": "assistant", "agent": "primary", "action": action, "thought": "why", **more}

    assert one_run({"trajectory": [], "info": {}}).warnings == ("no tool calls",)
    answer = [{"type": "text", "text": "made\n(Current directory: /r)\n(x) bash-$"}]
    history = [
        {"role": "system", "agent": "primary", "content": "s"},
        turn("demo", is_demo=True),
        {"role": "user", "content": "task"},
        turn("make a"),
        {"role": "user", "content": answer},
        {"role": "user", "content": "more"},
        turn("make b"),
        turn("cat /r/c"),
        {"role": "user", "content": "c"},
        turn("submit"),
    ]
    run = one_run({"history": history}, "p.traj")
    line = {"tool": "bash", "operation": Operation.SHELL, "thought": "why"}
    assert [told(state) for state in run.states] == [
        {**line, "command": "make a", "observation": answer[0]["text"]},
        {**line, "command": "make b"},
        {**line, "command": "cat /r/c", "path": "c", "outcome": "ok", "observation": "c"},
        {"tool": "submit", "operation": Operation.FINISH, "thought": "why"},
    ]


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (5, "file: expected an object, found a number"),
        ({}, "history: expected a list, found null"),
        ({"trajectory": 5}, "trajectory: expected a list, found a number"),
        ({"trajectory": [step("x"), 5]}, "trajectory[1]: expected an object, found a number"),
        ({"trajectory": [{"action": 5}]}, "trajectory[0].action: expected a text, found a number"),
        ({"trajectory": [step("x", 5)]}, "trajectory[0].observation: expected a text, found a number"),
        ({"trajectory": [step("x", thought=5)]}, "trajectory[0].thought: expected a text, found a number"),
        ({"history": [5]}, "history[0]: expected an object, found a number"),
        (
            {"history": [{"role": "assistant", "action": 5}]},
            "history[0].action: expected a text, found a number",
        ),
        (
            {"history": [{"role": "assistant", "thought": 5}]},
            "history[0].thought: expected a text, found a number",
        ),
    ],
)
def test_what_is_wrong_in_a_log_is_said_where_it_is(document: Any, sentence: str) -> None:
    assert refusal(document, "p.traj", format_name="swe-agent") == "p.traj: " + sentence


def test_a_log_is_known_by_the_actions_of_its_steps_or_the_agents_of_its_history() -> None:
    agent = {"role": "system", "agent": "primary"}
    for document in (
        {"trajectory": [], "info": {}},
        {"trajectory": [step("x"), {}], "info": {}},
        {"history": [{"role": "user"}, {"role": "user"}, agent]},
    ):
        assert one_run(document, "p.traj").format == "swe-agent"
    for other in (
        {"trajectory": [step("x")]},
        {"trajectory": [{}], "info": {}},
        {"trajectory": 5, "info": {}},
        {"history": [{"role": "user"}] * 3 + [agent]},
        {"history": 5},
        5,
    ):
        assert "no known trajectory format" in refusal(other, "p.traj")
