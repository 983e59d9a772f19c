"""Settings become objects here and nowhere else: one runtime a worker process."""

from __future__ import annotations

import datetime as dt
import os
import random
import secrets
import socket
import threading
import time
from collections.abc import Iterable, Set

import httpx
import structlog

from workers.core.identity import make_id
from workers.errors import UnavailableError
from workers.gateway import Gateway, LoopThread
from workers.governor.accounts import Accounts
from workers.governor.limit_book import LimitBook
from workers.guarded_http import SystemNames, guarded_client
from workers.provenance.repository import accounts, limits, runs, stages
from workers.provenance.repository.call_history import lessons
from workers.provenance.repository.stages import SeatKey
from workers.provenance.session import Database
from workers.providers.prices import price_of
from workers.providers.registry import enabled
from workers.sandbox.bounded import BoundedCage
from workers.sandbox.counted import CountedCage
from workers.sandbox.docker import DockerCage
from workers.sandbox.engine import connector
from workers.sandbox.sweeper import Sweeper
from workers.settings import Settings, environment, settings
from workers.stages.context import Context
from workers.teams import prompt_environment
from workers.tools.mcp import McpToolbox
from workers.webhooks.courier import MOST_CONNECTIONS, Courier
from workers.webhooks.post import TIMEOUT_SECONDS

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
        self.own_accounts = {(name, config.key_digest) for name, config in providers.items()}
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
        self._learn()
        self._cage = DockerCage(
            connector(config.docker_host, environment()), image=config.cage_image, parallel=config.cages
        )
        prompts = prompt_environment()
        self.context = Context(
            database=self._database,
            models=self._gateway,
            owner=self._owner,
            lease_seconds=config.lease_seconds,
            held_seconds=config.held_seconds,
            now=now,
            new_id=new_id,
            sleep=time.sleep,
            render=lambda name, **values: prompts.get_template(name).render(**values),
            at_work=self._seats,
            toolbox=McpToolbox(self._loop.submit, environment()),
            cage=BoundedCage(CountedCage(self._cage), config.sandbox_concurrency),
            price_of=price_of,
        )
        self._names = SystemNames()
        self._webhook_client = self._loop.run(self._open_webhook_client())
        #: Does nothing without keys: the deliveries wait for a worker that has some.
        self.courier = Courier(
            self._database,
            self._loop,
            self._webhook_client,
            config.webhook_keys,
            now=now,
            clock=time.monotonic,
            chance=random.random,
        )
        self._heard: dict[tuple[str, str], dt.datetime] = {}
        self._closing = threading.Event()
        self._heart = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._heart.start()
        self._sweeper = Sweeper(self._cage.sweep)
        self._sweeper.start()

    async def _open_webhook_client(self) -> httpx.AsyncClient:
        return guarded_client(
            self._names,
            allow_private=self.settings.webhook_allow_private,
            most_connections=MOST_CONNECTIONS,
            timeout_seconds=TIMEOUT_SECONDS,
        )

    def _learn(self) -> None:
        """Take over what calls used lately. A worker that starts while the database does not answer starts all the
        same, with the estimates of a beginner."""
        try:
            with self._database.begin() as connection:
                self._gateway.learn(lessons(connection))
        except UnavailableError as error:
            log.warning("lessons.missed", error=str(error))

    def _beat(self) -> None:
        """Keep what this process holds, and exchange what is known about providers with the other workers. Apart,
        because leases must not run out for the sake of the rest; and whatever happens, the heart goes on."""
        while not self._closing.wait(self.settings.heartbeat_seconds):
            for part in (self._keep, self._exchange):
                try:
                    part()
                except UnavailableError as error:
                    log.warning("heartbeat.missed", error=str(error))
                except Exception:
                    log.exception("heartbeat.broke")

    def _keep(self) -> None:
        """Prolong this process's leases, and break off the calls of runs that were cancelled."""
        keys, in_flight = self._seats.all(), self._gateway.runs_in_flight()
        with self._database.begin() as connection:
            stages.heartbeat(connection, keys, owner=self._owner, lease_seconds=self.settings.lease_seconds)
            cancelled = runs.cancelled_among(connection, in_flight)
        for run_id in cancelled:
            self._gateway.cancel(run_id)

    def _exchange(self) -> None:
        changes = self._accounts.take_changes()
        try:
            with self._database.begin() as connection:
                accounts.publish(connection, changes)
                news = accounts.published(connection)
                self._limits.replace(limits.all_set(connection))
        except Exception:
            self._accounts.give_back(changes)
            raise
        self._hear(news, said={(change.provider, change.key_digest) for change in changes})

    def _hear(self, words: Iterable[accounts.Published], *, said: Set[tuple[str, str]]) -> None:
        """Adopt what is new about the accounts that this process calls: what became of another key, perhaps one
        that was replaced, nobody here would ever find out again."""
        for word in words:
            account = (word.state.provider, word.state.key_digest)
            is_news = self._heard.get(account) != word.updated_at
            self._heard[account] = word.updated_at
            # What this process has just said itself is no news to it.
            if is_news and account in self.own_accounts and account not in said:
                self._accounts.adopt(word.state)

    def close(self) -> None:
        self._closing.set()
        self._heart.join(timeout=5)
        self._loop.run(self._webhook_client.aclose())
        self._names.close()
        self._gateway.close()
        self._sweeper.close()
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
