"""Backup, restore and prune as a user types them, with the servers that come along."""

from __future__ import annotations

import json
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.conftest import Installation, make_installation

SPEC = b"Write a function that adds two integers."


@pytest.fixture
def elsewhere() -> Iterator[Installation]:
    with tempfile.TemporaryDirectory(prefix="consensus-e2e-", dir="/var/tmp") as folder:
        yield make_installation(Path(folder))


def test_what_runs_is_backed_up_and_restored_elsewhere_and_replays_there(
    serving: tuple[Installation, str], elsewhere: Installation
) -> None:
    installation, _ = serving
    ran = installation.consensus("run", "-", "--json", stdin=SPEC)
    run_id = json.loads(ran.stdout)["id"]
    file = elsewhere.home / "all.backup"

    made = installation.consensus("backup", str(file))

    assert (made.returncode, made.stdout) == (0, "")
    assert "rows of" in made.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert [path.name for path in elsewhere.home.iterdir()] == ["all.backup"]

    back = elsewhere.consensus("restore", str(file))

    assert back.returncode == 0, back.stderr
    replayed = elsewhere.consensus("replay", run_id)
    assert replayed.returncode == 0, replayed.stderr
    assert "matches" in replayed.stdout

    again = elsewhere.consensus("restore", str(file))
    assert again.returncode == 3
    assert "not empty" in again.stderr
    assert elsewhere.processes() == []


def test_a_pipe_carries_a_backup(serving: tuple[Installation, str]) -> None:
    installation, _ = serving
    command = [sys.executable, "-m", "workers.cli.main"]
    place = {"env": installation.environment, "cwd": installation.home}
    piped = subprocess.run([*command, "backup", "-"], capture_output=True, timeout=60, check=True, **place)
    checked = subprocess.run(
        [*command, "restore", "-", "--check"],
        input=piped.stdout,
        capture_output=True,
        timeout=60,
        check=True,
        **place,
    )
    assert b"whole;" in checked.stderr


def test_a_restore_beneath_what_runs_is_refused(serving: tuple[Installation, str]) -> None:
    installation, _ = serving
    file = str(installation.home / "b")
    assert installation.consensus("backup", file).returncode == 0
    refused = installation.consensus("restore", file, "--replace")
    assert refused.returncode == 3
    assert "stop workers, API and beat first" in refused.stderr


def test_pruning_what_is_young_drops_nothing(serving: tuple[Installation, str]) -> None:
    installation, _ = serving
    done = installation.consensus("prune", "--older-than", "90d", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "would go: 0 bodies (0 bytes) of 0 runs; verdicts and ledgers stay" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("restore", "nowhere"), "nowhere: cannot be read: No such file or directory"),
        (("restore", "output.txt", "--check"), "output.txt: is no backup; give a file that"),
        (("backup", "no/such/folder/file"), "cannot be written: No such file or directory; give a file in a"),
        (("backup", "."), ".: is a folder; give the name of a file"),
        (("prune", "--older-than", "soon"), "--older-than 'soon': give a whole number above 0"),
    ],
)
def test_wrong_input_gets_one_sentence(
    arguments: tuple[str, ...], sentence: str, serving: tuple[Installation, str]
) -> None:
    installation, _ = serving
    done = installation.consensus(*arguments)
    assert (done.returncode, done.stdout) == (3, "")
    assert sentence in " ".join(done.stderr.split())


def test_without_a_database_there_is_nothing_to_back_up(elsewhere: Installation) -> None:
    done = elsewhere.consensus("backup", "file")
    assert done.returncode == 3
    assert "there is no database under" in done.stderr
    assert list(elsewhere.home.iterdir()) == []
