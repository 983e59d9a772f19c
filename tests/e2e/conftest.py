"""The command line as a user runs it: processes of its own, a data directory of its own."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil
import pytest

from workers.cli.port import free_port
from workers.providers.registry import PROVIDERS

ROOT = Path(__file__).parents[2]
DEADLINE_SECONDS = 60.0

_KEYS = {name for spec in PROVIDERS.values() for name in (*spec.key_variables, spec.url_variable)}


@dataclasses.dataclass(frozen=True)
class Installation:
    """A data directory and the environment that points at it."""

    home: Path
    environment: Mapping[str, str]

    def consensus(self, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        done = subprocess.run(
            [sys.executable, "-m", "workers.cli.main", *arguments],
            input=stdin,
            capture_output=True,
            env=self.environment,
            cwd=self.home,
            timeout=DEADLINE_SECONDS,
            check=False,
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command that serves; its output goes to a file."""
        with (self.home / "output.txt").open("ab") as output:
            return subprocess.Popen(
                [sys.executable, "-m", "workers.cli.main", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self.environment,
                cwd=self.home,
                start_new_session=True,
            )

    def output(self) -> str:
        return (self.home / "output.txt").read_text(encoding="utf-8")

    def processes(self) -> list[psutil.Process]:
        """Every process that works for this installation, children of killed parents included."""
        found = []
        for process in psutil.process_iter():
            try:
                arguments = " ".join([*process.cmdline(), process.cwd()])
                environment = process.environ() if "workers.cli.main" in arguments else {}
            except psutil.Error:
                continue
            is_server = str(self.home) in arguments and process.pid != os.getpid()
            if is_server or environment.get("CONSENSUS_HOME") == str(self.home):
                found.append(process)
        return [process for process in found if _is_alive(process)]


def _is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    except psutil.Error:
        return False


def command_line(process: psutil.Process) -> str:
    """The process's arguments; nothing once it has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def until(condition, what: str) -> None:  # type: ignore[no-untyped-def]
    """Look again until the condition holds; fail with `what` when it never does."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def make_installation(folder: Path, **changes: str) -> Installation:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("CONSENSUS_") and name not in _KEYS
    }
    ours = {
        "CONSENSUS_HOME": str(folder),
        # A killed worker's runs are to end in seconds, not in half a minute.
        "CONSENSUS_LEASE_SECONDS": "5",
        "CONSENSUS_RESCUE_SECONDS": "2",
        # A message that a killed worker had fetched but not begun counts as lost after a minute by default.
        "CONSENSUS_PENDING_SECONDS": "3",
        "CONSENSUS_STALLED_SECONDS": "3",
        "PYTHONPATH": str(ROOT),
        "COLUMNS": "120",
    }
    environment.update({**ours, **changes})
    return Installation(home=folder, environment=environment)


@pytest.fixture
def installation() -> Iterator[Installation]:
    # Not under a home directory: the PostgreSQL wheel opens the folders above its data to its own user.
    with tempfile.TemporaryDirectory(prefix="consensus-e2e-", dir="/var/tmp") as folder:
        made = make_installation(Path(folder))
        yield made
        _end(made)


@pytest.fixture(scope="module")
def serving() -> Iterator[tuple[Installation, str]]:
    """An installation with `consensus up` running, and its address."""
    with tempfile.TemporaryDirectory(prefix="consensus-e2e-", dir="/var/tmp") as folder:
        made = make_installation(Path(folder))
        port = free_port()
        up = made.start("up", "--port", str(port))
        until(lambda: "is serving at" in made.output() or up.poll() is not None, "`up` does not serve")
        assert up.poll() is None, made.output()
        yield made, f"http://127.0.0.1:{port}"
        up.send_signal(signal.SIGINT)
        up.wait(timeout=DEADLINE_SECONDS)
        _end(made)


def _end(made: Installation) -> None:
    for process in made.processes():
        process.kill()
