"""People wait in one lane and batches in the other; neither overtakes itself, and batches let people pass."""

from __future__ import annotations

import asyncio

import pytest

from tests.contract.governor_arena import (
    ONE_PER_SECOND,
    WITHIN,
    Arena,
    demand,
    every_store,
    give_back,
    start_of,
)
from workers.errors import SlotTimeoutError
from workers.governor.base import Demand, Lane, Limits


def batch(limits: Limits) -> Demand:
    return demand(limits, lane=Lane.BATCH)


async def give_up(*calls: asyncio.Task[object]) -> None:
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


@every_store
async def test_an_interactive_call_waits_behind_one_second_of_batch_work_and_not_behind_its_queue(
    arena: Arena,
) -> None:
    store, begin = arena.store(), asyncio.get_running_loop().time()
    queued = [
        asyncio.create_task(store.acquire(batch(ONE_PER_SECOND), deadline_seconds=60)) for _ in range(10)
    ]
    # One starts at 0, the next books second 1, which is the horizon; eight stand in line.
    await arena.settle(waiting=8, lane=Lane.BATCH)

    starts = [await start_of(store, demand(ONE_PER_SECOND)) - begin for _ in range(3)]

    assert starts == pytest.approx([2, 3, 4], abs=WITHIN)
    await give_up(*queued)


@every_store
async def test_batch_calls_start_in_order_of_arrival(arena: Arena) -> None:
    store, order = arena.store(), list[int]()
    wanted = batch(Limits(concurrency=1))
    first = await store.acquire(wanted, deadline_seconds=5)

    async def call(number: int) -> None:
        grant = await store.acquire(wanted, deadline_seconds=5)
        order.append(number)
        await give_back(store, wanted, grant)

    calls = [asyncio.create_task(call(number)) for number in range(20)]
    await arena.settle(waiting=20, lane=Lane.BATCH)
    await give_back(store, wanted, first)
    await asyncio.gather(*calls)

    assert order == list(range(20))
    await arena.assert_nothing_is_left()


@every_store
async def test_a_queue_of_batch_calls_behind_a_rate_is_served_in_order(arena: Arena) -> None:
    store, order = arena.store(), list[int]()
    wanted = batch(Limits(requests_per_minute=6000))

    async def call(number: int) -> None:
        grant = await store.acquire(wanted, deadline_seconds=8)
        order.append(number)
        await give_back(store, wanted, grant)

    await asyncio.gather(*(call(number) for number in range(150)))

    # A hundred fit into the horizon of one second; the others stood in line.
    assert order == list(range(150))
    await arena.assert_nothing_is_left()


@every_store
async def test_batch_calls_leave_an_eighth_of_the_places_to_interactive_ones(arena: Arena) -> None:
    store = arena.store()
    for places, for_batch in [(1, 1), (2, 1), (8, 7), (9, 7), (16, 14)]:
        key, limits = f"places-{places}", Limits(concurrency=places)
        for _ in range(for_batch):
            await store.acquire(demand(limits, key, Lane.BATCH), deadline_seconds=0)
        with pytest.raises(SlotTimeoutError):
            await store.acquire(demand(limits, key, Lane.BATCH), deadline_seconds=0)
        for _ in range(places - for_batch):
            await store.acquire(demand(limits, key), deadline_seconds=0)


@every_store
async def test_a_free_place_goes_to_the_interactive_lane_first(arena: Arena) -> None:
    store, order = arena.store(), list[Lane]()
    limits = Limits(concurrency=1)
    first = await store.acquire(batch(limits), deadline_seconds=5)

    async def call(lane: Lane) -> None:
        wanted = demand(limits, lane=lane)
        grant = await store.acquire(wanted, deadline_seconds=5)
        order.append(lane)
        await give_back(store, wanted, grant)

    calls = [asyncio.create_task(call(Lane.BATCH)) for _ in range(3)]
    await arena.settle(waiting=3, lane=Lane.BATCH)
    calls += [asyncio.create_task(call(Lane.INTERACTIVE)) for _ in range(3)]
    await arena.settle(waiting=3)
    await give_back(store, batch(limits), first)
    await asyncio.gather(*calls)

    assert order == [Lane.INTERACTIVE] * 3 + [Lane.BATCH] * 3
    await arena.assert_nothing_is_left()


@every_store
async def test_a_cancelled_batch_waiter_leaves_no_trace(arena: Arena) -> None:
    store = arena.store()
    wanted = batch(ONE_PER_SECOND)
    calls = [asyncio.create_task(store.acquire(wanted, deadline_seconds=60)) for _ in range(6)]
    await arena.settle(waiting=4, lane=Lane.BATCH)

    await give_up(*calls)

    await arena.assert_nothing_is_left()
