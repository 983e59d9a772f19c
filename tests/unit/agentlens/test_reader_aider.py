"""aider's transcripts, alone and beside the record of a benchmark run."""

from __future__ import annotations

from typing import Any

from tests.unit.agentlens.logs import about, one_run, refusal, told
from workers.agentlens.trajectory import Operation

TRANSCRIPT = """# aider chat started at 2024-05-23
> Aider v1
> Added lib/a.py to the chat.
words

lib/a.py
```python
<<<<<<< SEARCH
one
=======
two
>>>>>>> REPLACE
```
and
lib/a.py
```
<<<<<<< SEARCH
three
=======
>>>>>>> REPLACE
```
> Applied edit to lib/a.py
> Applied edit to b.py
> c.py
> Add these files to the chat? yes
> E   assert 1
> 1 failed
> Attempt to fix test errors? yes
> a.py:1: E1
> Attempt to fix lint errors? yes
> Added d.py to the chat
> Add e.py to the chat?
> Attempt to fix test errors? no
"""
NOTE = "Applied edit to "
EDIT: dict[str, Any] = {"tool": "edit", "operation": Operation.REPLACE, "outcome": "ok"}
ADD: dict[str, Any] = {"tool": "add", "operation": Operation.VIEW, "outcome": "ok"}
CHECK: dict[str, Any] = {"operation": Operation.SHELL, "outcome": "error"}
STEPS = [
    {**ADD, "path": "lib/a.py", "observation": "Added lib/a.py to the chat."},
    {
        **EDIT,
        "path": "lib/a.py",
        "edits": [("one\n", "two\n"), ("three\n", "")],
        "observation": NOTE + "lib/a.py",
    },
    {**EDIT, "path": "b.py", "edits": [("", "")], "observation": NOTE + "b.py"},
    {**ADD, "path": "c.py", "observation": "Add these files to the chat? yes"},
    {**CHECK, "tool": "test", "command": "pytest", "observation": "E   assert 1\n1 failed"},
    {**CHECK, "tool": "lint", "command": "flake8", "observation": "a.py:1: E1"},
    {**ADD, "path": "d.py", "observation": "Added d.py to the chat"},
    {**CHECK, "tool": "test", "command": "pytest", "observation": "Add e.py to the chat?"},
]


def steps(transcript: str) -> list[dict[str, Any]]:
    run = one_run("# aider chat started at x\n" + transcript, "x.md")
    return [told(state) for state in run.states]


def test_a_transcript_is_what_aider_says_it_did() -> None:
    run = one_run("\n" + TRANSCRIPT, "d/y.md")
    assert [told(state) for state in run.states] == STEPS
    assert about(run) == {"trajectory_id": "y", "path": "d/y.md", "format": "aider"}
    assert run.blind_signals == (
        "exit codes",
        "reads of files",
        "checks that passed",
        "line ranges",
        "time stamps",
        "tokens of a step",
    )


def test_the_record_of_a_benchmark_says_what_the_run_is_of() -> None:
    record = {
        "edited_files": [],
        "model_patch": "",
        "instance_id": "p",
        "model": "m",
        "cost": 0.5,
        "resolved": True,
    }
    run = one_run(record, "d/y.json", beside={"y.md": TRANSCRIPT.encode() + b"\xff"})
    assert [told(state) for state in run.states] == STEPS
    assert about(run) == {
        "trajectory_id": "y",
        "path": "d/y.json",
        "format": "aider",
        "problem": "p",
        "model": "m",
        "cost_usd": 0.5,
        "outcome": "passed",
    }
    plain = {"edited_files": [], "model_patch": "", "instance_id": "p", "model": 5}
    beside = {"y.md": b"", "report.json": {"p": {"resolved": False}}}
    run = one_run(plain, "d/y.json", beside=beside)
    assert about(run) == {
        "trajectory_id": "y",
        "path": "d/y.json",
        "format": "aider",
        "problem": "p",
        "outcome": "failed",
        "warnings": ("no tool calls",),
    }
    assert one_run({**plain, "instance_id": 5}, "d/y.json", beside=beside).problem is None


def test_a_record_without_its_transcript_is_refused() -> None:
    record = {"edited_files": [], "model_patch": ""}
    assert refusal(record) == "x.json: file: its chat transcript x.md is not beside it"
    for name in record:
        assert "no known trajectory format" in refusal({name: ""})
    assert refusal("# a page", "x.md") == (
        "x.md: no known trajectory format; name one with --format if it is one"
    )


def test_words_between_notes_begin_a_new_report() -> None:
    assert steps("> broken\nwords\n> 1 failed\n> Attempt to fix test errors? yes") == [
        {**CHECK, "tool": "test", "command": "pytest", "observation": "1 failed"}
    ]


def test_a_block_is_applied_once_and_its_marks_are_no_notes() -> None:
    block = "a.py\n```\n<<<<< SEARCH\n> quoted\n=====\n>= x\n>>>>> REPLACE\n```\n"
    done = {**EDIT, "path": "a.py", "observation": NOTE + "a.py"}
    assert steps(block.replace("> quoted\n", "old\n") + ">Applied edit to a.py\n> Applied edit to a.py") == [
        {**done, "edits": [("old\n", ">= x\n")]},
        {**done, "edits": [("", "")]},
    ]
    assert steps("> Add these files to the chat? yes") == []
