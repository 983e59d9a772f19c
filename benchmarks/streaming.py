"""How soon a review that was committed reaches those who follow its run, with hundreds of them on one API process.

    python benchmarks/streaming.py [--clients N] [--quick]

Everything real: an API process, embedded PostgreSQL and Valkey, HTTP over sockets. A process of its own commits reviews
to the runs' ledgers at random moments and notes when; the clients note when the event's line came in. Beside them, in
the same run, stands a bare LISTEN on the same notifications: what the database and the busy machine need by themselves.
Times are from commit to the first byte of the event's line; the bar is a 99th percentile under 250 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import dataclasses
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import psycopg
from rich.console import Console
from rich.table import Table
from streaming_writer import SEEN, Committed

from workers.cli.embedded import EmbeddedServers
from workers.cli.port import free_port
from workers.provenance.ledger import CHANNEL
from workers.provenance.migrate import migrate
from workers.provenance.session import Database
from workers.settings import child_environment

BAR_MILLISECONDS = 250.0
_READY_SECONDS = 60.0
_LAST_SECONDS = 10.0

console = Console(highlight=False, width=130)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    clients: int
    runs: int
    reviews_per_second: float
    seconds: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Delays in milliseconds, sorted; `lost` of the deliveries never came; memory in MB, CPU in seconds a second."""

    delays: list[float]
    bare: list[float]
    lost: int
    idle_cpu: float
    cpu: float
    memory_before: float
    memory_after: float


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=500)
    parser.add_argument("--quick", action="store_true", help="a few seconds each")
    options = parser.parse_args()
    seconds = 4.0 if options.quick else 15.0
    clients: int = options.clients
    scenes = [
        Scene(clients=1, runs=1, reviews_per_second=20, seconds=seconds),
        Scene(clients=clients, runs=max(1, clients // 5), reviews_per_second=20, seconds=seconds),
        Scene(clients=clients, runs=clients, reviews_per_second=50, seconds=seconds),
        Scene(clients=clients, runs=1, reviews_per_second=2, seconds=seconds),
    ]
    table = Table("clients", "runs", "reviews/s", "deliveries", "p50", "p99", "bare p50", "bare p99")
    for name in ("p50 / bare", "p99 / 1 client", "idle CPU", "CPU", "memory before", "after"):
        table.add_column(name)
    worst = alone = 0.0
    for scene in scenes:
        with _serving() as (database_url, api_url, process):
            measured = asyncio.run(_measure(scene, database_url, api_url, process))
        if measured.lost:
            console.print(f"[red]{measured.lost} events never came[/]")
        p50, p99 = _at(measured.delays, 0.5), _at(measured.delays, 0.99)
        alone = alone or p99
        worst = max(worst, p99) if not measured.lost else float("inf")
        bare50, bare99 = _at(measured.bare, 0.5), _at(measured.bare, 0.99)
        table.add_row(
            *(str(scene.clients), str(scene.runs), f"{scene.reviews_per_second:g}"),
            *(f"{len(measured.delays):,}", f"{p50:.1f} ms", f"{p99:.1f} ms"),
            *(f"{bare50:.1f} ms", f"{bare99:.1f} ms", f"{p50 / bare50:.1f}", f"{p99 / alone:.1f}"),
            *(f"{measured.idle_cpu:.0%}", f"{measured.cpu:.0%}"),
            *(f"{measured.memory_before:.0f} MB", f"{measured.memory_after:.0f} MB"),
        )
    console.print(table)
    # Where others want more cores than there are, waiting for one is what is measured; the CPU column tells.
    console.print(
        f"worst p99 {worst:.0f} ms; bar: under {BAR_MILLISECONDS:g} ms; "
        f"load average {psutil.getloadavg()[0]:.1f} on {psutil.cpu_count()} cores"
    )
    return 0 if worst < BAR_MILLISECONDS else 1


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@contextlib.contextmanager
def _serving() -> Iterator[tuple[str, str, psutil.Process]]:
    """(database URL, the API's address, its process)"""
    with tempfile.TemporaryDirectory(prefix="consensus-bench-", dir="/var/tmp") as name:
        servers = EmbeddedServers(Path(name))
        database_url, redis_url = servers.start()
        try:
            database = Database(database_url, pool_size=2)
            migrate(database)
            database.close()
            port = free_port()
            process = subprocess.Popen(
                [sys.executable, "-m", "workers.cli.main", "api", "--port", str(port)],
                env=child_environment(
                    {
                        "CONSENSUS_DATABASE_URL": database_url,
                        "CONSENSUS_REDIS_URL": redis_url,
                        "CONSENSUS_LOG_LEVEL": "WARNING",
                    }
                ),
                stdout=subprocess.DEVNULL,
            )
            try:
                url = f"http://127.0.0.1:{port}"
                _wait_until_ready(url)
                yield database_url, url, psutil.Process(process.pid)
            finally:
                process.terminate()
                process.wait()
        finally:
            servers.stop()


def _wait_until_ready(url: str) -> None:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.HTTPError):
            if httpx.get(f"{url}/readyz").status_code == 200:
                return
        time.sleep(0.1)
    raise SystemExit("the API did not become ready")


async def _measure(scene: Scene, database_url: str, api_url: str, process: psutil.Process) -> Measured:
    runs = await _submit(api_url, scene.runs)
    memory_before = process.memory_info().rss / 1e6
    seen: dict[tuple[str, int], list[float]] = {}
    connected = asyncio.Semaphore(0)
    followers = [
        asyncio.create_task(_follow(api_url, runs[number % len(runs)], seen, connected))
        for number in range(scene.clients)
    ]
    for _ in range(scene.clients):
        await connected.acquire()
    idle_cpu = await _cpu_over(process, scene.seconds / 2)
    heard: dict[str, list[float]] = {}
    listening = asyncio.Event()
    listener = asyncio.create_task(_listen(database_url, heard, listening))
    await listening.wait()
    began = time.monotonic(), _cpu(process)
    committed = await _write(scene, database_url, runs)
    cpu = (_cpu(process) - began[1]) / (time.monotonic() - began[0])
    readers = {run: sum(runs[n % len(runs)] == run for n in range(scene.clients)) for run in runs}
    due = sum(readers[entry.run_id] for entry in committed)
    deadline = time.monotonic() + _LAST_SECONDS
    while sum(len(times) for times in seen.values()) < due and time.monotonic() < deadline:
        await asyncio.sleep(0.1)
    memory_after = process.memory_info().rss / 1e6
    for task in (*followers, listener):
        task.cancel()
    await asyncio.gather(*followers, listener, return_exceptions=True)
    delays = [
        (at - entry.at_seconds) * 1e3 for entry in committed for at in seen.get((entry.run_id, entry.seq), ())
    ]
    # A run's notifications come in the order of its events.
    bare: list[float] = []
    for run in runs:
        mine = [entry for entry in committed if entry.run_id == run]
        bare += [(at - entry.at_seconds) * 1e3 for entry, at in zip(mine, heard.get(run, ()), strict=False)]
    return Measured(
        delays=sorted(delays),
        bare=sorted(bare),
        lost=due - len(delays),
        idle_cpu=idle_cpu,
        cpu=cpu,
        memory_before=memory_before,
        memory_after=memory_after,
    )


async def _submit(api_url: str, count: int) -> list[str]:
    """The ids of runs that no worker takes up."""
    async with httpx.AsyncClient(base_url=api_url, timeout=60) as client:
        answers = [await client.post("/v1/runs", json={"spec": f"Spec {n}"}) for n in range(count)]
    return [answer.raise_for_status().json()["id"] for answer in answers]


async def _follow(
    api_url: str, run_id: str, seen: dict[tuple[str, int], list[float]], connected: asyncio.Semaphore
) -> None:
    """Note when each event's `id:` line comes in. The bare socket: five hundred HTTP clients would measure
    themselves."""
    host, _, port = api_url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET /v1/runs/{run_id}/events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    while line := await reader.readline():
        if not line.startswith(b"id: "):
            continue
        number = int(line[4:])
        if number == 1:
            connected.release()
        else:
            seen.setdefault((run_id, number), []).append(time.monotonic())


async def _listen(database_url: str, heard: dict[str, list[float]], listening: asyncio.Event) -> None:
    url = database_url.replace("postgresql+psycopg://", "postgresql://", 1)
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        await connection.execute(f"LISTEN {CHANNEL}")
        listening.set()
        async for notification in connection.notifies():
            heard.setdefault(notification.payload, []).append(time.monotonic())


async def _write(scene: Scene, database_url: str, runs: list[str]) -> list[Committed]:
    """Let another process commit reviews; what it noted."""
    dice = random.Random(0)
    plan = {
        "database_url": database_url,
        "runs": runs,
        "gaps": [
            dice.expovariate(scene.reviews_per_second)
            for _ in range(int(scene.reviews_per_second * scene.seconds))
        ],
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(Path(__file__).with_name("streaming_writer.py"))),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    output, _ = await process.communicate(json.dumps(plan).encode())
    return [SEEN.validate_json(line) for line in output.splitlines()]


async def _cpu_over(process: psutil.Process, seconds: float) -> float:
    before = _cpu(process)
    await asyncio.sleep(seconds)
    return (_cpu(process) - before) / seconds


def _cpu(process: psutil.Process) -> float:
    times = process.cpu_times()
    return statistics.fsum((times.user, times.system))


if __name__ == "__main__":
    sys.exit(main())
