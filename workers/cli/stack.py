"""Starts and stops everything that a run needs, in order, and keeps it running: servers, simulator, API, worker,
scheduler. Used by `up` and, for as long as it takes, by `run` and `demo` when nothing is serving yet."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import IO

import httpx

from workers.cli.embedded import EmbeddedServers
from workers.cli.flower import PORT as FLOWER_PORT
from workers.cli.flower import credentials_of, made_credentials
from workers.cli.port import free_port, is_free
from workers.errors import UnavailableError
from workers.provenance.migrate import migrate
from workers.provenance.session import Database
from workers.providers.registry import enabled
from workers.settings import Settings, child_environment, environment

#: How long the API may take until it is ready, and a process to end before it is killed.
READY_SECONDS, STOP_SECONDS = 60.0, 10.0
#: A child that dies is started again, at most this often before it is given up.
MAX_RESTARTS = 20


@dataclasses.dataclass(slots=True, kw_only=True)
class Child:
    """A process of ours. It ends when its standard input closes, so it never outlives us."""

    name: str
    arguments: tuple[str, ...]
    environment: Mapping[str, str]
    log: IO[bytes]
    #: Without it nothing works; otherwise one that keeps dying is left alone.
    is_needed: bool
    process: subprocess.Popen[bytes] = dataclasses.field(init=False)
    restarts: int = 0

    def start(self) -> None:
        self.process = subprocess.Popen(
            # -P: what lies in the folder one stands in is never imported.
            [sys.executable, "-P", "-m", "workers.cli.main", *self.arguments],
            stdin=subprocess.PIPE,
            stdout=self.log,
            stderr=self.log,
            env=self.environment,
            start_new_session=True,
        )

    def close(self) -> None:
        """What the process, which has ended, leaves open here."""
        self.log.close()
        if self.process.stdin is not None:
            self.process.stdin.close()


class Stack:
    """The processes of one installation on this machine."""

    def __init__(
        self,
        settings: Settings,
        *,
        port: int | None = None,
        with_flower: bool = False,
        say: Callable[[str], None],
    ) -> None:
        self._settings = settings
        self._with_flower = with_flower
        self._port = free_port() if port is None else port
        self._say = say
        self._children: list[Child] = []
        self._servers: EmbeddedServers | None = None
        self._environment: dict[str, str] = {}
        self.url = f"http://127.0.0.1:{self._port}"
        #: Where the servers are, once started.
        self.database_url = self.redis_url = ""
        self.uses_simulator = False
        #: Where Flower is, and `user:password`, if it runs.
        self.flower: tuple[str, str] | None = None
        self._metrics_port = settings.metrics_port
        self.logs = settings.home / "logs"

    def start(self) -> None:
        """Start everything and wait until the API is ready. Raises: ConsensusError; nothing stays running."""
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def _start(self) -> None:
        if not is_free(self._port):
            raise UnavailableError(
                f"port {self._port} is in use; choose another with --port, or stop what uses it"
            )
        database_url, redis_url = self._start_servers()
        self.database_url, self.redis_url = database_url, redis_url
        changes = {"CONSENSUS_DATABASE_URL": database_url, "CONSENSUS_REDIS_URL": redis_url}
        database = Database(database_url, pool_size=2)
        try:
            migrate(database)
        finally:
            database.close()
        try:
            self.logs.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UnavailableError(f"the log folder {self.logs} cannot be made: {error.strerror}") from None
        self._environment = child_environment({**changes, "CONSENSUS_STOP_WITH_STDIN": "1"})
        self._start_simulator()
        self._spawn("api", "api", "--port", str(self._port))
        for number in range(1, self._settings.worker_processes + 1):
            self._spawn_worker(f"worker-{number}", queues="llm,control", worker=f"llm{number}")
        self._spawn_worker("sandbox", queues="sandbox", worker="sandbox")
        if find_spec("scipy") is not None:
            self._spawn_worker("scoring", queues="scoring", worker="scoring")
        self._spawn("beat", "beat")
        if self._with_flower:
            self._start_flower()
        self._wait_for(lambda: _answers(f"{self.url}/readyz"), "the API")
        self._write_state()

    def _start_servers(self) -> tuple[str, str]:
        """Ours for each URL that is not set."""
        database_url, redis_url = self._settings.database_url, self._settings.redis_url
        if database_url and redis_url:
            return database_url, redis_url
        self._say(f"starting the embedded database and broker under {self._settings.home}")
        self._servers = EmbeddedServers(self._settings.home)
        embedded_database, embedded_redis = self._servers.start()
        return database_url or embedded_database, redis_url or embedded_redis

    def _start_simulator(self) -> None:
        """The simulated provider, when no real one is on (`providers.registry` never mixes them)."""
        if enabled(environment()):
            return
        port = free_port()
        self._environment["CONSENSUS_SIMULATOR_URL"] = f"http://127.0.0.1:{port}/v1"
        self._spawn("simulator", "simulate-llm", "--port", str(port))
        self._wait_for(lambda: _answers(f"http://127.0.0.1:{port}/healthz"), "the simulator")
        self.uses_simulator = True

    def _start_flower(self) -> None:
        """On its usual port, or the next that is free. The password is no argument: everybody sees those."""
        port = next(filter(is_free, range(FLOWER_PORT, FLOWER_PORT + 100)), None) or free_port()
        credentials = credentials_of(self._settings) or made_credentials()
        environment = {**self._environment, "CONSENSUS_FLOWER_AUTH": credentials}
        self._spawn("flower", "flower", "--port", str(port), environment=environment, is_needed=False)
        self.flower = f"http://127.0.0.1:{port}", credentials

    def _spawn_worker(self, name: str, *, queues: str, worker: str) -> None:
        """Each on a port of its own for metrics, where there are to be some."""
        port = str(self._metrics_port)
        self._metrics_port += self._metrics_port > 0
        self._spawn(name, "worker", "--queues", queues, "--name", worker, "--metrics-port", port)

    def _spawn(
        self,
        name: str,
        *arguments: str,
        environment: Mapping[str, str] | None = None,
        is_needed: bool = True,
    ) -> None:
        child = Child(
            name=name,
            arguments=arguments,
            environment=environment or self._environment,
            log=(self.logs / f"{name}.log").open("ab"),
            is_needed=is_needed,
        )
        child.start()
        self._children.append(child)

    def _wait_for(self, is_ready: Callable[[], bool], name: str) -> None:
        deadline = time.monotonic() + READY_SECONDS
        while not is_ready():
            self.tend()
            if time.monotonic() > deadline:
                raise UnavailableError(
                    f"{name} did not become ready within {READY_SECONDS:g} s; see the logs in {self.logs}"
                )
            time.sleep(0.05)

    def tend(self) -> None:
        """Start again what died. Raises: UnavailableError when a process dies again and again."""
        if self._servers is not None:
            self._servers.tend(self._say)
        for child in tuple(self._children):
            code = child.process.poll()
            if code is None:
                continue
            if child.restarts >= MAX_RESTARTS or code == 3:
                last = f"{child.name} ended with code {code}: {last_line(self.logs / f'{child.name}.log')}"
                if child.is_needed:
                    raise UnavailableError(last)
                self._say(f"{last}; it is left alone")
                child.close()
                self._children.remove(child)
                continue
            child.restarts += 1
            self._say(f"{child.name} ended with code {code}; starting it again")
            time.sleep(min(5.0, 0.2 * child.restarts))
            if child.process.stdin is not None:
                child.process.stdin.close()
            child.start()

    def _write_state(self) -> None:
        state = {"url": self.url, "pid": os.getpid(), "simulated": self.uses_simulator}
        (self._settings.home / "serving.json").write_text(json.dumps(state), encoding="utf-8")

    def stop(self) -> None:
        """Stop everything, last started first, the servers at the end; safe to repeat."""
        serving = self._settings.home / "serving.json"
        if self._children and serving.exists():
            serving.unlink()
        for child in reversed(self._children):
            child.process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        for child in reversed(self._children):
            try:
                child.process.wait(timeout=max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                # Nothing is lost: its seats' leases run out and the next start rescues them.
                child.process.kill()
                child.process.wait()
            child.close()
        self._children.clear()
        if self._servers is not None:
            self._servers.stop()
            self._servers = None


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).is_success
    except httpx.HTTPError:
        return False


def last_line(path: Path) -> str:
    """The last line of a log, for an error message."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    except OSError:
        return "it left no log"
    return lines[-1] if lines else "it left no log"
