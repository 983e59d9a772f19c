"""A real worker in this process, on real servers, against a model provider that does as it is told."""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
import redis
from celery import Celery
from celery.contrib.testing.worker import start_worker
from pydantic import SecretStr
from sqlalchemy.engine import make_url

from api.schemas import EventOut
from tests.cages import NoCage
from tests.factories import make_price, make_team
from tests.integration.model_server import ModelServer, model_server
from tests.integration.stored_runs import open_seats, seat_key, store_run
from workers import settings as settings_module
from workers.celery_app import app, configure
from workers.core.budget import Price
from workers.core.team import Team
from workers.enqueue import submit_run
from workers.provenance import ledger, payload
from workers.provenance.repository import runs
from workers.provenance.repository.runs import NewRun, Run
from workers.provenance.session import Database
from workers.queues import Queue
from workers.sandbox.base import Cage
from workers.settings import Settings
from workers.stages.replay import replay
from workers.tasks import dispatch, pipeline, rescue, scoring, webhooks  # noqa: F401 - registers the tasks
from workers.wiring import close_runtime, new_id, now, runtime

#: No test run takes longer; a run that has not ended by then is a failure, not a wait.
DEADLINE_SECONDS = 20.0


WEBHOOK_SECRET = "whsec_" + "c2VjcmV0" * 4

#: Input is free and a written token costs a tenth of a cent, so that sums can be done in the head.
PRICE = make_price("0", "1000")


def price_of(_provider: str, model: str) -> Price | None:
    """Every model has the same price, but for those that are called unpriced."""
    return None if model.startswith("unpriced") else PRICE


@pytest.fixture
def empty_url(servers: tuple[str, str]) -> Iterator[str]:
    """A database without a single table, on the same server."""
    name = f"empty_{secrets.token_hex(4)}"
    url = make_url(servers[0])
    admin = url.set(drivername="postgresql").render_as_string(hide_password=False)
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE template0")
    yield url.set(database=name).render_as_string(hide_password=False)
    with psycopg.connect(admin, autocommit=True) as connection:
        connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def empty(empty_url: str) -> Iterator[Database]:
    opened = Database(empty_url, pool_size=4)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def served_models() -> Iterator[ModelServer]:
    with model_server() as server:
        yield server


@pytest.fixture
def models(served_models: ModelServer) -> ModelServer:
    served_models.reset()
    return served_models


@pytest.fixture(scope="session")
def worker_settings(database_url: str, servers: tuple[str, str]) -> Settings:
    return Settings(
        database_url=database_url,
        redis_url=servers[1],
        lease_seconds=5,
        heartbeat_seconds=0.1,
        pending_seconds=0.001,
        stalled_seconds=0.001,
        llm_concurrency=16,
        breaker_failures=1000,
        webhook_secret=SecretStr(WEBHOOK_SECRET),
        webhook_allow_private=True,
    )


@pytest.fixture(scope="session")
def worker(worker_settings: Settings, served_models: ModelServer) -> Iterator[None]:
    """A worker with 16 threads, as `consensus worker` would start it."""
    patch = pytest.MonkeyPatch()
    for name in ("LOCAL_BASE_URL", "OLLAMA_BASE_URL"):
        patch.setenv(name, served_models.url)
    patch.setattr("workers.stages.ask.FIRST_PAUSE_SECONDS", 0.001)
    patch.setattr("workers.stages.ask.LONGEST_PAUSE_SECONDS", 0.001)
    patch.setattr("workers.wiring.settings", lambda: worker_settings)
    settings_module.settings.cache_clear()
    configure(worker_settings)
    close_runtime()
    opened = runtime()
    opened.context = dataclasses.replace(opened.context, price_of=price_of, cage=NoCage())
    for name in ("LOCAL_BASE_URL", "OLLAMA_BASE_URL"):
        patch.delenv(name)
    with start_worker(
        app,
        pool="threads",
        concurrency=16,
        perform_ping_check=False,
        queues=[queue.value for queue in Queue],
    ):
        yield
    close_runtime()
    patch.undo()


@pytest.fixture
def unserved(worker_settings: Settings, servers: tuple[str, str]) -> Iterator[Celery]:
    """An application with an empty broker that no worker serves: what is sent stays in line."""
    url = urlsplit(servers[1])._replace(path="/9").geturl()
    with redis.Redis.from_url(url) as client:
        client.flushdb()
    with Celery("unserved", set_as_current=False) as sender:
        yield configure(worker_settings.model_copy(update={"redis_url": url}), sender)


@dataclasses.dataclass(frozen=True)
class Bench:
    """Submits runs and waits for their end."""

    database: Database

    def create(self, team: Team | None = None, **changes: Any) -> str:
        changes = {"spec": "Add two numbers.", **changes}
        new = NewRun(run_id=new_id("run"), team=(team or make_team()).as_data(), **changes)
        with self.database.begin() as connection:
            run, _ = runs.create(connection, new, at=now())
        return run.run_id

    def submit(self, team: Team | None = None, **changes: Any) -> str:
        run_id = self.create(team, **changes)
        submit_run(app, run_id)
        return run_id

    def run(self, run_id: str) -> Run:
        with self.database.begin() as connection:
            return runs.get(connection, run_id)

    def ended(self, run_id: str) -> Run:
        """The run, once it has ended; fails when it does not end in time."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not (run := self.run(run_id)).has_ended:
            assert time.monotonic() < deadline, f"the run has not ended: {run}"
            pause()
        return run

    def verdict(self, run_id: str, *, replays: bool = True) -> dict[str, Any]:
        """The verdict; `replays` is false where a test changed rows behind the ledger's back."""
        run = self.ended(run_id)
        assert run.verdict_digest is not None
        with self.database.begin() as connection:
            verdict = payload.load(connection, run.verdict_digest)
        assert isinstance(verdict, dict)
        # Whatever happened to the run, its ledger alone gives the same verdict.
        assert not replays or replay(self.provenance(run_id)).problem is None
        return verdict

    def provenance(self, run_id: str) -> dict[str, Any]:
        """What GET /v1/runs/{id}/provenance answers."""
        run = self.run(run_id)
        with self.database.begin() as connection:
            entries = ledger.read(connection, run_id)
            team = payload.load(connection, run.team_digest)
        events = [EventOut.of(entry).model_dump(mode="json") for entry in entries]
        return {"run_id": run_id, "head": run.ledger_head, "team": team, "events": events}


def pause() -> None:
    """Between two looks at the database; the tests themselves never wait for a duration."""
    time.sleep(0.02)


@pytest.fixture
def caged() -> Iterator[Callable[[Cage], None]]:
    """Give the worker another cage until the test ends."""
    opened = runtime()
    before = opened.context

    def give(cage: Cage) -> None:
        opened.context = dataclasses.replace(opened.context, cage=cage)

    yield give
    opened.context = before


@pytest.fixture
def bench(worker: None, database: Database, redis_url: str) -> Bench:
    return Bench(database)


@pytest.fixture
def seated(database: Database) -> Database:
    """A run with one pending seat."""
    store_run(database)
    open_seats(database, seat_key())
    return database
