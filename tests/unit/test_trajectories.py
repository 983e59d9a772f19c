"""Trajectories on disk."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from workers.errors import TrajectoryError
from workers.trajectories import Skipped, load, load_all, load_each, load_labels, walk


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


def test_reports_beside_runs_are_no_runs(tmp_path: Path) -> None:
    run = write(tmp_path / "a_pta.json", atif("ls"))
    for name in ("a_pta_report.json", "report.json", "README.md"):
        write(tmp_path / name, "{}")
    assert list(walk(tmp_path)) == [run]


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


def chat(name: str, command: str = "ls", answer: str = "done") -> str:
    """One row of chat messages with a shell call."""
    call = {"id": "1", "function": {"name": "bash", "arguments": json.dumps({"command": command})}}
    messages = [
        {"role": "user", "content": "task"},
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": answer},
    ]
    return json.dumps({"instance_id": name, "messages": messages, "resolved": True})


EVENTS = json.dumps([{"id": 0, "source": "agent", "action": "run", "args": {"command": "ls"}}])


@pytest.mark.parametrize(
    ("good", "bad", "sentence"),
    [
        (chat("p"), "{", "line 2: not JSON"),
        (chat("p"), "[" * 100_000, "line 2: the JSON is nested too deeply"),
        (chat("p"), '{"messages": 3}', "line 2: no messages; expected one of the columns messages"),
        (
            chat("p"),
            '{"messages": [{"role": "assistant", "tool_calls": [3]}]}',
            r"line 2[0].tool_calls[0]: expected an object, found a number",
        ),
        (chat("p"), "[1]", "line 2: expected an object, found a list"),
        (
            f'{{"instance_id": "p", "history": {EVENTS}}}',
            '{"instance_id": "q", "history": 3}',
            "line 2: history: expected a list, found a number",
        ),
        (
            atif("ls"),
            atif("ls").replace("[{", "[3, {", 1),
            "line 2: steps[0]: expected an object, found a number",
        ),
    ],
)
@pytest.mark.parametrize("ending", ["jsonl", "json"])
def test_one_bad_line_is_told_with_its_place_and_the_other_lines_are_read(
    tmp_path: Path, good: str, bad: str, sentence: str, ending: str
) -> None:
    path = write(tmp_path / f"rows.{ending}", f"{good}\n{bad}\n\n{good}\n")
    one, skipped, two = load_all(path)
    assert isinstance(skipped, Skipped)
    assert (skipped.path, skipped.is_record) == (f"rows.{ending}", True)
    assert skipped.error.startswith(f"rows.{ending}: {sentence}")
    assert [len(run.states) for run in (one, two) if not isinstance(run, Skipped)] == [1, 1]
    with pytest.raises(TrajectoryError, match="line 2"):
        list(load(path))


def test_rows_are_numbered_alike_however_many_there_are(tmp_path: Path) -> None:
    row = json.dumps({"messages": [{"role": "user", "content": "x"}]})
    alone = write(tmp_path / "alone.jsonl", row + "\n")
    several = write(tmp_path / "several.jsonl", f"{row}\n{row}\n{{\n{row}\n")
    assert [run.trajectory_id for run in load(alone)] == ["alone"]
    found = [run.trajectory_id for run in load_each(several) if not isinstance(run, Skipped)]
    assert found == ["several#0", "several#1", "several#3"]


def test_a_session_with_a_bad_line_is_no_half_session(tmp_path: Path) -> None:
    event = {
        "kind": "ActionEvent",
        "id": "1",
        "source": "agent",
        "tool_name": "terminal",
        "tool_call_id": "x",
        "action": {"kind": "TerminalAction", "command": "ls"},
    }
    path = write(tmp_path / "e.jsonl", json.dumps(event) + "\n{\n" + json.dumps(event))
    (skipped,) = load_all(path)
    assert isinstance(skipped, Skipped)
    assert (skipped.error[:27], skipped.is_record) == ("e.jsonl: line 2: not JSON: ", False)


def test_a_file_of_bad_lines_alone_is_one_bad_file(tmp_path: Path) -> None:
    (skipped,) = load_all(write(tmp_path / "x.jsonl", "{\n" * 1000))
    assert isinstance(skipped, Skipped)
    assert (skipped.error[:27], skipped.is_record) == ("x.jsonl: line 1: not JSON: ", False)


MEASURE = """
import re, sys
from pathlib import Path
from workers.trajectories import load_all
def peak_mib():  # of this program alone; what getrusage tells is at least the peak of the process that started it
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
list(load_all(Path(sys.argv[1])))
before = peak_mib()
runs = sum(run.states[0].command.text == "ls" for run in load_all(Path(sys.argv[2])))
print(runs, peak_mib() - before)
"""


def test_a_file_of_many_rows_needs_the_memory_of_one(tmp_path: Path) -> None:
    few, many = tmp_path / "few.jsonl", tmp_path / "many.jsonl"
    row = chat("p", answer="x" * 100_000) + "\n"
    few.write_text(row * 20)
    with many.open("w") as file:
        file.writelines(row for _ in range(600))  # 60 MB
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        [sys.executable, "-c", MEASURE, str(few), str(many)],
        capture_output=True,
        check=True,
        text=True,
        env={"PYTHONPATH": os.pathsep.join([str(root), *sys.path])},
        timeout=60,
    )
    runs, growth_mib = ended.stdout.split()
    assert int(runs) == 600
    assert float(growth_mib) < 8


@pytest.mark.parametrize("ending", ["json", "jsonl"])
@pytest.mark.parametrize("size", [10, 2_000_000])
def test_large_and_small_files_are_read_alike(tmp_path: Path, ending: str, size: int) -> None:
    row = chat("p", answer="x" * size)
    rows = write(tmp_path / f"rows.{ending}", f"{row}\n{{\n{row}\n")
    assert [run.trajectory_id for run in load_each(rows) if not isinstance(run, Skipped)] == [
        "rows#0",
        "rows#2",
    ]
    alone = write(tmp_path / f"alone.{ending}", f"{row}\n")
    (run,) = load(alone)
    assert (run.trajectory_id, len(run.states)) == ("alone", 1)
    spread = write(tmp_path / "spread.json", json.dumps(json.loads(row), indent=1))
    assert [run.trajectory_id for run in load(spread)] == ["spread"]


def test_links_that_lead_back_are_followed_once(tmp_path: Path) -> None:
    write(tmp_path / "a/run.json", atif("ls"))
    (tmp_path / "a/up").symlink_to(tmp_path)
    (tmp_path / "a/self").symlink_to(tmp_path / "a")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    (tmp_path / "c").mkdir()
    (tmp_path / "c/loop.json").symlink_to(tmp_path / "c/loop.json")
    found = list(walk(tmp_path))
    assert found == [
        tmp_path / "a/run.json",
        Skipped(path="c/loop.json", error="c/loop.json: is a link to nothing"),
    ]


def test_pipes_and_sockets_are_told_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.json")
    os.mkfifo(tmp_path / "pipe.txt")
    with socket.socket(socket.AF_UNIX) as listening:
        before = Path.cwd()
        os.chdir(tmp_path)  # the name of a socket must be short
        try:
            listening.bind("s.jsonl")
        finally:
            os.chdir(before)
        found = list(walk(tmp_path))
    assert [item.error for item in found if isinstance(item, Skipped)] == [
        "pipe.json: is a pipe or a device, no file",
        "s.jsonl: is a pipe or a device, no file",
    ]
    with pytest.raises(TrajectoryError, match=r"pipe\.json: a pipe or device; only files and folders"):
        list(walk(tmp_path / "pipe.json"))
    with pytest.raises(TrajectoryError, match="null: a pipe or device"):
        list(walk(Path("/dev/null")))


def test_an_empty_file_is_told(tmp_path: Path) -> None:
    for name in ("a.json", "b.jsonl", "c.md", "d.traj"):
        write(tmp_path / name, "\n" if name < "c" else "")
    assert [item.error for item in load_all(tmp_path) if isinstance(item, Skipped)] == [
        f"{name}: the file is empty" for name in ("a.json", "b.jsonl", "c.md", "d.traj")
    ]


def test_any_name_of_a_file_can_be_written_down(tmp_path: Path) -> None:
    names = [b"line\nfeed.json", b"escape\x1b[2J.json", b"bytes\xff.json", "leer zeichen ü.json".encode()]
    for name in names:
        (Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))).write_text(atif("ls"))
    paths = [item.path for item in load_all(tmp_path) if not isinstance(item, Skipped)]
    assert sorted(paths) == [
        "bytes\\xff.json",
        "escape\\x1b[2J.json",
        "leer zeichen ü.json",
        "line\\nfeed.json",
    ]
    assert all(path.isprintable() for path in paths)


def test_a_file_too_large_for_the_memory_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_arguments: object, **_more: object) -> None:
        raise MemoryError

    monkeypatch.setattr("workers.trajectories.read", full)
    (skipped,) = load_all(write(tmp_path / "big.json", atif("ls")))
    assert isinstance(skipped, Skipped)
    assert skipped.error == "big.json: does not fit in memory; give one run a file, or JSON lines"
