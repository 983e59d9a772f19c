"""`consensus score --remote` beside `consensus score`, in processes of their own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.e2e.conftest import DEADLINE_SECONDS, Installation, command_line, until
from tests.integration.scoring_desk import write_mixed
from tests.recorded_runs import CHECK, FIX, LOOK, search, write_cohort, write_run


@pytest.mark.parametrize("form", ["json", "html"])
def test_every_form_has_the_same_bytes(serving: tuple[Installation, str], tmp_path: Path, form: str) -> None:
    made, _ = serving
    folder = write_mixed(write_cohort(tmp_path / "runs"))
    here, there = tmp_path / f"here.{form}", tmp_path / f"there.{form}"
    local = made.consensus("score", str(folder), "-o", str(here))
    remote = made.consensus("score", "--remote", str(folder), "-o", str(there))
    assert (local.returncode, remote.returncode) == (2, 2), remote.stderr
    assert there.read_bytes() == here.read_bytes()


def test_table_gates_labels_single_files_and_training_data_are_the_same(
    serving: tuple[Installation, str], tmp_path: Path
) -> None:
    made, _ = serving
    folder = write_mixed(write_cohort(tmp_path / "runs"))
    labels = tmp_path / "labels.csv"
    labels.write_text("path,outcome\n3/unknown_pta.json,failed\n")
    single = folder / "trial/agent/trajectory.json"
    calls = (
        [str(folder)],
        [str(folder), "--labels", str(labels), "--fail-on", "lucky", "--profile", "tuned", "--k", "2"],
        [str(folder / "0"), str(single), str(folder / "1"), "--json"],
        [str(folder), "--export-sft", "ideal,solid", "-o", str(tmp_path / "out.jsonl")],
        [str(folder), "--labels", str(single)],
        [str(tmp_path / "nowhere")],
    )
    for arguments in calls:
        found = []
        for extra in ([], ["--remote"]):
            ended = made.consensus("score", *extra, *arguments)
            output = tmp_path / "out.jsonl"
            found.append((ended.returncode, ended.stdout, output.read_text() if output.exists() else ""))
            output.unlink(missing_ok=True)
        assert found[0] == found[1], arguments


def test_a_killed_scoring_process_costs_time_and_nothing_else(
    serving: tuple[Installation, str], tmp_path: Path
) -> None:
    made, _ = serving
    folder = tmp_path / "many"
    for run in range(400):
        steps = (search(f"w{run}"), LOOK, FIX, CHECK)
        write_run(folder / f"{run}_pta.json", *steps, problem=f"p{run % 9}", passed=run % 3 > 0)
    # The worker may be starting still.
    until(lambda: _children(made) != [], "there is no scoring process")
    children = _children(made)
    before = sum(map(_seconds, children))
    with subprocess.Popen(
        [sys.executable, "-m", "workers.cli.main", "score", "--remote", str(folder), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=made.environment,
        cwd=made.home,
    ) as remote:
        until(lambda: sum(map(_seconds, children)) > before + 0.1, "no scoring process works")
        for child in children:
            child.kill()
        out, err = remote.communicate(timeout=DEADLINE_SECONDS)
    assert remote.returncode == 0, err.decode()
    local = made.consensus("score", str(folder), "--json")
    assert json.loads(out) == json.loads(local.stdout)


def _children(made: Installation) -> list[psutil.Process]:
    """The processes that score."""
    workers = [process for process in made.processes() if "--queues scoring" in command_line(process)]
    return [child for worker in workers for child in worker.children()]


def _seconds(process: psutil.Process) -> float:
    """How long a process has computed."""
    times = process.cpu_times()
    return float(times.user + times.system)
