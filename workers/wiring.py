"""Settings become objects here and nowhere else: one runtime a worker process.

Celery's threads wait; one event loop in a thread of its own does all network work with models (DESIGN §4)."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

import redis.asyncio
import structlog

from workers.core.identity import make_id
from workers.core.reply import Completion, CompletionRequest
from workers.core.team import Seat
from workers.errors import SettingsError, UnavailableError
from workers.governor.base import Headroom, Limits
from workers.governor.governor import Governor
from workers.governor.local import LocalStore
from workers.governor.redis import RedisStore
from workers.provenance.repository import runs, stages
from workers.provenance.repository.stages import SeatKey
from workers.provenance.session import Database
from workers.providers.attempts import AttemptCounter
from workers.providers.base import ProviderError
from workers.providers.chain import Link, default_models, parse_link, resolve_chain
from workers.providers.http import HttpClient
from workers.providers.registry import ProviderConfig, enabled
from workers.providers.wire_provider import WireProvider
from workers.settings import Settings, environment, settings
from workers.stages.context import Context, RunCancelledError
from workers.teams import prompt_environment

log = structlog.get_logger(__name__)

#: The longest that one refusal keeps every worker away from a provider.
LONGEST_BLOCK_SECONDS = 300.0

_T = TypeVar("_T")


class LoopThread:
    """One event loop in a daemon thread."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="model-calls", daemon=True)
        self._thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, _T]) -> Future[_T]:
        """The caller's context variables (usage scopes) travel with the coroutine."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        return self.submit(coroutine).result()

    def close(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(timeout=5)
        if not self._thread.is_alive():
            self.loop.close()


class Gateway:
    """The way to the models: choice of model, governor, transport and cancellation (`stages.context.Models`)."""

    def __init__(
        self,
        loop: LoopThread,
        providers: Mapping[str, ProviderConfig],
        *,
        redis_url: str,
        owner: str,
        processes: int,
        slot_wait_seconds: float,
    ) -> None:
        self._loop = loop
        self._configs = providers
        self._slot_wait_seconds = slot_wait_seconds
        self._in_flight: dict[str, set[Future[Completion]]] = {}
        self._lock = threading.Lock()
        self._defaults: dict[str, tuple[str, ...]] = {}
        self._http, self._store, self._governor = loop.run(self._open(redis_url, owner, processes))
        self._providers = {
            name: WireProvider(config, self._http, observer=_Observer(self._governor, name))
            for name, config in providers.items()
        }

    async def _open(
        self, redis_url: str, owner: str, processes: int
    ) -> tuple[HttpClient, RedisStore, Governor]:
        self._redis = redis.asyncio.from_url(redis_url)
        store = RedisStore(self._redis, owner=owner)
        governor = Governor(store, LocalStore(processes), self._limits)
        return HttpClient(max_wait_seconds=self._slot_wait_seconds), store, governor

    def _limits(self, provider: str) -> Limits:
        config = self._configs[provider]
        return Limits(requests_per_minute=config.requests_per_minute, concurrency=config.concurrency)

    def chain(self, seat: Seat, index: int) -> Sequence[Link]:
        """See `Models.chain`. Providers are asked for their models only if the seat names none that is on."""
        named = [parse_link(entry).provider for entry in seat.models]
        if any(provider in self._configs for provider in named):
            return resolve_chain(seat.models, self._configs, {}, index)
        faults: list[str] = []
        try:
            return resolve_chain(seat.models, self._configs, self._known(faults), index)
        except SettingsError as error:
            raise SettingsError("; ".join([str(error), *faults])) from None

    def _known(self, faults: list[str]) -> dict[str, tuple[str, ...]]:
        """Models of the providers that name none; what kept one from listing them goes into `faults`.

        Only answers are kept: a provider that is away now may be back for the next seat.
        """
        for name, config in self._configs.items():
            if config.model or name in self._defaults:
                continue
            try:
                listed = default_models(name, self._loop.run(self._providers[name].list_models()))
            except ProviderError as error:
                faults.append(f"{name}: {error}")
            else:
                self._defaults[name] = listed
        return dict(self._defaults)

    def complete(
        self,
        link: Link,
        request: CompletionRequest,
        *,
        run_id: str,
        limit: int,
        used: int,
        sent_again: Callable[[], None],
    ) -> Completion:
        """See `Models.complete`."""
        future = self._loop.submit(self._ask(link, request, limit, used, sent_again))
        with self._lock:
            self._in_flight.setdefault(run_id, set()).add(future)
        try:
            return future.result()
        except CancelledError:
            raise RunCancelledError(f"run {run_id} was cancelled") from None
        finally:
            with self._lock:
                waiting = self._in_flight[run_id]
                waiting.discard(future)
                if not waiting:
                    del self._in_flight[run_id]

    async def _ask(
        self, link: Link, request: CompletionRequest, limit: int, used: int, sent_again: Callable[[], None]
    ) -> Completion:
        async def count(sent: int) -> None:
            # The first request was counted with its row, before it came here.
            if sent > used + 1:
                await asyncio.to_thread(sent_again)

        attempts = AttemptCounter(limit, used=used, on_attempt=count)
        async with self._governor.slot(link.provider, deadline_seconds=self._slot_wait_seconds):
            return await self._providers[link.provider].complete(request, attempts)

    def runs_in_flight(self) -> list[str]:
        with self._lock:
            return list(self._in_flight)

    def cancel(self, run_id: str) -> None:
        """Break off every call of a run: its connection closes, and the provider stops writing."""
        with self._lock:
            waiting = list(self._in_flight.get(run_id, ()))
        for future in waiting:
            future.cancel()

    def close(self) -> None:
        self._loop.run(self._close())

    async def _close(self) -> None:
        await self._http.aclose()
        await self._store.aclose()
        await self._redis.aclose()


class _Observer:
    """Hands on what a provider's answers say of its limits (`providers.base.Observer`)."""

    def __init__(self, governor: Governor, provider: str) -> None:
        self._governor = governor
        self._provider = provider

    async def rate_limited(self, model: str, seconds: float) -> None:  # noqa: ARG002 - a bucket is a provider's
        # A provider that names a day may mean one key or one model; nobody is stopped longer than this by one word.
        await self._governor.block(self._provider, min(seconds, LONGEST_BLOCK_SECONDS))

    async def overloaded(self, model: str) -> None:
        """The governor has no concurrency of its own to lower; the semantic layer's pauses thin the calls out."""

    async def headroom(self, model: str, headroom: Headroom) -> None:
        """The governor spaces calls by its own limits; a refusal corrects them."""


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
        self._gateway = Gateway(
            self._loop,
            enabled(environment()),
            redis_url=config.redis_url,
            owner=self._owner,
            processes=config.worker_processes,
            slot_wait_seconds=config.slot_wait_seconds,
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
        )
        self._closing = threading.Event()
        self._heart = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._heart.start()

    def _beat(self) -> None:
        """Prolong this process's leases and break off the calls of runs that were cancelled."""
        while not self._closing.wait(self.settings.heartbeat_seconds):
            try:
                self._beat_once()
            except UnavailableError as error:
                log.warning("heartbeat.missed", error=str(error))

    def _beat_once(self) -> None:
        keys, in_flight = self._seats.all(), self._gateway.runs_in_flight()
        if not keys and not in_flight:
            return
        with self._database.begin() as connection:
            stages.heartbeat(connection, keys, owner=self._owner, lease_seconds=self.settings.lease_seconds)
            cancelled = runs.cancelled_among(connection, in_flight)
        for run_id in cancelled:
            self._gateway.cancel(run_id)

    def close(self) -> None:
        self._closing.set()
        self._heart.join(timeout=5)
        self._gateway.close()
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
