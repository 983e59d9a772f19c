"""An installation made of processes that can be killed, stopped and held down, and that come back by themselves."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import httpx
import redis

from tests.e2e.chaos.servers import Broker, Postgres
from workers.cli.port import free_port
from workers.provenance.migrate import migrate
from workers.provenance.session import Database

ROOT = Path(__file__).parents[3]
READY_SECONDS = 90.0
_LOOK_SECONDS = 0.05
_STAMPED = re.compile(r"\d{4}-\d\d-\d\dT")

#: Everything happens in seconds here that takes half a minute in a real installation.
SETTINGS = {
    "CONSENSUS_LEASE_SECONDS": "3",
    "CONSENSUS_HEARTBEAT_SECONDS": "0.5",
    "CONSENSUS_RESCUE_SECONDS": "1",
    "CONSENSUS_PENDING_SECONDS": "4",
    "CONSENSUS_STALLED_SECONDS": "3",
    "CONSENSUS_HELD_SECONDS": "3",
    "CONSENSUS_SLOT_WAIT_SECONDS": "5",
    "CONSENSUS_DATABASE_POOL": "10",
    "CONSENSUS_LOG_LEVEL": "INFO",
}


@dataclasses.dataclass(slots=True)
class Process:
    """One process of the installation. It ends when its standard input closes, so it never outlives the test.

    `down_until`: it is not started again before, on the monotonic clock.
    """

    name: str
    command: tuple[str, ...]
    popen: subprocess.Popen[bytes]
    log: IO[bytes]
    starts: int = 1
    down_until: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where things are, if not all on this machine.

    `address`: this machine's, for database and broker, which then ask those of `network` for `password`.
    `elsewhere`: what starts a program on the other machine. `workers_elsewhere`: how many of the workers are there,
    beside a simulator of their own.
    """

    address: str = ""
    network: str = ""
    password: str = ""
    elsewhere: tuple[str, ...] = ()
    workers_elsewhere: int = 0


class Site:
    """Database, broker, simulator, API, workers and beat under one folder."""

    def __init__(
        self,
        folder: Path,
        *,
        workers: int,
        threads: int,
        simulator: tuple[str, ...],
        environment: Mapping[str, str],
        placement: Placement | None = None,
    ) -> None:
        self.folder = folder
        self.placement = placement or Placement()
        self.postgres = Postgres(
            folder / "postgres",
            address=self.placement.address,
            network=self.placement.network,
            password=self.placement.password,
        )
        self.broker = Broker(
            folder / "broker",
            address=self.placement.address or "127.0.0.1",
            password=self.placement.password,
        )
        self._workers = workers
        self._threads = threads
        self._api_port, self._simulator_port = free_port(), free_port()
        self.url = f"http://127.0.0.1:{self._api_port}"
        self.simulator_url = f"http://127.0.0.1:{self._simulator_port}"
        self._simulator = simulator
        self._processes: dict[str, Process] = {}
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._keeper = threading.Thread(target=self._keep, name="keeper", daemon=True)
        self._environment = {
            "PATH": os.defpath,
            "PYTHONPATH": str(ROOT),
            "CONSENSUS_HOME": str(folder),
            "CONSENSUS_DATABASE_URL": self.postgres.url,
            "CONSENSUS_REDIS_URL": self.broker.url,
            "CONSENSUS_STOP_WITH_STDIN": "1",
            "CONSENSUS_WORKER_PROCESSES": str(workers),
            **SETTINGS,
            **{name: value.replace("SIMULATOR", self.simulator_url) for name, value in environment.items()},
        }
        self.database = Database(self.postgres.url, pool_size=4)

    @property
    def workers(self) -> list[str]:
        return [f"worker-{number}" for number in range(1, self._workers + 1)]

    @property
    def workers_elsewhere(self) -> list[str]:
        count = self.placement.workers_elsewhere
        return self.workers[-count:] if count else []

    def start(self) -> None:
        # The wheel's PostgreSQL runs as another user, who must be able to come in.
        self.folder.chmod(0o755)
        self.broker.start()
        self.postgres.create()
        migrate(self.database)
        simulator = ("simulate-llm", "--port", str(self._simulator_port), *self._simulator)
        self._spawn("simulator", *simulator)
        if self.workers_elsewhere:
            # A model provider is reached from both machines, whatever becomes of the line between them.
            self._spawn("simulator-elsewhere", *simulator, where=self.placement.elsewhere)
        self._spawn("api", "api", "--port", str(self._api_port))
        for name in self.workers:
            where = self.placement.elsewhere if name in self.workers_elsewhere else ()
            self._spawn(name, "worker", "--name", name, "--concurrency", str(self._threads), where=where)
        self._spawn("beat", "beat")
        self._keeper.start()
        for url in (f"{self.simulator_url}/healthz", f"{self.url}/readyz"):
            self.until(lambda url=url: answers(url), f"{url} does not answer", seconds=READY_SECONDS)

    def _spawn(self, name: str, *arguments: str, where: tuple[str, ...] = ()) -> None:
        log = (self.folder / f"{name}.log").open("ab")
        command = (*where, sys.executable, "-P", "-m", "workers.cli.main", *arguments)
        self._processes[name] = Process(name, command, self._popen(command, log), log)

    def _popen(self, command: tuple[str, ...], log: IO[bytes]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=log,
            stderr=log,
            env=self._environment,
            cwd=self.folder,
            start_new_session=True,
        )

    def _keep(self) -> None:
        """Start again what died, as an init system would."""
        while not self._closing.wait(_LOOK_SECONDS):
            with self._lock:
                for process in self._processes.values():
                    if process.popen.poll() is None or time.monotonic() < process.down_until:
                        continue
                    assert process.popen.stdin is not None
                    process.popen.stdin.close()
                    process.popen = self._popen(process.command, process.log)
                    process.starts += 1

    def process_id(self, name: str) -> int:
        return self._processes[name].popen.pid

    def starts(self, name: str) -> int:
        return self._processes[name].starts

    def kill(self, name: str, *, down_seconds: float = 0.0) -> None:
        """kill -9; it comes back after `down_seconds`."""
        with self._lock:
            process = self._processes[name]
            process.down_until = time.monotonic() + down_seconds
            process.popen.kill()
            process.popen.wait()

    def signal(self, name: str, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._processes[name].popen.send_signal(number)

    def worker_of(self, owner: str | None) -> str | None:
        """Which worker has this name in the stage rows (host:pid:chance)."""
        if owner is None:
            return None
        for name in self.workers:
            if f":{self._processes[name].popen.pid}:" in owner:
                return name
        return None

    def until(self, condition, what: str, *, seconds: float) -> None:  # type: ignore[no-untyped-def]
        """Look again until the condition holds; fail with `what` when it never does."""
        deadline = time.monotonic() + seconds
        for _ in itertools.count():
            if condition():
                return
            assert time.monotonic() < deadline, f"{what} within {seconds:g} s; the logs are in {self.folder}"
            time.sleep(_LOOK_SECONDS)

    def tracebacks(self) -> Counter[str]:
        """How often which tracebacks stand in the logs, by process, the line that they follow and their last one."""
        found: Counter[str] = Counter()
        for name in self._processes:
            spoken, is_inside = "", False
            for line in (self.folder / f"{name}.log").read_text(errors="replace").splitlines():
                if line.startswith("Traceback (most recent"):
                    is_inside = True
                elif _STAMPED.match(line):
                    spoken, is_inside = line[28:100], False
                elif is_inside and line and not line.startswith(" "):
                    found[f"{name.partition('-')[0]}: {spoken} … {line[:100]}"] += 1
                    is_inside = False
        return found

    def said_of(self, words: Sequence[str]) -> list[str]:
        """The lines of all logs that hold one of the words, each behind its process's name."""
        return [
            f"{name}: {line}"
            for name in self._processes
            for line in (self.folder / f"{name}.log").read_text(errors="replace").splitlines()
            if any(word in line for word in words)
        ]

    def arrivals(self) -> list[dict[str, Any]]:
        """Every request that reached the provider, in order of arrival."""
        url = f"{self.simulator_url}/simulator/arrivals"
        documents = [httpx.get(url, timeout=60).json()]
        if self.workers_elsewhere:
            fetch = f"import urllib.request as r; print(r.urlopen({url!r}).read().decode())"
            output = subprocess.check_output([*self.placement.elsewhere, sys.executable, "-c", fetch])
            documents.append(json.loads(output))
        assert not any(document["dropped"] for document in documents), "the simulator forgot arrivals"
        listed = [item for document in documents for item in document["arrivals"]]
        return sorted(listed, key=lambda item: item["arrived_seconds"])

    def close(self) -> None:
        self._closing.set()
        if self._keeper.is_alive():
            self._keeper.join()
        for process in self._processes.values():
            process.popen.kill()
            process.popen.wait()
            process.log.close()
            assert process.popen.stdin is not None
            process.popen.stdin.close()
        self.database.close()
        with contextlib.suppress(redis.RedisError, AssertionError):
            self.broker.thaw()
            self.broker.kill()
        self.postgres.stop("immediate")


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).is_success
    except httpx.HTTPError:
        return False
