"""The way to the models: choice of model, governor, transport and cancellation behind one call.

Celery's threads wait; one event loop in a thread of its own does all network work with models (DESIGN §4)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from decimal import Decimal
from typing import Any, TypeVar

import redis.asyncio

from workers import metrics, tracing
from workers.core.model_family import model_family
from workers.core.reply import Completion, CompletionRequest
from workers.core.team import Seat
from workers.errors import SettingsError
from workers.governor.accounts import Accounts
from workers.governor.base import Headroom, Spent
from workers.governor.breaker import Refusal
from workers.governor.estimate import Estimates
from workers.governor.governor import Governor
from workers.governor.limit_book import LimitBook
from workers.governor.local import LocalStore
from workers.governor.redis import RedisStore
from workers.provenance.repository.call_history import Lesson
from workers.providers.attempts import AttemptCounter
from workers.providers.base import ProviderError
from workers.providers.chain import Link, default_models, parse_link, resolve_chain
from workers.providers.fallback import frugal
from workers.providers.http import HttpClient
from workers.providers.prices import TYPICAL_CALL, context_tokens, price_of
from workers.providers.registry import ProviderConfig, bucket_key, cheap_model
from workers.providers.wire_provider import WireProvider
from workers.stages.context import Chosen, Purpose, RunCancelledError
from workers.turns import Turns, spent

#: The longest that one refusal keeps every worker away from a model family. A provider that names a day may
#: mean one model; asking again every five minutes finds out.
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
    """The models as stages see them (`stages.context.Models`)."""

    def __init__(
        self,
        loop: LoopThread,
        providers: Mapping[str, ProviderConfig],
        *,
        redis_url: str,
        owner: str,
        processes: int,
        slot_wait_seconds: float,
        accounts: Accounts,
        limits: LimitBook,
    ) -> None:
        self._loop = loop
        self._configs = providers
        self._slot_wait_seconds = slot_wait_seconds
        self._accounts = accounts
        self._limits = limits
        self._estimates = Estimates()
        self._in_flight: dict[str, set[Future[Completion]]] = {}
        self._lock = threading.Lock()
        self._defaults: dict[str, tuple[str, ...]] = {}
        self._http, self._store, self._governor = loop.run(self._open(redis_url, owner, processes))
        self._providers = {
            name: WireProvider(
                config, self._http, observer=_Observer(config, governor=self._governor, accounts=accounts)
            )
            for name, config in providers.items()
        }

    async def _open(
        self, redis_url: str, owner: str, processes: int
    ) -> tuple[HttpClient, RedisStore, Governor]:
        self._redis = redis.asyncio.from_url(redis_url)
        store = RedisStore(self._redis, owner=owner)
        governor = Governor(store, LocalStore(processes), self._limits.of_key)
        return HttpClient(max_wait_seconds=self._slot_wait_seconds), store, governor

    def chain(self, seat: Seat, index: int, *, is_lead: bool) -> Chosen:
        """See `Models.chain`. Providers are asked for their models only if the seat names none that is on."""
        links = self._links(seat, index)
        low_quota = None if is_lead else self._accounts.low_quota()
        if low_quota is None:
            return Chosen(links=links)
        return Chosen(links=frugal(links, self._cheap_ones(links), _cost), low_quota=low_quota)

    def _cheap_ones(self, links: Sequence[Link]) -> list[Link]:
        """The models that stand in for those of the chain while quota is low."""
        cheap = [(link, cheap_model(self._configs[link.provider], link.family)) for link in links]
        return [
            Link(provider=link.provider, model=model, family=model_family(link.provider, model))
            for link, model in cheap
            if model
        ]

    def _links(self, seat: Seat, index: int) -> Sequence[Link]:
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

    def refusal(self, link: Link) -> Refusal | None:
        """See `Models.refusal`."""
        return self._accounts.refusal(link.provider, self._configs[link.provider].key_digest)

    def window(self, link: Link) -> int | None:
        """See `Models.window`."""
        return context_tokens(link.provider, link.model)

    def complete(
        self,
        link: Link,
        request: CompletionRequest,
        *,
        purpose: Purpose,
        limit: int,
        used: int,
        sent_again: Callable[[], None],
    ) -> Completion:
        """See `Models.complete`."""
        with (
            metrics.CALLS_IN_FLIGHT.labels(link.provider).track_inprogress(),
            tracing.model_call(
                link.provider,
                model=request.model,
                max_tokens=request.max_tokens,
                temperature=request.temperature,
                run_id=purpose.run_id,
            ),
        ):
            completion = self._complete(link, request, purpose, limit, used, sent_again)
            tracing.note(
                gen_ai__response__model=completion.model_served,
                gen_ai__response__finish_reasons=[completion.finish_reason.value],
                gen_ai__usage__input_tokens=completion.usage.input_tokens,
                gen_ai__usage__output_tokens=completion.usage.output_tokens,
                gen_ai__usage__cache_read__input_tokens=completion.usage.cached_input_tokens,
                consensus__simulated=completion.is_simulated,
            )
            return completion

    def _complete(
        self,
        link: Link,
        request: CompletionRequest,
        purpose: Purpose,
        limit: int,
        used: int,
        sent_again: Callable[[], None],
    ) -> Completion:
        account = (link.provider, self._configs[link.provider].key_digest)
        self._accounts.begin(*account)
        with self._lock:
            # Both at once: whoever cancels the run once its request is out must find it here.
            future = self._loop.submit(self._ask(link, request, purpose, limit, used, sent_again))
            self._in_flight.setdefault(purpose.run_id, set()).add(future)
        try:
            completion = future.result()
        except ProviderError as error:
            self._accounts.failed(*account, kind=error.kind, reason=str(error)[:300])
            raise
        except CancelledError:
            self._accounts.not_sent(*account)
            raise RunCancelledError(f"run {purpose.run_id} was cancelled") from None
        except Exception:
            # No slot, or the database is away: it says nothing of the provider.
            self._accounts.not_sent(*account)
            raise
        finally:
            with self._lock:
                waiting = self._in_flight[purpose.run_id]
                waiting.discard(future)
                if not waiting:
                    del self._in_flight[purpose.run_id]
        self._accounts.succeeded(*account)
        return completion

    async def _ask(
        self,
        link: Link,
        request: CompletionRequest,
        purpose: Purpose,
        limit: int,
        used: int,
        sent_again: Callable[[], None],
    ) -> Completion:
        async def count(sent: int) -> None:
            # The first request was counted with its row, before it came here.
            if sent > used + 1:
                await asyncio.to_thread(sent_again)

        size = {
            "input_characters": sum(map(len, request.texts())),
            "max_tokens": request.max_tokens,
        }
        turns = Turns(
            self._governor,
            bucket_key(self._configs[link.provider], link.family),
            lane=purpose.lane,
            expected=self._estimates.expect(link.model, purpose.stage, **size),
            wait_seconds=self._slot_wait_seconds,
            timeout_seconds=request.timeout_seconds,
        )
        async with turns:
            completion = await self._providers[link.provider].complete(
                request, AttemptCounter(limit, used=used, on_attempt=count), before_repeat=turns.take
            )
            used_tokens = spent(completion.usage)
            turns.settle(used_tokens)
        self._estimates.learn(link.model, purpose.stage, **size, spent=used_tokens)
        return completion

    def learn(self, lessons: Iterable[Lesson]) -> None:
        """What calls used before this process began: a crowd of first calls would otherwise reserve far too much."""
        for lesson in lessons:
            self._estimates.learn(
                lesson.model,
                lesson.stage,
                input_characters=lesson.input_characters,
                max_tokens=lesson.max_tokens,
                spent=Spent(input_tokens=lesson.input_tokens, output_tokens=lesson.output_tokens),
            )

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
    """Carries what one provider's answers say of its limits to everybody concerned (`providers.base.Observer`)."""

    def __init__(self, config: ProviderConfig, *, governor: Governor, accounts: Accounts) -> None:
        self._config = config
        for kind in ("rate_limited", "overloaded"):
            metrics.REFUSALS.labels(config.name, kind)
        self._governor = governor
        self._accounts = accounts

    async def rate_limited(self, model: str, seconds: float) -> None:
        metrics.REFUSALS.labels(self._config.name, "rate_limited").inc()
        self._accounts.told_to_wait(self._config.name, self._config.key_digest, seconds)
        await self._governor.rate_limited(self._key(model), min(seconds, LONGEST_BLOCK_SECONDS))

    async def overloaded(self, model: str) -> None:
        metrics.REFUSALS.labels(self._config.name, "overloaded").inc()
        await self._governor.overloaded(self._key(model))

    async def headroom(self, model: str, headroom: Headroom) -> None:
        self._accounts.saw(self._config.name, self._config.key_digest, headroom)
        await self._governor.observe(self._key(model), headroom)

    def _key(self, model: str) -> str:
        return bucket_key(self._config, model_family(self._config.name, model))


def _cost(link: Link) -> Decimal | None:
    price = price_of(link.provider, link.model)
    return None if price is None else price.cost_usd(TYPICAL_CALL)
