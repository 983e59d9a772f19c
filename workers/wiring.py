"""Settings become objects here and nowhere else: one runtime a worker process."""

from __future__ import annotations

import datetime as dt
import os
import secrets
import socket
import threading
import time

import structlog

from workers.core.identity import make_id
from workers.errors import UnavailableError
from workers.gateway import Gateway, LoopThread
from workers.governor.accounts import Accounts
from workers.governor.limit_book import LimitBook
from workers.provenance.repository import accounts, limits, runs, stages
from workers.provenance.repository.stages import SeatKey
from workers.provenance.session import Database
from workers.providers.prices import price_of
from workers.providers.registry import enabled
from workers.sandbox.bounded import BoundedCage
from workers.sandbox.docker import DockerCage
from workers.sandbox.engine import connector
from workers.settings import Settings, environment, settings
from workers.stages.context import Context
from workers.teams import prompt_environment

log = structlog.get_logger(__name__)


class SeatsAtWork:
    """The seats at work in this process (`stages.context.AtWork`)."""

    def __init__(self) -> None:
        self._keys: set[SeatKey] = set()
        self._lock = threading.Lock()

    def add(self, key: SeatKey) -> None:
        with self._lock:
            self._keys.add(key)

    def discard(self, key: SeatKey) -> None:
        with self._lock:
            self._keys.discard(key)

    def all(self) -> list[SeatKey]:
        with self._lock:
            return list(self._keys)


class Runtime:
    """Everything one worker process holds open."""

    def __init__(self, config: Settings) -> None:
        if config.database_url is None or config.redis_url is None:
            raise UnavailableError(
                "a worker needs CONSENSUS_DATABASE_URL and CONSENSUS_REDIS_URL; `consensus up` sets both"
            )
        self.settings = config
        self._owner = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(3)}"
        self._database = Database(config.database_url, pool_size=config.database_pool)
        self._loop = LoopThread()
        self._seats = SeatsAtWork()
        self._accounts = Accounts(time.monotonic, failures_to_open=config.breaker_failures)
        providers = enabled(environment())
        self._limits = LimitBook({name: config.limits for name, config in providers.items()})
        self._gateway = Gateway(
            self._loop,
            providers,
            redis_url=config.redis_url,
            owner=self._owner,
            processes=config.worker_processes,
            slot_wait_seconds=config.slot_wait_seconds,
            accounts=self._accounts,
            limits=self._limits,
        )
        self._cage = DockerCage(
            connector(config.docker_host, environment()), image=config.cage_image, parallel=config.cages
        )
        prompts = prompt_environment()
        self.context = Context(
            database=self._database,
            models=self._gateway,
            owner=self._owner,
            lease_seconds=config.lease_seconds,
            now=now,
            new_id=new_id,
            sleep=time.sleep,
            render=lambda name, **values: prompts.get_template(name).render(**values),
            at_work=self._seats,
            cage=BoundedCage(self._cage, config.sandbox_concurrency),
            price_of=price_of,
        )
        self._heard_until: dt.datetime | None = None
        self._closing = threading.Event()
        self._heart = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._heart.start()

    def _beat(self) -> None:
        """Prolong this process's leases, break off the calls of runs that were cancelled, and exchange what is
        known about providers with the other workers."""
        while not self._closing.wait(self.settings.heartbeat_seconds):
            try:
                self._beat_once()
            except UnavailableError as error:
                log.warning("heartbeat.missed", error=str(error))

    def _beat_once(self) -> None:
        keys, in_flight = self._seats.all(), self._gateway.runs_in_flight()
        changes = self._accounts.take_changes()
        try:
            with self._database.begin() as connection:
                stages.heartbeat(
                    connection, keys, owner=self._owner, lease_seconds=self.settings.lease_seconds
                )
                cancelled = runs.cancelled_among(connection, in_flight)
                accounts.publish(connection, changes)
                news = accounts.published(connection, after=self._heard_until)
                self._limits.replace(limits.all_set(connection))
        except UnavailableError:
            self._accounts.give_back(changes)
            raise
        for run_id in cancelled:
            self._gateway.cancel(run_id)
        said = {(change.provider, change.key_digest) for change in changes}
        for word in news:
            self._heard_until = word.updated_at
            # What this process has just said itself is no news to it.
            if (word.state.provider, word.state.key_digest) not in said:
                self._accounts.adopt(word.state)

    def close(self) -> None:
        self._closing.set()
        self._heart.join(timeout=5)
        self._gateway.close()
        self._cage.close()
        self._loop.close()
        self._database.close()


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def new_id(prefix: str) -> str:
    return make_id(prefix, now(), secrets.token_bytes(10))


_lock = threading.Lock()
_runtime: Runtime | None = None


def runtime() -> Runtime:
    """This process's runtime, made on first use: after any fork, once for all threads."""
    global _runtime  # noqa: PLW0603 - one per process is the point
    with _lock:
        if _runtime is None:
            _runtime = Runtime(settings())
        return _runtime


def close_runtime() -> None:
    """Close the runtime, if there is one; the next use makes another."""
    global _runtime  # noqa: PLW0603
    with _lock:
        if _runtime is not None:
            _runtime.close()
            _runtime = None
