"""The same on servers of one's own, with several workers, one of which dies."""

from __future__ import annotations

import json
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import httpx
import psutil
import psycopg
import pytest
import redis
from sqlalchemy.engine import make_url

from tests.e2e.conftest import ROOT, Installation, command_line, make_installation, until
from workers.cli.port import free_port

_DATABASE = "consensus_e2e"


@pytest.fixture
def own_servers(servers: tuple[str, str]) -> Iterator[Installation]:
    """An installation that finds its database and broker by URL; both are empty."""
    url = make_url(servers[0])
    with psycopg.connect(
        url.set(drivername="postgresql").render_as_string(hide_password=False), autocommit=True
    ) as connection:
        connection.execute(f"DROP DATABASE IF EXISTS {_DATABASE} WITH (FORCE)")
        connection.execute(f"CREATE DATABASE {_DATABASE}")
    broker = servers[1].rsplit("/", 1)[0] + "/5"
    redis.Redis.from_url(broker).flushdb()
    with tempfile.TemporaryDirectory(prefix="consensus-e2e-", dir="/var/tmp") as folder:
        yield make_installation(
            Path(folder),
            CONSENSUS_DATABASE_URL=url.set(database=_DATABASE).render_as_string(hide_password=False),
            CONSENSUS_REDIS_URL=broker,
            CONSENSUS_WORKER_PROCESSES="2",
            CONSENSUS_LEASE_SECONDS="2",
            CONSENSUS_HEARTBEAT_SECONDS="0.5",
            CONSENSUS_RESCUE_SECONDS="1",
            CONSENSUS_PENDING_SECONDS="3",
            CONSENSUS_STALLED_SECONDS="3",
        )


def test_runs_survive_a_worker_that_is_killed(own_servers: Installation) -> None:
    port = free_port()
    up = own_servers.start("up", "--port", str(port))
    until(lambda: "is serving at" in own_servers.output(), "`up` does not serve")
    lines = (ROOT / "examples/specs.jsonl").read_text(encoding="utf-8").splitlines()
    api = httpx.Client(base_url=f"http://127.0.0.1:{port}")

    runs = [api.post("/v1/runs", json=json.loads(line)).json()["id"] for line in lines]
    until(lambda: _reviews(api, runs) > 3, "no review arrives")
    victim = next(process for process in own_servers.processes() if "llm1" in command_line(process))
    victim.kill()
    until(lambda: all(_run(api, run)["state"] == "finished" for run in runs), "some runs do not end")

    outcomes = [_run(api, run)["outcome"] for run in runs]
    assert sorted(outcomes) == ["accepted"] * 8 + ["rejected"] * 3
    assert all(api.get(f"/v1/runs/{run}/provenance").json()["verified"] for run in runs)
    assert not psutil.pid_exists(victim.pid) or victim.status() == psutil.STATUS_ZOMBIE
    up.send_signal(signal.SIGINT)
    assert up.wait(timeout=30) == 0
    assert own_servers.processes() == []


def _run(api: httpx.Client, run_id: str) -> dict[str, str]:
    detail: dict[str, str] = api.get(f"/v1/runs/{run_id}").json()
    return detail


def test_worker_and_beat_leave_marks_for_health_checks(own_servers: Installation) -> None:
    assert own_servers.consensus("migrate").returncode == 0
    marks = {name: own_servers.home / name for name in ("worker", "scoring", "beat")}
    started = [
        own_servers.start("worker", "--queues", "llm,control", "--heartbeat", str(marks["worker"])),
        own_servers.start("worker", "--queues", "scoring", "--heartbeat", str(marks["scoring"])),
        own_servers.start("beat", "--heartbeat", str(marks["beat"])),
    ]
    until(lambda: "ready." in own_servers.output(), "no worker is ready")
    until(lambda: all(mark.exists() for mark in marks.values()), own_servers.output())

    for process in started:
        process.terminate()
        process.wait(timeout=30)


def _reviews(api: httpx.Client, run_ids: list[str]) -> int:
    ledgers = (api.get(f"/v1/runs/{run_id}/provenance").json()["events"] for run_id in run_ids)
    return sum(event["kind"] == "review.arrived" for events in ledgers for event in events)
