"""Trajectories on disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from workers.errors import TrajectoryError
from workers.trajectories import Skipped, load, load_all, load_labels, walk


def atif(*commands: str, **more: Any) -> str:
    steps = [
        {
            "step_id": number,
            "source": "agent",
            "message": "",
            "tool_calls": [{"tool_call_id": "1", "function_name": "bash", "arguments": {"command": command}}],
        }
        for number, command in enumerate(commands, start=1)
    ]
    return json.dumps({"schema_version": "ATIF-v1.7", "agent": {"name": "x"}, "steps": steps, **more})


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_one_bad_file_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    write(tmp_path / "a/run.json", atif("ls"))
    write(tmp_path / "b/run.json", "{")
    write(tmp_path / "c/run.json", atif("pwd"))
    one, bad, two = load_all(tmp_path)
    assert isinstance(bad, Skipped)
    assert bad.path == "b/run.json"
    assert bad.error.startswith("b/run.json: not JSON")
    assert [item.path for item in (one, two) if not isinstance(item, Skipped)] == ["a/run.json", "c/run.json"]


def test_files_that_belong_to_another_are_read_with_it(tmp_path: Path) -> None:
    write(tmp_path / "t/trajectory.json", atif("ls", continued_trajectory_ref="trajectory.cont-1.json"))
    write(tmp_path / "t/trajectory.cont-1.json", atif("pwd"))
    write(
        tmp_path / "t/result.json",
        json.dumps({"task_name": "p", "verifier_result": {"rewards": {"reward": 1}}}),
    )
    (run,) = load_all(tmp_path)
    assert not isinstance(run, Skipped)
    assert (len(run.states), run.problem, run.outcome) == (2, "p", "passed")


def test_nothing_outside_the_folder_is_opened(tmp_path: Path) -> None:
    write(tmp_path / "secret.json", atif("pwd"))
    write(tmp_path / "in/trajectory.json", atif("ls", continued_trajectory_ref="../secret.json"))
    (run,) = load_all(tmp_path / "in")
    assert not isinstance(run, Skipped)
    assert (len(run.states), run.warnings) == (1, ("continuation ../secret.json is not there",))


def test_a_labels_file_wins(tmp_path: Path) -> None:
    write(tmp_path / "runs/one.json", json.dumps([{"role": "user", "content": ""}]))
    write(
        tmp_path / "runs/two.json",
        json.dumps({"messages": [{"role": "user", "content": ""}], "resolved": True}),
    )
    labels = load_labels(write(tmp_path / "l.csv", "path,passed\none.json,true\ntwo.json,false\n"))
    assert [
        item.outcome for item in load_all(tmp_path / "runs", labels=labels) if not isinstance(item, Skipped)
    ] == [
        "passed",
        "failed",
    ]


def test_a_conversation_folder_is_walked_as_one(tmp_path: Path) -> None:
    folder = tmp_path / "conv"
    write(folder / "base_state.json", json.dumps({"id": "c-1", "workspace": {"working_dir": "/w"}}))
    for number, command in enumerate(("cat /w/a", "cat b")):
        event = {
            "kind": "ActionEvent",
            "id": str(number),
            "source": "agent",
            "tool_name": "terminal",
            "tool_call_id": "x",
            "action": {"kind": "TerminalAction", "command": command},
        }
        write(folder / f"events/event-0000{number}-x.json", json.dumps(event, indent=1))
    assert list(walk(tmp_path)) == [folder]
    (run,) = load_all(tmp_path)
    assert not isinstance(run, Skipped)
    assert (run.trajectory_id, run.path, [state.path for state in run.states]) == (
        "c-1",
        "conv/events.jsonl",
        ["a", "b"],
    )


def test_a_transcript_is_read_with_its_record_or_alone(tmp_path: Path) -> None:
    transcript = (
        "# aider chat started at 2024\n\n> Added a.py to the chat.\n\na.py\n```python\n"
        "<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n```\n\n> Applied edit to a.py\n"
    )
    write(tmp_path / "one.md", transcript)
    write(tmp_path / "two.md", transcript)
    write(tmp_path / "two.json", json.dumps({"edited_files": [], "model_patch": "", "resolved": True}))
    one, two = load_all(tmp_path)
    assert not isinstance(one, Skipped)
    assert not isinstance(two, Skipped)
    assert [(run.path, run.outcome, len(run.states)) for run in (one, two)] == [
        ("one.md", "unknown", 2),
        ("two.json", "passed", 2),
    ]
    assert [(edit.old, edit.new) for edit in one.states[1].edits] == [("x\n", "y\n")]


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(TrajectoryError, match="no such file or folder"):
        list(load_all(tmp_path / "gone"))
    with pytest.raises(TrajectoryError, match="cannot be opened"):
        list(load(tmp_path / "gone.json"))
    with pytest.raises(TrajectoryError, match="only a conversation"):
        list(load(tmp_path))


def test_a_broken_table_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "t.parquet", "PAR1 nonsense")
    with pytest.raises(TrajectoryError, match=r"t\.parquet: not a readable parquet file"):
        list(load(path))
