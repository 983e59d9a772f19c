"""Requests, tokens, days and places are taken together, settled afterwards, and cut when a provider is overloaded."""

from __future__ import annotations

import asyncio
import time

import pytest

from tests.contract.governor_arena import WITHIN, Arena, demand, every_store, give_back, start_of
from workers.errors import SlotTimeoutError
from workers.governor.base import Demand, GovernorStore, Grant, Limits, Pace, Settlement, Signal, Spent

#: One output token a second.
TOKENS = Limits(output_tokens_per_minute=60)
DAY_SECONDS = 86_400


def now() -> float:
    return asyncio.get_running_loop().time()


def writes(tokens: int) -> Demand:
    return demand(TOKENS, output_tokens=tokens)


async def all_free(store: GovernorStore, wanted: Demand) -> list[Grant]:
    """Every slot that can be had at once."""
    grants = list[Grant]()
    while len(grants) < 100:
        try:
            grants.append(await store.acquire(wanted, deadline_seconds=0))
        except SlotTimeoutError:
            break
    return grants


@every_store
async def test_a_call_starts_when_the_tokens_of_those_before_it_are_paid(arena: Arena) -> None:
    store, begin = arena.store(), now()

    starts = [await start_of(store, writes(tokens)) - begin for tokens in (2, 3, 1, 1)]

    assert starts == pytest.approx([0, 2, 5, 6], abs=WITHIN)


@every_store
async def test_a_call_bigger_than_a_minute_of_the_limit_is_not_stuck(arena: Arena) -> None:
    store, begin = arena.store(), now()

    assert await start_of(store, writes(6000), deadline_seconds=1) - begin == pytest.approx(0, abs=WITHIN)


@every_store
async def test_input_and_output_tokens_are_paid_apart(arena: Arena) -> None:
    store, begin = arena.store(), now()
    limits = Limits(input_tokens_per_minute=60, output_tokens_per_minute=60)
    calls = [(2, 0), (0, 5), (1, 1)]

    starts = [
        await start_of(store, demand(limits, input_tokens=tokens_in, output_tokens=tokens_out)) - begin
        for tokens_in, tokens_out in calls
    ]

    # The second reads nothing, so the debt of the first is not its own; the third waits for the slower side.
    assert starts == pytest.approx([0, 0, 5], abs=WITHIN)


@every_store
async def test_one_dimension_saves_up_no_burst_while_another_makes_everybody_wait(arena: Arena) -> None:
    store, begin = arena.store(), now()
    limits = Limits(requests_per_minute=60, output_tokens_per_minute=6)

    starts = [
        await start_of(store, demand(limits, output_tokens=tokens), deadline_seconds=60) - begin
        for tokens in (1, 1, 0, 0)
    ]

    # A token takes ten seconds; the two that need none follow one second apart, not both at 10.
    assert starts == pytest.approx([0, 10, 11, 12], abs=WITHIN)


@every_store
async def test_a_call_refused_by_one_dimension_takes_nothing_from_the_others(arena: Arena) -> None:
    store, begin = arena.store(), now()
    limits = Limits(requests_per_minute=60, output_tokens_per_minute=60, requests_per_day=2, concurrency=2)
    await start_of(store, demand(limits, output_tokens=100))

    for _ in range(3):
        with pytest.raises(SlotTimeoutError) as refused:
            await store.acquire(demand(limits, output_tokens=1), deadline_seconds=5)
        assert refused.value.wait_seconds == pytest.approx(100, abs=WITHIN)

    # The second request of the day and the second place are still there, and so is second 1.
    assert await start_of(store, demand(limits)) - begin == pytest.approx(1, abs=WITHIN)


@every_store
async def test_the_difference_between_estimate_and_usage_is_settled_once_with_the_release(
    arena: Arena,
) -> None:
    store = arena.store()
    for spent in (0, 4, 10, 15):
        begin, key = now(), f"spends-{spent}"
        wanted = demand(TOKENS, key=key, output_tokens=10)
        grant = await store.acquire(wanted, deadline_seconds=5)
        settlement = Settlement(spent=Spent(output_tokens=spent), is_success=True)

        await give_back(store, wanted, grant, settlement)
        await give_back(store, wanted, grant, settlement)

        next_start = await start_of(store, demand(TOKENS, key=key, output_tokens=1)) - begin
        assert next_start == pytest.approx(spent, abs=WITHIN)


@every_store
async def test_usage_that_nobody_expected_is_paid_all_the_same(arena: Arena) -> None:
    store, begin = arena.store(), now()
    wanted = writes(0)
    grant = await store.acquire(wanted, deadline_seconds=5)

    await give_back(store, wanted, grant, Settlement(spent=Spent(output_tokens=7)))

    assert await start_of(store, writes(1)) - begin == pytest.approx(7, abs=WITHIN)


@every_store
async def test_a_call_that_was_not_sent_gives_back_its_tokens_its_place_and_its_part_of_the_day(
    arena: Arena,
) -> None:
    store, begin = arena.store(), now()
    wanted = demand(Limits(output_tokens_per_minute=60, requests_per_day=1, concurrency=1), output_tokens=10)
    grant = await store.acquire(wanted, deadline_seconds=5)

    await give_back(store, wanted, grant, Settlement(is_sent=False))
    await give_back(store, wanted, grant, Settlement(is_sent=False))

    assert await start_of(store, wanted, deadline_seconds=1) - begin == pytest.approx(0, abs=WITHIN)
    with pytest.raises(SlotTimeoutError):
        await store.acquire(wanted, deadline_seconds=0)


@every_store
async def test_when_the_day_is_used_up_the_refusal_says_how_long_until_midnight_utc(arena: Arena) -> None:
    store = arena.store()
    wanted = demand(Limits(requests_per_day=3))
    for _ in range(3):
        await give_back(store, wanted, await store.acquire(wanted, deadline_seconds=0))

    with pytest.raises(SlotTimeoutError) as refused:
        await store.acquire(wanted, deadline_seconds=0)

    assert refused.value.wait_seconds == pytest.approx(DAY_SECONDS - time.time() % DAY_SECONDS, abs=2)
    snapshot = await store.snapshot("provider", wanted.limits)
    assert (snapshot.requests_today, snapshot.requests_remaining) == (3, 0)


@every_store
async def test_overload_halves_the_places_once_and_successes_restore_them_one_by_one(arena: Arena) -> None:
    store, limits = arena.store(), Limits(concurrency=8)
    wanted, overload = demand(limits), Signal(is_overload=True)

    # Five calls that are refused together are one overload.
    for _ in range(5):
        await store.hear("provider", limits, overload)
    running = await all_free(store, wanted)
    assert len(running) == 4
    assert (await store.snapshot("provider", limits)).adaptive_concurrency == 4

    # A round of four successes brings the fifth place, five more the sixth; a failure brings none.
    for round_of, places in ((4, 5), (5, 6)):
        await give_back(store, wanted, running.pop(), Settlement(is_success=False))
        running += await all_free(store, wanted)
        for _ in range(round_of):
            await give_back(store, wanted, running.pop(0))
            running.append(await store.acquire(wanted, deadline_seconds=0))
        running += await all_free(store, wanted)
        assert len(running) == places

    for _ in range(6 + 7):
        await give_back(store, wanted, running.pop(0))
        running.append(await store.acquire(wanted, deadline_seconds=0))
    running += await all_free(store, wanted)
    assert len(running) == 8
    assert (await store.snapshot("provider", limits)).adaptive_concurrency == 8


@every_store
async def test_one_place_always_remains(arena: Arena) -> None:
    store, limits = arena.store(), Limits(concurrency=1)
    await store.hear("provider", limits, Signal(is_overload=True))

    assert len(await all_free(store, demand(limits))) == 1


@every_store
async def test_what_is_left_is_spread_until_the_reset_and_no_further(arena: Arena) -> None:
    store, begin, limits = arena.store(), now(), Limits(requests_per_minute=60)
    await store.hear("provider", limits, Signal(requests=Pace(unit_seconds=2, seconds=6)))

    starts = [await start_of(store, demand(limits)) - begin for _ in range(6)]

    # Three are left for six seconds; after the reset one a second is right again.
    assert starts == pytest.approx([0, 2, 4, 6, 7, 8], abs=WITHIN)


@every_store
async def test_a_pace_faster_than_the_limit_changes_nothing(arena: Arena) -> None:
    store, begin, limits = arena.store(), now(), Limits(requests_per_minute=60)
    await store.hear("provider", limits, Signal(requests=Pace(unit_seconds=0.1, seconds=60)))

    starts = [await start_of(store, demand(limits)) - begin for _ in range(3)]

    assert starts == pytest.approx([0, 1, 2], abs=WITHIN)


@every_store
async def test_tokens_that_are_left_are_spread_even_if_no_token_limit_is_known(arena: Arena) -> None:
    store, begin, limits = arena.store(), now(), Limits()
    await store.hear("provider", limits, Signal(output_tokens=Pace(unit_seconds=0.5, seconds=60)))

    starts = [await start_of(store, demand(limits, output_tokens=4)) - begin for _ in range(3)]

    assert starts == pytest.approx([0, 2, 4], abs=WITHIN)


@every_store
async def test_a_snapshot_shows_what_runs_what_waits_and_what_is_blocked(arena: Arena) -> None:
    store, limits = arena.store(), Limits(concurrency=2, requests_per_day=10)
    for _ in range(2):
        await store.acquire(demand(limits), deadline_seconds=5)
    waiters = [asyncio.create_task(store.acquire(demand(limits), deadline_seconds=50)) for _ in range(3)]
    await arena.settle(waiting=3)
    await store.hear("provider", limits, Signal(block_seconds=9))

    snapshot = await store.snapshot("provider", limits)

    assert (snapshot.running, snapshot.waiting_interactive, snapshot.waiting_batch) == (2, 3, 0)
    assert snapshot.is_shared is (arena.redis is not None)
    assert snapshot.blocked_seconds == pytest.approx(9, abs=WITHIN)
    assert snapshot.next_start_seconds == pytest.approx(9, abs=WITHIN)
    assert (snapshot.concurrency, snapshot.adaptive_concurrency) == (2, 2)
    assert (snapshot.requests_today, snapshot.requests_remaining) == (2, 8)
    for waiter in waiters:
        waiter.cancel()
    await asyncio.gather(*waiters, return_exceptions=True)
