"""What every governor store does: fakeredis, a real Valkey, and the local share."""

from __future__ import annotations

import asyncio

import pytest

from tests.contract.governor_arena import (
    ONE_PER_SECOND,
    WITHIN,
    Arena,
    block,
    demand,
    every_store,
    give_back,
    start_of,
)
from workers.errors import SlotTimeoutError
from workers.governor.base import Grant, Limits


@every_store
async def test_starts_are_spaced_by_the_rate(arena: Arena) -> None:
    store, begin = arena.store(), asyncio.get_running_loop().time()

    starts = [await start_of(store, demand(ONE_PER_SECOND)) - begin for _ in range(4)]

    # 60 a minute is one a second; with burst 1 only the first may start at once.
    assert starts == pytest.approx([0, 1, 2, 3], abs=WITHIN)


@every_store
async def test_a_burst_starts_at_once_and_the_rest_is_spaced(arena: Arena) -> None:
    store, begin = arena.store(), asyncio.get_running_loop().time()
    limits = Limits(requests_per_minute=60, burst=3)

    starts = [await start_of(store, demand(limits)) - begin for _ in range(5)]

    assert starts == pytest.approx([0, 0, 0, 1, 2], abs=WITHIN)


@every_store
async def test_callers_that_share_a_rate_start_in_order_of_arrival(arena: Arena) -> None:
    store = arena.store()

    starts = await asyncio.gather(*(start_of(store, demand(ONE_PER_SECOND)) for _ in range(12)))

    assert starts == sorted(starts)
    assert starts[-1] - starts[0] == pytest.approx(11, abs=WITHIN)


@every_store
async def test_callers_that_wait_for_a_place_get_it_in_order_of_arrival(arena: Arena) -> None:
    store, order = arena.store(), list[int]()
    wanted = demand(Limits(concurrency=1))
    first = await store.acquire(wanted, deadline_seconds=5)

    async def call(number: int) -> None:
        grant = await store.acquire(wanted, deadline_seconds=5)
        order.append(number)
        await give_back(store, wanted, grant)

    calls = [asyncio.create_task(call(number)) for number in range(20)]
    await arena.settle(waiting=20)
    await give_back(store, wanted, first)
    await asyncio.gather(*calls)

    assert order == list(range(20))
    await arena.assert_nothing_is_left()


@every_store
async def test_a_newcomer_does_not_overtake_a_waiter_when_a_place_is_free(arena: Arena) -> None:
    store, order = arena.store(), list[str]()
    wanted = demand(Limits(concurrency=1))
    first = await store.acquire(wanted, deadline_seconds=5)

    async def call(name: str) -> None:
        await give_back(store, wanted, await store.acquire(wanted, deadline_seconds=5))
        order.append(name)

    waiter = asyncio.create_task(call("waiter"))
    await arena.settle(waiting=1)
    release = asyncio.create_task(give_back(store, wanted, first))
    newcomer = asyncio.create_task(call("newcomer"))
    await asyncio.gather(release, waiter, newcomer)

    assert order == ["waiter", "newcomer"]


@every_store
async def test_no_more_calls_run_at_once_than_there_are_places(arena: Arena) -> None:
    store, full = arena.store(), asyncio.Event()
    wanted = demand(Limits(concurrency=7))
    running = most = 0

    async def call() -> None:
        nonlocal running, most
        grant = await store.acquire(wanted, deadline_seconds=8)
        running += 1
        most = max(most, running)
        if running == 7:
            full.set()
        # Nobody leaves before all places were taken once: then 7 is both reached and never passed.
        await full.wait()
        await asyncio.sleep(0)
        running -= 1
        await give_back(store, wanted, grant)

    await asyncio.gather(*(call() for _ in range(50)))

    assert most == 7
    await arena.assert_nothing_is_left()


@every_store
async def test_a_slot_given_back_twice_frees_one_place(arena: Arena) -> None:
    store = arena.store()
    wanted = demand(Limits(concurrency=1))
    ended = await store.acquire(wanted, deadline_seconds=5)
    await give_back(store, wanted, ended)
    await give_back(store, wanted, ended)

    running = await store.acquire(wanted, deadline_seconds=5)
    await give_back(store, wanted, ended)

    with pytest.raises(SlotTimeoutError):
        await store.acquire(wanted, deadline_seconds=0)
    await give_back(store, wanted, running)
    await arena.assert_nothing_is_left()


@every_store
async def test_a_cancelled_waiter_leaves_no_trace(arena: Arena) -> None:
    store, order = arena.store(), list[int]()
    wanted = demand(Limits(concurrency=1))
    first = await store.acquire(wanted, deadline_seconds=5)

    async def call(number: int) -> None:
        grant = await store.acquire(wanted, deadline_seconds=5)
        order.append(number)
        await give_back(store, wanted, grant)

    calls = [asyncio.create_task(call(number)) for number in range(5)]
    await arena.settle(waiting=5)
    for number in (0, 2, 4):
        calls[number].cancel()
    await arena.settle(waiting=2)
    await give_back(store, wanted, first)
    await asyncio.gather(*calls, return_exceptions=True)

    assert order == [1, 3]
    await arena.assert_nothing_is_left()


@every_store
async def test_a_caller_cancelled_at_any_moment_leaves_no_trace(arena: Arena) -> None:
    store = arena.store()
    wanted = demand(Limits(concurrency=1))

    for moment in range(40):
        call = asyncio.create_task(store.acquire(wanted, deadline_seconds=5))
        for _ in range(moment):
            await asyncio.sleep(0)
        call.cancel()
        (outcome,) = await asyncio.gather(call, return_exceptions=True)
        if isinstance(outcome, Grant):
            await give_back(store, wanted, outcome)
        await arena.assert_nothing_is_left()

    await store.acquire(wanted, deadline_seconds=0)


@every_store
async def test_a_block_delays_everyone_and_keeps_the_spacing(arena: Arena) -> None:
    store, begin = arena.store(), asyncio.get_running_loop().time()
    await block(store, "provider", 5)
    await block(store, "provider", 1)

    starts = [await start_of(store, demand(ONE_PER_SECOND)) - begin for _ in range(3)]

    # The shorter block does not shorten the longer one.
    assert starts == pytest.approx([5, 6, 7], abs=WITHIN)


@every_store
async def test_no_burst_starts_before_the_end_of_a_block(arena: Arena) -> None:
    store, begin = arena.store(), asyncio.get_running_loop().time()
    await block(store, "provider", 5)
    limits = Limits(requests_per_minute=60, burst=2)

    starts = [await start_of(store, demand(limits)) - begin for _ in range(3)]

    assert starts == pytest.approx([5, 5, 6], abs=WITHIN)


@every_store
async def test_a_block_also_stops_a_key_that_only_limits_concurrency(arena: Arena) -> None:
    store, begin = arena.store(), asyncio.get_running_loop().time()
    await block(store, "provider", 5)

    assert await start_of(store, demand(Limits(concurrency=2))) - begin == pytest.approx(5, abs=WITHIN)


@every_store
async def test_a_block_of_one_key_leaves_the_others_alone(arena: Arena) -> None:
    store, begin = arena.store(), asyncio.get_running_loop().time()
    await block(store, "provider", 5)

    other = await start_of(store, demand(ONE_PER_SECOND, key="other")) - begin

    assert other == pytest.approx(0, abs=WITHIN)


@every_store
async def test_a_start_beyond_the_deadline_is_refused_and_reserves_nothing(arena: Arena) -> None:
    store, begin = arena.store(), asyncio.get_running_loop().time()
    await start_of(store, demand(ONE_PER_SECOND))

    with pytest.raises(SlotTimeoutError) as refused:
        await start_of(store, demand(ONE_PER_SECOND), deadline_seconds=0.5)
    third = await start_of(store, demand(ONE_PER_SECOND)) - begin

    assert refused.value.wait_seconds > 0
    # Second 1 is still free: the refused caller did not take it.
    assert third == pytest.approx(1, abs=WITHIN)


@every_store
async def test_a_place_not_free_before_the_deadline_is_refused_and_leaves_no_ticket(arena: Arena) -> None:
    store = arena.store()
    wanted = demand(Limits(requests_per_minute=60_000, concurrency=1))
    running = await store.acquire(wanted, deadline_seconds=5)

    with pytest.raises(SlotTimeoutError):
        await store.acquire(wanted, deadline_seconds=0.02)

    await give_back(store, wanted, running)
    await arena.assert_nothing_is_left()
    await store.acquire(wanted, deadline_seconds=1)
