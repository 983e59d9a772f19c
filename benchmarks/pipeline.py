"""What the queue costs: the same model calls through Consensus and through a bare asyncio script.

    python benchmarks/pipeline.py [--quick]

Everything real but the models: embedded PostgreSQL and Valkey, the API, Celery workers, and the simulator as the
model provider with a fixed time per answer. The bare script makes the same calls in the same order on the same
aiohttp-backed client, with no queue and no database. Both run in this one process tree, one after the other, so
the ratio means something on a busy machine; absolute times do not.
"""

from __future__ import annotations

import argparse
import asyncio
import datetime as dt
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml
from httpx_aiohttp import HttpxAiohttpClient
from rich.console import Console
from rich.table import Table

from workers.cli.client import Client
from workers.cli.port import free_port
from workers.cli.stack import Stack
from workers.settings import load
from workers.teams import built_in_folder

SPEC = "Benchmark spec: write a function that adds two numbers."
REVIEWERS = ["sim-birch-large", "sim-cedar-large", "sim-birch-small", "sim-cedar-small", "sim-alder-small"]
BAR = 1.15

console = Console()


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="1 s calls instead of 6 s, no second part")
    options = parser.parse_args()
    table = Table("measurement", "Consensus", "bare asyncio", "ratio", "bar")
    seconds = 1.0 if options.quick else 6.0
    ratio = _compare(table, runs=40, call_seconds=seconds, bar="-" if options.quick else f"<= {BAR}")
    if not options.quick:
        _compare(table, runs=200, call_seconds=1.0, bar="-")
        for workers in (1, 2):
            _throughput(table, runs=150, workers=workers)
    console.print(table)
    return 1 if ratio > BAR and not options.quick else 0


def _compare(table: Table, *, runs: int, call_seconds: float, bar: str) -> float:
    with simulator(call_seconds) as url, serving(url, workers=1) as client:
        _drive(client, 2)
        alone = asyncio.run(bare(url, runs))
        ours = _drive(client, runs)
    name = f"{runs} runs in flight, 5 reviewers, {call_seconds:g} s a call, 1 worker"
    table.add_row(name, f"{ours:.2f} s", f"{alone:.2f} s", f"{ours / alone:.3f}", bar)
    return ours / alone


def _throughput(table: Table, *, runs: int, workers: int) -> None:
    with simulator(0.0) as url, serving(url, workers=workers) as client:
        _drive(client, 2)
        alone = asyncio.run(bare(url, runs))
        ours = _drive(client, runs)
    name = f"{runs} runs, zero-latency models, {workers} worker{'s' * (workers > 1)}"
    table.add_row(name, f"{runs / ours:.1f} runs/s", f"{runs / alone:.1f} runs/s", f"{ours / alone:.2f}", "-")


def _drive(client: Client, runs: int) -> float:
    """Seconds from the first submission until the last run has ended, by the database's clock at its end."""
    started_at = dt.datetime.now(dt.UTC)
    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda _: client.create_run({"spec": SPEC, "team": "bench"})["id"], range(runs)))
    deadline = time.monotonic() + 300
    # Looked at rarely: on two cores whoever watches takes time from the watched.
    # Queued first: a run that starts between the two looks must be seen by the second.
    while client.runs(limit=1, state="queued") or client.runs(limit=1, state="running"):
        assert time.monotonic() < deadline, "some runs have not ended"
        time.sleep(0.5)
    ended = [client.run(run_id) for run_id in ids]
    outcomes = {run["outcome"] for run in ended}
    assert "degraded" not in outcomes, f"runs ended {outcomes}"
    return (max(dt.datetime.fromisoformat(run["finished_at"]) for run in ended) - started_at).total_seconds()


async def bare(url: str, runs: int) -> float:
    """Seconds for the same calls in the same order, on the same client, with nothing around them."""
    async with HttpxAiohttpClient(limits=httpx.Limits(max_connections=2000), timeout=120) as client:

        async def call(role: str, model: str, material: str) -> None:
            body = {
                "model": model,
                "max_tokens": 8000,
                "messages": [
                    {"role": "system", "content": f"# Role: {role}"},
                    {"role": "user", "content": f"<spec>\n{SPEC}\n</spec>\n{material}"},
                ],
            }
            try:
                response = await client.post(f"{url}/chat/completions", json=body)
            except httpx.TransportError:
                # The server closes an idle connection after 5 s, at times just when it is used again.
                response = await client.post(f"{url}/chat/completions", json=body)
            response.raise_for_status()
            response.json()

        async def run() -> None:
            file = '<file path="solution.py">\npass\n</file>'
            await call("coder", "sim-alder-large", "")
            await asyncio.gather(*(call("reviewer", model, file) for model in REVIEWERS))
            await call("consensus", "sim-birch-large", "<claims>\n(none)\n</claims>")
            await call("lead", "sim-cedar-large", file)

        started = time.perf_counter()
        await asyncio.gather(*(run() for _ in range(runs)))
        return time.perf_counter() - started


@contextmanager
def simulator(call_seconds: float) -> Iterator[str]:
    """The simulated provider as a process of its own; its base URL."""
    port = free_port()
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "workers.cli.main", "simulate-llm"),
            *("--port", str(port), "--latency-seconds", str(call_seconds)),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while True:
            try:
                httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=5)
                break
            except httpx.HTTPError:
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait()


@contextmanager
def serving(simulator_url: str, *, workers: int) -> Iterator[Client]:
    """A whole embedded installation in a folder of its own."""
    with tempfile.TemporaryDirectory(prefix="consensus-bench-", dir="/var/tmp") as folder:
        team = Path(folder) / "bench.yaml"
        team.write_text(yaml.safe_dump(bench_team()), encoding="utf-8")
        os.environ |= {"CONSENSUS_SIMULATOR_URL": simulator_url, "CONSENSUS_TEAMS": str(team)}
        settings = load(home=Path(folder), worker_processes=workers, database_url=None, redis_url=None)
        stack = Stack(settings, say=lambda _: None)
        stack.start()
        try:
            with Client(stack.url) as client:
                yield client
        finally:
            stack.stop()


def bench_team() -> dict[str, Any]:
    """The default team without refuters and gate, whose calls the bare script does not make."""
    data = yaml.safe_load((built_in_folder() / "consensus.yaml").read_text(encoding="utf-8"))
    return {**data, "name": "bench", "policy": {**data["policy"], "refute": False, "gate": "off"}}


if __name__ == "__main__":
    sys.exit(main())
