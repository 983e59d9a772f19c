"""The way to the models: choice of model, governor, transport and cancellation behind one call.

Celery's threads wait; one event loop in a thread of its own does all network work with models (DESIGN §4)."""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from decimal import Decimal
from types import TracebackType
from typing import Any, Self, TypeVar

import redis.asyncio

from workers.core.model_family import model_family
from workers.core.reply import Completion, CompletionRequest, Usage
from workers.core.team import Seat
from workers.errors import SettingsError
from workers.governor.accounts import Accounts
from workers.governor.base import Headroom, Lane, Spent
from workers.governor.breaker import Refusal
from workers.governor.estimate import Estimates
from workers.governor.governor import Governor
from workers.governor.limit_book import LimitBook
from workers.governor.local import LocalStore
from workers.governor.redis import RedisStore
from workers.governor.slot import Slot
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
        turns = _Turns(
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
            spent = _spent(completion.usage)
            turns.settle(spent)
        self._estimates.learn(link.model, purpose.stage, **size, spent=spent)
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


class _Turns:
    """The governor's slots of one call: a request that the HTTP layer repeats takes its turn like any other.

    A request that ended badly is settled with no tokens: refusals and faults are not billed, and what a cut
    stream cost is known only at the end of the call.

    The first turn is waited for up to `wait_seconds`, before the call's own `timeout_seconds` begin. A later one is
    waited for at most half of what is left of them: the other half is for the answer, and a call that ran out of
    time in our own line would be taken for a provider that is silent.
    """

    def __init__(
        self,
        governor: Governor,
        key: str,
        *,
        lane: Lane,
        expected: Spent,
        wait_seconds: float,
        timeout_seconds: float,
    ) -> None:
        self._governor = governor
        self._key = key
        self._lane = lane
        self._expected = expected
        self._wait_seconds = wait_seconds
        self._timeout_seconds = timeout_seconds
        self._clock = asyncio.get_running_loop().time
        self._ends_at = math.inf
        self._stack = contextlib.AsyncExitStack()
        self._slot: Slot | None = None

    async def take(self) -> None:
        """Give back the slot of the request before, and wait for the next. Raises: SlotTimeoutError."""
        if self._slot is not None:
            self._slot.refused()
        await self._stack.aclose()
        left_seconds = self._ends_at - self._clock()
        self._slot = await self._stack.enter_async_context(
            self._governor.slot(
                self._key,
                lane=self._lane,
                input_tokens=self._expected.input_tokens,
                output_tokens=self._expected.output_tokens,
                deadline_seconds=max(0.0, min(self._wait_seconds, left_seconds / 2)),
            )
        )

    def settle(self, spent: Spent) -> None:
        """The call has its answer; this is what the provider bills."""
        assert self._slot is not None  # noqa: S101 - for the type checker: inside the block there is one
        self._slot.settle(spent)

    async def __aenter__(self) -> Self:
        await self.take()
        self._ends_at = self._clock() + self._timeout_seconds
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, ProviderError) and self._slot is not None:
            self._slot.refused()
            if error.usage is not None:
                self._slot.settle(_spent(error.usage))
        # The slot is told how the call ended: one that was cancelled was not served.
        await self._stack.__aexit__(kind, error, trace)


class _Observer:
    """Carries what one provider's answers say of its limits to everybody concerned (`providers.base.Observer`)."""

    def __init__(self, config: ProviderConfig, *, governor: Governor, accounts: Accounts) -> None:
        self._config = config
        self._governor = governor
        self._accounts = accounts

    async def rate_limited(self, model: str, seconds: float) -> None:
        self._accounts.told_to_wait(self._config.name, self._config.key_digest, seconds)
        await self._governor.rate_limited(self._key(model), min(seconds, LONGEST_BLOCK_SECONDS))

    async def overloaded(self, model: str) -> None:
        await self._governor.overloaded(self._key(model))

    async def headroom(self, model: str, headroom: Headroom) -> None:
        self._accounts.saw(self._config.name, self._config.key_digest, headroom)
        await self._governor.observe(self._key(model), headroom)

    def _key(self, model: str) -> str:
        return bucket_key(self._config, model_family(self._config.name, model))


def _spent(usage: Usage) -> Spent:
    # Most providers do not count what they read from their cache towards the limit (reference/panel.md §5.2).
    return Spent(
        input_tokens=usage.input_tokens - usage.cached_input_tokens, output_tokens=usage.output_tokens
    )


def _cost(link: Link) -> Decimal | None:
    price = price_of(link.provider, link.model)
    return None if price is None else price.cost_usd(TYPICAL_CALL)
