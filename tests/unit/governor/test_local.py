"""The share of one process; what every store must do is in tests/contract/test_governor_stores.py."""

from __future__ import annotations

import asyncio

import pytest

from tests.contract.governor_arena import block
from tests.unit.governor.virtual_time import run_in_virtual_time
from workers.errors import InputError, SlotTimeoutError
from workers.governor.base import Debts, Demand, Limits
from workers.governor.local import LocalStore


async def _places(store: LocalStore, limits: Limits) -> int:
    """How many calls may run at once."""
    for taken in range(100):
        try:
            await store.acquire(Demand(key="p", limits=limits), deadline_seconds=0)
        except SlotTimeoutError:
            return taken
    return 100


async def _starts(store: LocalStore, limits: Limits, count: int) -> list[float]:
    starts = []
    for _ in range(count):
        await store.acquire(Demand(key="p", limits=limits), deadline_seconds=1000)
        starts.append(asyncio.get_running_loop().time())
    return starts


@pytest.mark.parametrize(
    ("places", "share", "expected"), [(10, 4, 2), (8, 4, 2), (1, 4, 1), (3, 4, 1), (5, 1, 5)]
)
def test_places_are_divided_and_one_always_remains(places: int, share: int, expected: int) -> None:
    async def scenario() -> None:
        assert await _places(LocalStore(share), Limits(concurrency=places)) == expected

    run_in_virtual_time(scenario())


def test_the_rate_is_divided() -> None:
    async def scenario() -> None:
        # 60 a minute by four processes is 15 a minute each: one in four seconds; a burst of 8 becomes 2.
        starts = await _starts(LocalStore(4), Limits(requests_per_minute=60, burst=8), 4)
        assert starts == pytest.approx([0, 0, 4, 8], abs=1e-6)

    run_in_virtual_time(scenario())


def test_the_share_begins_when_the_debts_made_elsewhere_are_paid() -> None:
    async def scenario() -> None:
        store, limits = LocalStore(3), Limits(requests_per_minute=60)
        store.assume("p", limits, Debts(requests_seconds=10))
        # Three processes begin at once, two more seconds later than one alone might; then every three seconds each.
        assert await _starts(store, limits, 2) == pytest.approx([12, 15], abs=1e-6)
        # The next start of the share, plus what others may just have begun with.
        assert store.debts("p", limits).requests_seconds == 3

    run_in_virtual_time(scenario())


def test_tokens_owed_elsewhere_are_paid_before_the_share_begins() -> None:
    async def scenario() -> None:
        store, limits = LocalStore(2), Limits(input_tokens_per_minute=600)
        wanted = Demand(key="p", limits=limits, input_tokens=10)
        store.assume("p", limits, Debts(input_seconds=7))
        await store.acquire(wanted, deadline_seconds=100)
        assert asyncio.get_running_loop().time() == pytest.approx(7, abs=1e-6)
        # Ten tokens at half of ten a second.
        assert store.debts("p", limits).input_seconds == pytest.approx(2, abs=1e-6)

    run_in_virtual_time(scenario())


def test_changed_limits_hold_from_the_next_call_on() -> None:
    async def scenario() -> None:
        store = LocalStore(1)
        await _starts(store, Limits(requests_per_minute=1), 1)
        starts = await _starts(store, Limits(requests_per_minute=60), 2)
        assert starts == pytest.approx([0, 1], abs=1e-6)
        assert await _places(store, Limits(concurrency=5)) == 2, "three of the five places are taken"

    run_in_virtual_time(scenario())


def test_a_block_that_comes_while_the_rate_makes_a_caller_wait_is_heard() -> None:
    async def scenario() -> None:
        store, limits = LocalStore(1), Limits(requests_per_minute=60)
        await _starts(store, limits, 1)
        waiting = asyncio.create_task(_starts(store, limits, 1))
        await asyncio.sleep(0.5)
        await block(store, "p", 5)
        # Its turn was second 1; the block ends at 5.5.
        assert await waiting == [pytest.approx(5.5)]

    run_in_virtual_time(scenario())


def test_a_share_needs_at_least_one_process() -> None:
    with pytest.raises(InputError, match="share is 0"):
        LocalStore(0)
