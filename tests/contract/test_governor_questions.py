"""What one process asks of Redis: how often, when it may be cancelled, and the script's arithmetic."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.governor_arena import (
    WITHIN,
    Arena,
    demand,
    every_redis,
    give_back,
    play,
    real_redis,
    until,
)
from workers.errors import SlotTimeoutError
from workers.governor.base import Limits


@every_redis
async def test_a_caller_cancelled_while_its_question_travels_leaves_no_trace(arena: Arena) -> None:
    assert arena.redis is not None
    store, wanted, arrives = arena.process(), demand(Limits(concurrency=1)), asyncio.Event()
    await give_back(store, wanted, await store.acquire(wanted, deadline_seconds=5))
    answer, travelling = arena.redis.evalsha, list[int]()

    async def slowly_at_first(*question: Any) -> Any:
        travelling.append(len(travelling))
        if len(travelling) == 1:
            await arrives.wait()
        return await answer(*question)

    arena.redis.evalsha = slowly_at_first  # type: ignore[method-assign, assignment]
    call = asyncio.create_task(store.acquire(wanted, deadline_seconds=5))

    async def travels() -> bool:
        return bool(travelling)

    await until(travels)
    call.cancel()
    for _ in range(50):
        await asyncio.sleep(0)
    arrives.set()
    await asyncio.gather(call, return_exceptions=True)

    assert call.cancelled()
    await arena.assert_nothing_is_left()


@every_redis
async def test_places_given_back_here_go_to_the_waiters_here_without_asking_in_vain(arena: Arena) -> None:
    store, wanted = arena.process(), demand(Limits(concurrency=3))
    running = [await store.acquire(wanted, deadline_seconds=5) for _ in range(3)]

    served: list[str] = []

    async def call() -> None:
        grant = await store.acquire(wanted, deadline_seconds=5)
        served.append(grant.lease_id)
        await give_back(store, wanted, grant)

    with pytest.MonkeyPatch.context() as patch:
        # Nobody would ask again within the deadline: only the places given back can wake them.
        patch.setattr("workers.governor.line.SHORTEST_ASK_SECONDS", 1000)
        patch.setattr("workers.governor.line.LONGEST_ASK_SECONDS", 1000)
        calls = [asyncio.create_task(call()) for _ in range(30)]
        await arena.settle(waiting=30)
        await asyncio.gather(*(give_back(store, wanted, grant) for grant in running))
        await asyncio.gather(*calls)

    assert len(set(served)) == 30
    await arena.assert_nothing_is_left()


@every_redis
async def test_one_place_given_up_wakes_as_many_waiters_as_there_are_places(arena: Arena) -> None:
    assert arena.redis is not None
    store, wanted = arena.process(), demand(Limits(concurrency=3))
    running = [await store.acquire(wanted, deadline_seconds=5) for _ in range(3)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("workers.governor.line.SHORTEST_ASK_SECONDS", 1000)
        patch.setattr("workers.governor.line.LONGEST_ASK_SECONDS", 1000)
        waiters = [asyncio.create_task(store.acquire(wanted, deadline_seconds=5)) for _ in range(3)]
        await arena.settle(waiting=3)
        # Two places come back unheard, as from a killed worker; the third is given back here.
        await arena.redis.zrem("test:{provider}:leases", *(grant.lease_id for grant in running[1:]))
        await give_back(store, wanted, running[0])
        await asyncio.gather(*waiters)


@every_redis
async def test_a_waiter_that_was_served_by_anothers_question_does_not_ask_once_more(arena: Arena) -> None:
    assert arena.redis is not None
    here, there, wanted = arena.process(), arena.process(), demand(Limits(concurrency=1))
    held = await there.acquire(wanted, deadline_seconds=5)
    answer, asked, arrives = arena.redis.evalsha, list[str](), asyncio.Event()

    async def slowly_back(*question: Any) -> Any:
        reply = await answer(*question)
        asked.append("acquire")
        await arrives.wait()
        return reply

    async def was_asked() -> bool:
        return bool(asked)

    with pytest.MonkeyPatch.context() as patch:
        # Nobody looks again by itself.
        patch.setattr("workers.governor.line.SHORTEST_ASK_SECONDS", 1000)
        waiter = asyncio.create_task(here.acquire(wanted, deadline_seconds=5))
        await arena.settle(waiting=1)
        await give_back(there, wanted, held)
        arena.redis.evalsha = slowly_back  # type: ignore[method-assign, assignment]
        # The newcomer's question serves the waiter; before its answer arrives, the waiter wants to ask as well.
        newcomer = asyncio.create_task(here.acquire(wanted, deadline_seconds=5))
        await until(was_asked)
        here._line("provider").wake_next()
        for _ in range(10):
            await asyncio.sleep(0)
        arrives.set()
        await waiter
        assert asked == ["acquire"]
        assert await arena.redis.zcard("test:{provider}:leases") == 1
        newcomer.cancel()
        await asyncio.gather(newcomer, return_exceptions=True)


@every_redis
async def test_a_waiter_that_left_while_anothers_question_served_it_gives_everything_back(
    arena: Arena,
) -> None:
    assert arena.redis is not None
    here, there = arena.process(), arena.process()
    wanted = demand(Limits(concurrency=1, output_tokens_per_minute=60), output_tokens=10)
    nothing = demand(wanted.limits)
    held = await there.acquire(nothing, deadline_seconds=5)
    answer, asked, arrives = arena.redis.evalsha, list[str](), asyncio.Event()

    async def slowly_back(*question: Any) -> Any:
        reply = await answer(*question)
        asked.append("acquire")
        await arrives.wait()
        return reply

    async def was_asked() -> bool:
        return bool(asked)

    with pytest.MonkeyPatch.context() as patch:
        # Nobody looks again by itself.
        patch.setattr("workers.governor.line.SHORTEST_ASK_SECONDS", 1000)
        waiter = asyncio.create_task(here.acquire(wanted, deadline_seconds=5))
        await arena.settle(waiting=1)
        await give_back(there, nothing, held)
        arena.redis.evalsha = slowly_back  # type: ignore[method-assign, assignment]
        newcomer = asyncio.create_task(here.acquire(nothing, deadline_seconds=5))
        await until(was_asked)
        waiter.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        arrives.set()
        await asyncio.gather(waiter, return_exceptions=True)
        await give_back(here, nothing, await newcomer)
    await arena.assert_nothing_is_left()
    # The ten seconds of the waiter that left are owed by nobody.
    snapshot = await here.snapshot("provider", wanted.limits)
    assert snapshot.next_start_seconds < WITHIN


@every_redis
async def test_a_caller_too_far_back_in_line_is_refused_at_once(arena: Arena) -> None:
    store, wanted = arena.process(), demand(Limits(requests_per_minute=60, concurrency=1))
    await store.acquire(wanted, deadline_seconds=5)
    waiters = [asyncio.create_task(store.acquire(wanted, deadline_seconds=30)) for _ in range(3)]
    await arena.settle(waiting=3)

    asked_at = asyncio.get_running_loop().time()
    with pytest.raises(SlotTimeoutError) as refused:
        await store.acquire(wanted, deadline_seconds=3)

    # One started at 0; the three ahead can start at 1, 2 and 3 at the soonest, so this one at 4.
    assert refused.value.wait_seconds == pytest.approx(4, abs=WITHIN)
    assert asyncio.get_running_loop().time() - asked_at < WITHIN
    await arena.settle(waiting=3)
    for waiter in waiters:
        waiter.cancel()
    await asyncio.gather(*waiters, return_exceptions=True)


@every_redis
async def test_a_question_asked_twice_because_its_answer_was_lost_gets_one_place(arena: Arena) -> None:
    assert arena.redis is not None
    send = arena.redis.evalsha

    async def send_twice(*arguments: Any) -> Any:
        await send(*arguments)
        return await send(*arguments)

    arena.redis.evalsha = send_twice  # type: ignore[method-assign, assignment]
    store, wanted = arena.process(), demand(Limits(concurrency=1))
    # The scripts are loaded by their first use, which answers NOSCRIPT.
    await give_back(store, wanted, await store.acquire(wanted, deadline_seconds=5))

    grant = await store.acquire(wanted, deadline_seconds=0)

    assert await arena.redis.zcard("test:{provider}:leases") == 1
    await give_back(store, wanted, grant)
    await arena.assert_nothing_is_left()


@real_redis
async def test_when_only_the_rate_binds_an_acquire_is_one_round_trip(arena: Arena) -> None:
    assert arena.redis is not None
    store, wanted = arena.process(), demand(Limits(requests_per_minute=3000, burst=5))
    grants = [await store.acquire(wanted, deadline_seconds=20)]
    await arena.redis.config_resetstat()

    grants += await asyncio.gather(*(store.acquire(wanted, deadline_seconds=20) for _ in range(100)))
    for grant in grants:
        await give_back(store, wanted, grant)

    calls = {name: stat["calls"] for name, stat in (await arena.redis.info("commandstats")).items()}
    calls.pop("cmdstat_info", None)
    calls.pop("cmdstat_config|resetstat", None)
    # The script itself reads the clock, reads and writes one hash and renews it: five commands in one round trip.
    assert calls == {f"cmdstat_{name}": 100 for name in ("evalsha", "time", "hmget", "hset", "pexpire")}


@real_redis
async def test_two_hundred_waiters_do_not_hammer_redis(arena: Arena) -> None:
    assert arena.redis is not None
    store, wanted = arena.process(), demand(Limits(concurrency=20))
    running = [await store.acquire(wanted, deadline_seconds=5) for _ in range(20)]
    await arena.redis.config_resetstat()

    async def call() -> None:
        await give_back(store, wanted, await store.acquire(wanted, deadline_seconds=5))

    calls = [asyncio.create_task(call()) for _ in range(200)]
    await arena.settle(waiting=200)
    for grant in running:
        await give_back(store, wanted, grant)
    await asyncio.gather(*calls)

    statistics = await arena.redis.info("commandstats")
    # Each waiter draws its ticket, asks once more and gives back; the rest is asking in vain.
    assert statistics["cmdstat_evalsha"]["calls"] <= 5 * 200


class FrozenClock:
    """Stands in for the `time` module from which fakeredis answers TIME."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def time(self) -> float:
        return self.now


@given(
    per_minute=st.integers(min_value=1, max_value=6000),
    burst=st.integers(min_value=1, max_value=5),
    gaps=st.lists(st.integers(min_value=0, max_value=90_000_000), min_size=1, max_size=25),
)
@settings(max_examples=40, deadline=None)
def test_reserved_starts_keep_the_rate_waste_nothing_and_never_overtake(
    per_minute: int, burst: int, gaps: list[int]
) -> None:
    clock, starts_us = FrozenClock(), list[float]()
    wanted = demand(Limits(requests_per_minute=per_minute, burst=burst))

    async def reserve(arena: Arena) -> None:
        store = arena.process()
        for gap_us in gaps:
            clock.now += gap_us / 1_000_000
            grant = await store.acquire(wanted, deadline_seconds=1e6)
            starts_us.append(round((clock.now - 1_700_000_000) * 1e6) + grant.wait_seconds * 1e6)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fakeredis.commands_mixins.server_mixin.time", clock)
        play("fakeredis", "", reserve)

    unit_us = 60e6 / per_minute
    arrivals_us = [sum(gaps[: number + 1]) for number in range(len(gaps))]
    rounding_us = 2.0 * len(gaps)
    for number, (start, arrival) in enumerate(zip(starts_us, arrivals_us, strict=True)):
        # `burst` calls may start together, so call n and call n+burst are at least one whole cycle apart.
        for earlier in range(number):
            allowed = max(0, number - earlier - burst + 1) * unit_us
            assert start - starts_us[earlier] >= allowed - rounding_us
        # It starts on arrival unless that would break the rate against some earlier call.
        soonest = max(
            [starts_us[earlier] + (number - earlier - burst + 1) * unit_us for earlier in range(number)]
            + [arrival]
        )
        assert start <= soonest + rounding_us
