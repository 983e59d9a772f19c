"""What the delivery settings are worth, on this Celery and kombu: each number beside the one of other settings.

    python benchmarks/delivery.py [--messages N] [--kills N]

Real Valkey and PostgreSQL, real worker processes with the settings of `workers/celery_app.py`, changed where a line
says so. Printed: how often a long call starts; what a worker that is killed leaves locked; how many messages a busy
worker holds back; and how many of thousands of messages are lost while workers are killed, with Celery's late
acknowledgement alone and with rows and rescue.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import redis
from delivery_worker import ROWS
from rich.console import Console
from rich.table import Table
from sqlalchemy import text

from tests.e2e.chaos.servers import Broker, Postgres
from tests.integration.stored_runs import store_run
from workers.celery_app import app, configure
from workers.core.run import Stage
from workers.enqueue import queued_messages
from workers.provenance.migrate import migrate
from workers.provenance.repository import stages
from workers.provenance.repository.stages import SeatKey
from workers.provenance.session import Database
from workers.queues import Queue
from workers.settings import Settings
from workers.tasks.rescue import BACKLOG_PATIENCE

HERE = Path(__file__).parent
THREADS = 8
#: A message older than this counts as lost once the queue is empty.
PENDING_SECONDS = 3.0
#: Messages sent and not done, and how long nothing may happen before what is left counts as lost.
WINDOW, GIVE_UP_SECONDS = 500, 45.0
#: A call of so many seconds, and a visibility timeout that is shorter.
LONG_SECONDS, SHORT_TIMEOUT_SECONDS = 8.0, 3


@dataclasses.dataclass(frozen=True)
class Bench:
    """`options`: of the broker's transport, instead of ours."""

    postgres: Postgres
    broker: Broker
    database: Database

    @contextlib.contextmanager
    def worker(self, **options: float) -> Iterator[subprocess.Popen[bytes]]:
        process = self.start(**options)
        try:
            yield process
        finally:
            process.kill()
            process.wait()

    def start(self, **options: float) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, str(HERE / "delivery_worker.py"), str(THREADS), json.dumps(options)],
            env={
                **os.environ,
                "PYTHONPATH": str(HERE.parent),
                "CONSENSUS_DATABASE_URL": self.postgres.url,
                "CONSENSUS_REDIS_URL": self.broker.url,
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    @contextlib.contextmanager
    def redis(self) -> Iterator[redis.Redis]:
        with self.broker.client() as client:
            yield client


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--messages", type=int, default=12_000)
    parser.add_argument("--kills", type=int, default=12)
    options = parser.parse_args()
    console = Console(width=120)
    with tempfile.TemporaryDirectory(prefix="consensus-delivery-", dir="/var/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        bench = Bench(Postgres(folder / "postgres"), Broker(folder / "broker"), None)  # type: ignore[arg-type]
        bench.broker.start()
        bench.postgres.create()
        bench = dataclasses.replace(bench, database=Database(bench.postgres.url, pool_size=4))
        try:
            migrate(bench.database)
            configure(Settings(redis_url=bench.broker.url))
            table = Table("what", "other settings", "ours")
            _long_calls(bench, table)
            _held_back(bench, table)
            _dead_lock(bench, table)
            lost = _losses(bench, table, options.messages, options.kills)
            console.print(table)
        finally:
            bench.database.close()
            bench.broker.kill()
            bench.postgres.stop("immediate")
    return 1 if lost else 0


def _long_calls(bench: Bench, table: Table) -> None:
    def starts(**options: float) -> str:
        with bench.redis() as client, bench.worker(**options), bench.worker(**options):
            client.flushdb()
            for number in range(4):
                app.send_task("sleep", args=[number, LONG_SECONDS], queue="llm")
            _until(lambda: client.llen("ended") >= 4, 60)
            # Whatever was sent again meanwhile has begun by now.
            time.sleep(SHORT_TIMEOUT_SECONDS + 2)
            return f"{client.llen('started')} starts"

    ours = starts()
    other = starts(visibility_timeout=SHORT_TIMEOUT_SECONDS)
    timeouts = f"{SHORT_TIMEOUT_SECONDS} s / {_ours('visibility_timeout')} s"
    what = f"4 calls of {LONG_SECONDS:g} s, two workers; visibility timeout {timeouts}"
    table.add_row(what, other, ours)


def _held_back(bench: Bench, table: Table) -> None:
    def held(prefetch: int) -> str:
        with bench.redis() as client, bench.worker(prefetch=prefetch):
            client.flushdb()
            for number in range(100):
                app.send_task("sleep", args=[number, LONG_SECONDS / 2], queue="llm")
            _until(lambda: client.llen("started") >= THREADS, 60)
            time.sleep(1.0)
            return str(client.hlen("unacked") - client.llen("started"))

    table.add_row(
        f"messages that wait in a worker whose {THREADS} threads are busy; prefetch 4 / 1", held(4), held(1)
    )


def _dead_lock(bench: Bench, table: Table) -> None:
    """A worker dies while it holds the lock of the restore, and leaves an unacknowledged message."""

    def seconds(expire: int) -> float:
        with bench.redis() as client:
            client.flushdb()
            child = f"""
import os, signal, redis
from kombu.transport.redis import Mutex
with Mutex(redis.Redis.from_url({bench.broker.url!r}), "unacked_mutex", {expire}):
    os.kill(os.getpid(), signal.SIGKILL)
"""
            with bench.worker(visibility_timeout=1) as victim:
                app.send_task("sleep", args=[0, 60.0], queue="llm")
                _until(lambda: client.llen("started") == 1, 60)
                victim.kill()
            subprocess.run([sys.executable, "-c", child], check=False)
            died = time.monotonic()
            with bench.worker(visibility_timeout=1, unacked_mutex_expire=expire):
                try:
                    _until(lambda: client.llen("started") == 2, 70)
                except TimeoutError:
                    return float("inf")
            return time.monotonic() - died

    def shown(value: float) -> str:
        return "more than 70 s" if value == float("inf") else f"{value:.0f} s"

    default, ours = seconds(300), seconds(_ours("unacked_mutex_expire"))
    table.add_row(
        "a message behind a dead worker's lock begins again after; lock of 300 s / 30 s",
        shown(default),
        shown(ours),
    )


def _losses(bench: Bench, table: Table, messages: int, kills: int) -> int:
    late = _killed(bench, messages, kills, with_rows=False)
    rows = _killed(bench, messages, kills, with_rows=True)
    what = f"{messages:,} messages, {kills} kill -9: lost; late acknowledgement alone / rows and rescue"
    table.add_row(what, str(late[0]), str(rows[0]))
    table.add_row("… begun more than once (written once)", str(late[1]), str(rows[1]))
    return rows[0]


def _killed(bench: Bench, messages: int, kills: int, *, with_rows: bool) -> tuple[int, int]:
    """(never done, begun more than once)."""
    options: dict[str, float] = {} if with_rows else {"visibility_timeout": 5}
    task = "row" if with_rows else "plain"
    with bench.redis() as client:
        client.flushdb()
        if with_rows:
            store_run(bench.database, ROWS)
        workers = [bench.start(**options) for _ in range(2)]
        try:
            sent = killed = 0
            quiet_since, seen, rescued_at = time.monotonic(), -1, 0.0
            while seen < messages and time.monotonic() - quiet_since < GIVE_UP_SECONDS:
                done = _done(bench, client, with_rows=with_rows)
                if done != seen:
                    quiet_since, seen = time.monotonic(), done
                # Through a window, as batches are: behind a long queue an old message is late, not lost.
                more = range(sent, min(messages, done + WINDOW))
                _send(bench, task, more, with_rows=with_rows)
                sent = max(sent, more.stop)
                if killed < kills and done > (killed + 1) * messages / (kills + 2):
                    victim = killed % 2
                    workers[victim].kill()
                    workers[victim].wait()
                    workers[victim] = bench.start(**options)
                    killed += 1
                if with_rows and time.monotonic() - rescued_at > 1:
                    rescued_at = time.monotonic()
                    _rescue(bench)
                time.sleep(0.05)
            assert killed == kills, f"only {killed} of {kills} workers were killed"
            begun = Counter(client.lrange("begun", 0, -1))
            return messages - seen, sum(count > 1 for count in begun.values())
        finally:
            for process in workers:
                process.kill()
                process.wait()


def _send(bench: Bench, task: str, numbers: range, *, with_rows: bool) -> None:
    if with_rows and numbers:
        keys = [SeatKey(run_id=ROWS, round=1, stage=Stage.PANEL, seat=str(number)) for number in numbers]
        with bench.database.begin() as connection:
            stages.open_seats(connection, keys)
    with app.producer_pool.acquire(block=True) as producer:
        for number in numbers:
            app.send_task(task, args=[number], queue="llm", producer=producer)


def _done(bench: Bench, client: redis.Redis, *, with_rows: bool) -> int:
    if not with_rows:
        return int(client.scard("done"))
    with bench.database.begin() as connection:
        return int(connection.execute(text("SELECT count(*) FROM stages WHERE state = 'done'")).scalar_one())


def _rescue(bench: Bench) -> None:
    """As `tasks/rescue.py` does, but for seats alone and sooner."""
    patience = BACKLOG_PATIENCE if queued_messages(app, Queue.LLM) else 1
    with bench.database.begin() as connection:
        overdue = stages.take_overdue(connection, pending_seconds=PENDING_SECONDS * patience, limit=200)
    for key, _ in overdue:
        app.send_task("row", args=[int(key.seat)], queue="llm")


def _ours(option: str) -> int:
    return int(app.conf.broker_transport_options[option])


def _until(condition, seconds: float) -> None:  # type: ignore[no-untyped-def]
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError
        time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main())
