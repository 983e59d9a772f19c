"""A worker of `delivery.py`: the project's Celery settings and three tasks that do next to nothing.

python benchmarks/delivery_worker.py THREADS OPTIONS      OPTIONS: what replaces the transport's, as JSON
"""

from __future__ import annotations

import json
import os
import sys
import time

import redis

from workers.celery_app import app, configure
from workers.core.run import SeatState, Stage
from workers.provenance.repository import stages
from workers.provenance.repository.stages import SeatKey
from workers.provenance.session import Database
from workers.settings import load

#: The run whose seats stand for messages.
ROWS = "run_messages"
LEASE_SECONDS = 3.0
_me = f"delivery:{os.getpid()}"


def main() -> None:
    threads, options = sys.argv[1], json.loads(sys.argv[2])
    settings = load()
    assert settings.redis_url
    assert settings.database_url
    configure(settings)
    app.conf.worker_prefetch_multiplier = options.pop("prefetch", 1)
    # The sweep must come soon in a test of seconds.
    app.conf.broker_transport_options = {
        **app.conf.broker_transport_options,
        "unacked_restore_interval": 1,
        **options,
    }
    _open(settings.redis_url, settings.database_url)
    app.worker_main(
        [
            "worker",
            "--pool=threads",
            f"--concurrency={threads}",
            "--queues=llm",
            "--without-gossip",
            "--without-mingle",
            f"--hostname=d{os.getpid()}@%h",
        ]
    )


def _open(redis_url: str, database_url: str) -> None:
    global _redis, _database  # noqa: PLW0603 - one of each per process
    _redis = redis.Redis.from_url(redis_url)
    _database = Database(database_url, pool_size=8)


@app.task(name="sleep")
def sleep(number: int, seconds: float) -> None:
    _redis.rpush("started", number)
    time.sleep(seconds)
    _redis.rpush("ended", number)


@app.task(name="plain")
def plain(number: int) -> None:
    _redis.rpush("begun", number)
    time.sleep(0.01)
    _redis.sadd("done", number)


@app.task(name="row")
def row(number: int) -> None:
    key = SeatKey(run_id=ROWS, round=1, stage=Stage.PANEL, seat=str(number))
    with _database.begin() as connection:
        if stages.claim(connection, key, owner=_me, lease_seconds=LEASE_SECONDS) is None:
            return
    _redis.rpush("begun", number)
    time.sleep(0.01)
    with _database.begin() as connection:
        stages.settle(connection, key, owner=_me, state=SeatState.DONE)


if __name__ == "__main__":
    main()
