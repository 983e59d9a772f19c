"""A whole installation for a benchmark: real processes, looked at from outside through HTTP, the database and /proc."""

from __future__ import annotations

import dataclasses
import json
import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import redis
import yaml
from pipeline import bench_team, simulator
from sqlalchemy import text

from workers.cli.stack import Stack
from workers.provenance.session import Database
from workers.queues import PRIORITY_STEPS, Queue
from workers.settings import load

#: What kombu puts between a queue's name and its priority step.
_SEPARATOR = "\x06\x16"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """MiB: of the API's process, of all workers together, and what the broker holds."""

    api: float
    workers: float
    redis: float


class Installation:
    """An embedded installation that is serving."""

    def __init__(self, stack: Stack, database_url: str, redis_url: str) -> None:
        self._stack = stack
        self.api = httpx.Client(base_url=stack.url, timeout=600)
        self.database = Database(database_url, pool_size=2)
        self.broker = redis.Redis.from_url(redis_url)

    def submit(self, count: int, *, label: str, **options: Any) -> tuple[str, float]:
        """A batch of that many different specs: (its id, seconds that the submission took)."""
        lines = "".join(
            json.dumps({"spec": f"Benchmark spec {label} {number}: add two numbers.", "team": "bench"}) + "\n"
            for number in range(count)
        )
        started = time.perf_counter()
        answer = self.api.post(
            "/v1/batches",
            content=lines.encode(),
            params=options,
            headers={"Content-Type": "application/jsonl"},
        )
        answer.raise_for_status()
        return str(answer.json()["id"]), time.perf_counter() - started

    def run(self) -> str:
        """One interactive run."""
        answer = self.api.post("/v1/runs", json={"spec": "Benchmark spec: add two numbers.", "team": "bench"})
        answer.raise_for_status()
        return str(answer.json()["id"])

    def value(self, query: str, **values: Any) -> Any:
        """The one value that a query gives."""
        with self.database.begin() as connection:
            return connection.execute(text(query), values).scalar_one()

    def under_way(self, batch_id: str) -> int:
        return int(self.value(_UNDER_WAY, batch=batch_id))

    def wait_for(self, is_so: Callable[[], bool], *, seconds: float, what: str) -> None:
        deadline = time.monotonic() + seconds
        while not is_so():
            if time.monotonic() > deadline:
                raise SystemExit(f"{what} did not come about within {seconds:g} s")
            time.sleep(0.25)

    def wait_for_window(self, batch_id: str, *, runs: int) -> None:
        """Until so many of its runs have been sent."""
        self.wait_for(lambda: self.under_way(batch_id) >= runs, seconds=60, what=f"{runs} runs under way")

    def messages(self) -> int:
        """Those that wait in the broker's queues."""
        names = [
            queue.value + (f"{_SEPARATOR}{step}" if step else "")
            for queue in Queue
            for step in PRIORITY_STEPS
        ]
        return sum(int(self.broker.llen(name)) for name in names)  # type: ignore[arg-type]

    def memory(self) -> Memory:
        found = {"api": 0.0, "worker": 0.0}
        for folder in Path("/proc").iterdir():
            command = _command(folder)
            if "workers.cli.main" not in command or not _is_ours(folder):
                continue
            kind = command[command.index("workers.cli.main") + 1]
            if kind in found:
                found[kind] += _resident_mib(folder)
        used = self.broker.info("memory")["used_memory"]  # type: ignore[index]
        return Memory(api=found["api"], workers=found["worker"], redis=used / 2**20)

    def close(self) -> None:
        self.api.close()
        self.database.close()
        self.broker.close()


_UNDER_WAY = """
    SELECT count(*) FROM runs
    WHERE batch_id = :batch AND state IN ('queued', 'running') AND dispatched_at IS NOT NULL
"""


def _command(folder: Path) -> list[str]:
    try:
        return (folder / "cmdline").read_text().split("\0")
    except OSError:
        return []


def _is_ours(folder: Path) -> bool:
    try:
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return False
    return int(fields[1]) == os.getpid()


def _resident_mib(folder: Path) -> float:
    try:
        pages = int((folder / "statm").read_text().split()[1])
    except OSError:
        return 0.0
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@contextmanager
def installed(call_seconds: float, *, workers: int = 2) -> Iterator[tuple[Installation, str]]:
    """An installation whose models take that long, in a folder of its own, and the models' address."""
    with (
        simulator(call_seconds) as url,
        tempfile.TemporaryDirectory(prefix="consensus-bench-", dir="/var/tmp") as folder,
    ):
        team = Path(folder) / "bench.yaml"
        team.write_text(yaml.safe_dump(bench_team()), encoding="utf-8")
        os.environ |= {
            "CONSENSUS_SIMULATOR_URL": url,
            "CONSENSUS_TEAMS": str(team),
            "CONSENSUS_WORKER_PROCESSES": str(workers),
        }
        settings = load(home=Path(folder), worker_processes=workers, database_url=None, redis_url=None)
        stack = Stack(settings, say=lambda _: None)
        stack.start()
        try:
            opened = Installation(stack, stack.database_url, stack.redis_url)
            yield opened, url
            opened.close()
        finally:
            stack.stop()
