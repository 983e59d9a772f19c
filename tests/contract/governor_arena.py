"""Where the suites over governor stores are played: fakeredis, a real Valkey, or one process alone.

Nothing waits on the wall clock: a start is `clock() + wait_seconds`, so stores that reserve ahead answer at
once, and the local store, which waits itself, runs in a loop whose clock leaps."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import fakeredis
import pytest
from redis.asyncio import Redis

from tests.unit.governor.virtual_time import VirtualTimeLoop
from workers.governor.base import Demand, GovernorStore, Grant, Lane, Limits, Settlement, Signal
from workers.governor.local import LocalStore
from workers.governor.redis import RedisStore

#: A loaded machine answers late; the starts in these tests are whole seconds apart.
WITHIN = 0.4
ONE_PER_SECOND = Limits(requests_per_minute=60)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    """Look again and again, but not for ever."""
    give_up_at = asyncio.get_running_loop().time() + 5
    while not await holds():
        assert asyncio.get_running_loop().time() < give_up_at, "what this test waits for does not happen"
        await asyncio.sleep(0)


class Beats:
    """Paces a store's renewals by hand."""

    def __init__(self) -> None:
        self.due = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        await self.due.wait()
        self.due.clear()


class Arena:
    """One shared place for slots and, for the Redis kinds, any number of processes around it."""

    def __init__(self, redis: Redis | None) -> None:
        self.redis = redis
        self._stores: list[RedisStore] = []

    def store(self) -> GovernorStore:
        if self.redis is None:
            return LocalStore(share=1)
        return self.process()

    def process(self, **settings: Any) -> RedisStore:
        """A store as another worker process has it."""
        assert self.redis is not None
        store = RedisStore(self.redis, owner=f"worker-{len(self._stores)}", prefix="test", **settings)
        self._stores.append(store)
        return store

    async def settle(self, waiting: int, lane: Lane = Lane.INTERACTIVE) -> None:
        """Until that many callers stand in line on `provider`."""
        if self.redis is None:
            for _ in range(10):
                await asyncio.sleep(0)
            return
        redis = self.redis

        async def stands() -> bool:
            return await redis.zcard(f"test:{{provider}}:line:{lane}") == waiting

        await until(stands)

    async def assert_nothing_is_left(self) -> None:
        """No ticket in the line and no lease."""
        if self.redis is not None:
            for name in ("line:interactive", "line:batch", "heard", "leases"):
                assert await self.redis.zcard(f"test:{{provider}}:{name}") == 0, name

    async def aclose(self) -> None:
        for store in self._stores:
            await store.aclose()
        if self.redis is not None:
            await self.redis.aclose()


Scenario = Callable[[Arena], Coroutine[Any, Any, None]]


def play(kind: str, url: str, scenario: Scenario) -> None:
    async def played() -> None:
        redis: Redis | None = None
        if kind == "fakeredis":
            redis = fakeredis.FakeAsyncRedis(server=fakeredis.FakeServer())
        elif kind == "valkey":
            redis = Redis.from_url(url)
            await redis.flushall()
        arena = Arena(redis)
        try:
            async with asyncio.timeout(60 if kind == "local" else 10):
                await scenario(arena)
        finally:
            await arena.aclose()

    with asyncio.Runner(loop_factory=VirtualTimeLoop if kind == "local" else None) as runner:
        runner.run(played())


def _over(*kinds: str) -> Callable[[Scenario], Callable[[str, str], None]]:
    def decorate(scenario: Scenario) -> Callable[[str, str], None]:
        @pytest.mark.parametrize("kind", kinds)
        def test(kind: str, valkey_server_url: str) -> None:
            play(kind, valkey_server_url, scenario)

        test.__name__, test.__doc__ = scenario.__name__, scenario.__doc__
        return test

    return decorate


every_store = _over("fakeredis", "valkey", "local")
every_redis = _over("fakeredis", "valkey")
real_redis = _over("valkey")


def demand(
    limits: Limits,
    key: str = "provider",
    lane: Lane = Lane.INTERACTIVE,
    input_tokens: int = 0,
    output_tokens: int = 0,
) -> Demand:
    return Demand(key=key, limits=limits, lane=lane, input_tokens=input_tokens, output_tokens=output_tokens)


async def start_of(store: GovernorStore, wanted: Demand, *, deadline_seconds: float = 20.0) -> float:
    """When the next caller may start, on the loop's clock."""
    grant = await store.acquire(wanted, deadline_seconds=deadline_seconds)
    return asyncio.get_running_loop().time() + grant.wait_seconds


async def give_back(
    store: GovernorStore, wanted: Demand, grant: Grant, settlement: Settlement | None = None
) -> None:
    """The call succeeded and used what was expected, unless the test says otherwise."""
    await store.release(wanted, grant, settlement or Settlement(is_success=True))


async def block(store: GovernorStore, key: str, seconds: float) -> None:
    await store.hear(key, Limits(), Signal(block_seconds=seconds))
