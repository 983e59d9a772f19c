"""`consensus score` as a user runs it: in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.recorded_runs import CHECK, FIX, LOOK, search, write_cohort, write_run

ROOT = Path(__file__).parents[2]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])}  # noqa: TID251


def wait_until(holds: Callable[[], bool], *, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "waited in vain"
        threading.Event().wait(0.02)


def consensus(*arguments: object, **more: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "workers.cli.main", *map(str, arguments)],
        capture_output=True,
        check=False,
        env={**environment(), **more},
        timeout=120,
    )


def test_the_number_of_processes_changes_no_byte(tmp_path: Path) -> None:
    folder = write_cohort(tmp_path / "runs")
    for number in range(20):  # more than one task of files
        steps = (search(f"more_{number}"), LOOK, FIX, CHECK)
        write_run(folder / f"more/{number}_pta.json", *steps, problem=f"q{number % 3}", passed=number % 4 > 0)
    (folder / "bad.json").write_text("{")
    outputs = []
    for jobs in (1, 2):
        ended = consensus("score", folder, "--json", "--jobs", jobs)
        assert ended.returncode == 2, ended.stderr.decode()
        outputs.append(ended.stdout)
    assert outputs[0] == outputs[1]
    assert len(json.loads(outputs[0])["assessments"]) == 30


def test_gates_work_in_a_shell_script(tmp_path: Path) -> None:
    folder = write_cohort(tmp_path / "runs")
    ended = consensus("score", folder, "--fail-on", "lucky", "--html", "-o", tmp_path / "report.html")
    assert ended.returncode == 1
    assert b"gate failed" in ended.stderr
    assert (tmp_path / "report.html").read_text().rstrip().endswith("</html>")


@pytest.mark.parametrize("arguments", [["nowhere"], [".", "--csv", "--json"], [".", "--format", "tape"]])
def test_no_error_of_the_user_is_a_traceback(tmp_path: Path, arguments: list[str]) -> None:
    write_run(tmp_path / "a_pta.json", LOOK)
    place = str(tmp_path) if arguments[0] == "." else str(tmp_path / arguments[0])
    ended = consensus("score", place, *arguments[1:])
    assert ended.returncode == 3
    assert ended.stdout == b""
    assert len(ended.stderr.splitlines()) == 1


def test_the_spool_is_removed(tmp_path: Path) -> None:
    folder = write_cohort(tmp_path / "runs")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    assert consensus("score", folder, "--jobs", 2, TMPDIR=str(scratch)).returncode == 0
    assert list(scratch.iterdir()) == []


@pytest.mark.parametrize(
    ("number", "code", "jobs"),
    [(signal.SIGINT, 130, 1), (signal.SIGTERM, 143, 1), (signal.SIGTERM, 143, 2), (signal.SIGHUP, 129, 1)],
)
def test_a_stopped_scoring_leaves_nothing_behind(
    tmp_path: Path, number: signal.Signals, code: int, jobs: int
) -> None:
    for run in range(3000):
        write_run(tmp_path / f"runs/{run}_pta.json", search(f"w{run}"), LOOK, FIX, CHECK)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    report = tmp_path / "report.json"
    report.write_text("the old one")
    with subprocess.Popen(
        [
            sys.executable,
            "-m",
            "workers.cli.main",
            "score",
            tmp_path / "runs",
            "-o",
            report,
            "--jobs",
            str(jobs),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**environment(), "TMPDIR": str(scratch)},
    ) as process:
        wait_until(lambda: any(file.stat().st_size for file in scratch.glob("*/runs-*")))
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (code, b"")
    assert err.decode().splitlines() == [f"stopped by {number.name} before the end; no file was written"]
    assert list(scratch.iterdir()) == []
    assert report.read_text() == "the old one"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.json", "runs", "scratch"]
