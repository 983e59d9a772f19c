"""What several processes around one Redis see of each other, and what happens when one of them dies."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

import pytest
from redis.asyncio import Redis

from tests.contract.governor_arena import (
    ONE_PER_SECOND,
    WITHIN,
    Arena,
    Beats,
    block,
    demand,
    every_redis,
    give_back,
    start_of,
    until,
)
from workers.errors import SlotTimeoutError
from workers.governor.base import Limits


async def server_us(redis: Redis) -> int:
    seconds, microseconds = await redis.time()
    return int(seconds) * 1_000_000 + int(microseconds)


async def changed_score(redis: Redis, name: str, ticket: str, old: float) -> float | None:
    """The score of a ticket as soon as it is not `old` any more."""
    score: float | None = old

    async def has_changed() -> bool:
        nonlocal score
        score = await redis.zscore(f"test:{{provider}}:{name}", ticket)
        return score != old

    await until(has_changed)
    return score


@every_redis
async def test_two_processes_share_one_rate(arena: Arena) -> None:
    here, there, begin = arena.process(), arena.process(), asyncio.get_running_loop().time()

    starts = [await start_of(store, demand(ONE_PER_SECOND)) - begin for store in (here, there, here, there)]

    assert starts == pytest.approx([0, 1, 2, 3], abs=WITHIN)


@every_redis
async def test_an_empty_redis_goes_on_from_what_any_of_its_askers_remembers(arena: Arena) -> None:
    assert arena.redis is not None
    here, there, begin = arena.process(), arena.process(), asyncio.get_running_loop().time()
    await start_of(there, demand(ONE_PER_SECOND))
    for _ in range(5):
        await start_of(here, demand(ONE_PER_SECOND))

    await arena.redis.flushall()
    starts = [await start_of(store, demand(ONE_PER_SECOND)) - begin for store in (there, here, there)]

    # Six starts were granted, the last at second 5. The first asker knows of one; it may have the next second. The
    # other one brings the rest back.
    assert starts == pytest.approx([1, 6, 7], abs=WITHIN)


@every_redis
async def test_two_processes_share_the_places_in_order_of_arrival(arena: Arena) -> None:
    stores, order = (arena.process(), arena.process()), list[int]()
    wanted = demand(Limits(concurrency=1))
    first = await stores[0].acquire(wanted, deadline_seconds=5)

    async def call(number: int) -> None:
        store = stores[number % 3 // 2]
        grant = await store.acquire(wanted, deadline_seconds=5)
        order.append(number)
        await give_back(store, wanted, grant)

    calls = []
    for number in range(9):
        calls.append(asyncio.create_task(call(number)))
        await arena.settle(waiting=number + 1)
    await give_back(stores[0], wanted, first)
    await asyncio.gather(*calls)

    assert order == list(range(9))
    await arena.assert_nothing_is_left()


@every_redis
async def test_a_block_heard_by_one_process_puts_off_the_starts_another_reserved(arena: Arena) -> None:
    here, there, begin = arena.process(), arena.process(), asyncio.get_running_loop().time()
    for _ in range(2):
        await start_of(here, demand(ONE_PER_SECOND))

    await block(there, "provider", 5)
    assert here.paused_seconds("provider") == 0
    next_start = await start_of(here, demand(ONE_PER_SECOND)) - begin

    # The start reserved for second 1 moves to 6, so the next one is 7; the answer about it brings the news.
    assert here.paused_seconds("provider") == pytest.approx(5, abs=WITHIN)
    assert next_start == pytest.approx(7, abs=WITHIN)


@every_redis
async def test_the_slot_of_a_killed_worker_comes_back_when_its_lease_ends(arena: Arena) -> None:
    assert arena.redis is not None
    killed, alive = arena.process(), arena.process()
    wanted = demand(Limits(concurrency=1))
    lease = await killed.acquire(wanted, deadline_seconds=5)
    await killed.aclose()
    with pytest.raises(SlotTimeoutError):
        await alive.acquire(wanted, deadline_seconds=0)

    await arena.redis.zadd("test:{provider}:leases", {lease.lease_id: await server_us(arena.redis)})

    await alive.acquire(wanted, deadline_seconds=0)


@every_redis
async def test_the_lease_of_a_running_call_is_renewed_as_long_as_it_runs(arena: Arena) -> None:
    assert arena.redis is not None
    beats = Beats()
    store = arena.process(lease_seconds=30, sleep=beats.sleep)
    wanted = demand(Limits(concurrency=2))
    lease = await store.acquire(wanted, deadline_seconds=5)
    ended = await store.acquire(wanted, deadline_seconds=5)
    await give_back(store, wanted, ended)

    for _ in range(3):
        # As if 25 of the 30 seconds had passed.
        almost_over = await server_us(arena.redis) + 5_000_000
        await arena.redis.zadd("test:{provider}:leases", {lease.lease_id: almost_over})
        beats.due.set()
        renewed_us = await changed_score(arena.redis, "leases", lease.lease_id, almost_over)
        assert renewed_us == pytest.approx(almost_over + 25_000_000, abs=WITHIN * 1_000_000)

    # A renewal does not bring back what has ended.
    assert await arena.redis.zcard("test:{provider}:leases") == 1


@every_redis
async def test_a_process_that_only_waits_hears_of_a_block_with_its_next_renewal(arena: Arena) -> None:
    beats = Beats()
    here, there = arena.process(sleep=beats.sleep), arena.process()
    await here.acquire(demand(Limits(requests_per_minute=60, concurrency=2)), deadline_seconds=5)

    await block(there, "provider", 5)
    beats.due.set()

    async def has_heard() -> bool:
        return here.paused_seconds("provider") > 0

    await until(has_heard)
    assert here.paused_seconds("provider") == pytest.approx(5, abs=WITHIN)


@every_redis
async def test_a_waiter_is_spoken_for_as_long_as_its_process_lives(arena: Arena) -> None:
    assert arena.redis is not None
    beats = Beats()
    store = arena.process(sleep=beats.sleep)
    wanted = demand(Limits(concurrency=1))
    await arena.process().acquire(wanted, deadline_seconds=5)
    waiters = [asyncio.create_task(store.acquire(wanted, deadline_seconds=5)) for _ in range(2)]
    await arena.settle(waiting=2)
    last: Any = (await arena.redis.zrange("test:{provider}:line:interactive", -1, -1))[0]

    nearly_silent = await server_us(arena.redis) - 2_000_000
    await arena.redis.zadd("test:{provider}:heard", {last: nearly_silent})
    beats.due.set()

    heard_us = await changed_score(arena.redis, "heard", last, nearly_silent)
    assert heard_us == pytest.approx(nearly_silent + 2_000_000, abs=WITHIN * 1_000_000)
    for waiter in waiters:
        waiter.cancel()
    await asyncio.gather(*waiters, return_exceptions=True)


@every_redis
async def test_a_place_granted_to_a_waiter_unheard_is_kept_as_long_as_its_process_lives(arena: Arena) -> None:
    assert arena.redis is not None
    beats, wanted = Beats(), demand(Limits(concurrency=1))
    here, there = arena.process(lease_seconds=30, sleep=beats.sleep), arena.process()
    held = await there.acquire(wanted, deadline_seconds=5)
    with pytest.MonkeyPatch.context() as patch:
        # Nobody looks again by itself.
        patch.setattr("workers.governor.line.SHORTEST_ASK_SECONDS", 1000)
        waiters = [asyncio.create_task(here.acquire(wanted, deadline_seconds=5))]
        await arena.settle(waiting=1)
        await give_back(there, wanted, held)
        waiters.append(asyncio.create_task(there.acquire(wanted, deadline_seconds=5)))

        async def is_granted() -> bool:
            assert arena.redis is not None
            return await arena.redis.hlen("test:{provider}:granted") == 1

        await until(is_granted)
        ((ticket, ends_us),) = await arena.redis.zrange("test:{provider}:leases", 0, -1, withscores=True)
        # Three seconds at first, in case its process is dead.
        assert ends_us == pytest.approx(await server_us(arena.redis) + 3_000_000, abs=WITHIN * 1_000_000)

        beats.due.set()

        renewed_us = await changed_score(arena.redis, "leases", ticket, ends_us)
        assert renewed_us == pytest.approx(ends_us + 27_000_000, abs=WITHIN * 1_000_000)
        for waiter in waiters:
            waiter.cancel()
        await asyncio.gather(*waiters, return_exceptions=True)
    await arena.assert_nothing_is_left()


@every_redis
async def test_a_waiter_of_a_killed_worker_is_forgotten_after_a_few_seconds(arena: Arena) -> None:
    assert arena.redis is not None
    store, wanted = arena.process(), demand(Limits(concurrency=1))
    await arena.redis.zadd("test:{provider}:line:interactive", {"killed:1": 1})
    await arena.redis.hset("test:{provider}:wants", "killed:1", f"0 0 {2**52}")
    await arena.redis.zadd("test:{provider}:heard", {"killed:1": await server_us(arena.redis)})
    with pytest.raises(SlotTimeoutError):
        await store.acquire(wanted, deadline_seconds=0)

    four_seconds_ago = await server_us(arena.redis) - 4_000_000
    await arena.redis.zadd("test:{provider}:heard", {"killed:1": four_seconds_ago})

    await store.acquire(wanted, deadline_seconds=0)


_HOLDER = """
import asyncio, sys
from redis.asyncio import Redis
from tests.contract.governor_arena import demand
from workers.governor.base import Limits
from workers.governor.redis import RedisStore

async def hold():
    store = RedisStore(Redis.from_url(sys.argv[1]), owner="killed", prefix="test", lease_seconds=1.0)
    wanted = demand(Limits(concurrency=8))
    for _ in range(6):
        await store.acquire(wanted, deadline_seconds=5)
    waiters = [asyncio.create_task(store.acquire(wanted, deadline_seconds=60)) for _ in range(5)]
    await asyncio.gather(*waiters)

asyncio.run(hold())
"""


async def test_after_kill_9_of_a_worker_that_holds_places_all_are_free_when_lease_and_silence_are_over(
    valkey_server_url: str,
) -> None:
    redis = Redis.from_url(valkey_server_url)
    await redis.flushall()
    arena, limits = Arena(redis), Limits(concurrency=8)
    holder = await asyncio.create_subprocess_exec(sys.executable, "-c", _HOLDER, valkey_server_url)

    async def holds_all() -> bool:
        return await redis.zcard("test:{provider}:leases") == 8

    async with asyncio.timeout(20):
        while not await holds_all():
            await asyncio.sleep(0)
    await arena.settle(waiting=3)
    holder.send_signal(signal.SIGKILL)
    await holder.wait()
    killed_at = asyncio.get_running_loop().time()

    alive = arena.process()
    await asyncio.gather(*(alive.acquire(demand(limits), deadline_seconds=20) for _ in range(8)))

    # Its leases end after 1 s; its waiters are forgotten 3 s after it last spoke for them, with what the line gave
    # them meanwhile; the first waiter here looks again after 0.25 s at the latest.
    assert asyncio.get_running_loop().time() - killed_at < 3.25 + WITHIN
    await arena.aclose()
