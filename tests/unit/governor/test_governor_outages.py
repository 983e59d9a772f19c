"""What the governor does with starts that were missed, and at both ends of an outage."""

from __future__ import annotations

import asyncio

import pytest

from tests.unit.governor.test_governor import ScriptedStore, governor_over, now
from tests.unit.governor.virtual_time import run_in_virtual_time
from workers.errors import SlotTimeoutError
from workers.governor.base import Debts, Demand, Grant, Limits, Settlement


class StoreOfWaits(ScriptedStore):
    """Grants these waits, one after the other; each ask takes a second."""

    def __init__(self, *waits: float) -> None:
        super().__init__()
        self.waits = list(waits)

    async def acquire(self, demand: Demand, *, deadline_seconds: float) -> Grant:
        await asyncio.sleep(1)
        self.wait_seconds = self.waits.pop(0)
        return await super().acquire(demand, deadline_seconds=deadline_seconds)


def test_a_start_that_was_missed_is_given_back_and_asked_for_again() -> None:
    async def scenario() -> None:
        # It starts at second 6: two seconds to ask twice, a thousandth to give back, and four to wait.
        shared = StoreOfWaits(-3, 4)
        async with governor_over(shared, ScriptedStore(), Limits(requests_per_minute=60)).slot("p"):
            assert now() == pytest.approx(6.001)
            assert shared.out == {"2"}
            assert shared.settlements == [Settlement(is_sent=False)]
        assert shared.deadlines == [20, pytest.approx(20 - 1.001)]

    run_in_virtual_time(scenario())


def test_a_start_that_is_a_little_late_is_used() -> None:
    async def scenario() -> None:
        shared = StoreOfWaits(-0.5)
        async with governor_over(shared, ScriptedStore(), Limits(requests_per_minute=60)).slot("p"):
            assert shared.settlements == []

    run_in_virtual_time(scenario())


def test_a_caller_that_misses_its_start_until_its_deadline_is_refused() -> None:
    async def scenario() -> None:
        shared = StoreOfWaits(-3, -3, 9)
        with pytest.raises(SlotTimeoutError):
            async with governor_over(shared, ScriptedStore(), Limits(requests_per_minute=60)).slot(
                "p", deadline_seconds=8
            ):
                raise AssertionError("the third start is at second 12")
        assert shared.out == set()

    run_in_virtual_time(scenario())


@pytest.mark.parametrize("steps", range(8))
def test_a_caller_cancelled_at_any_moment_leaves_nothing_taken_of_the_share(steps: int) -> None:
    async def scenario() -> None:
        shared, local = ScriptedStore(), ScriptedStore()
        shared.is_lost = True

        async def call() -> None:
            async with governor_over(shared, local).slot("p"):
                await asyncio.sleep(10)

        calling = asyncio.create_task(call())
        for _ in range(steps):
            await asyncio.sleep(0)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        await asyncio.sleep(0.01)
        assert calling.cancelled()
        assert local.out == set()

    run_in_virtual_time(scenario())


def test_each_store_hears_what_the_other_has_granted() -> None:
    async def scenario() -> None:
        shared, local = ScriptedStore(), ScriptedStore()
        shared.granted, local.granted = Debts(requests_seconds=9), Debts(requests_seconds=5, input_seconds=1)
        governor = governor_over(shared, local)

        async def call() -> None:
            async with governor.slot("p"):
                pass

        await call()
        assert (shared.assumed, local.assumed) == ([], []), "nothing was granted anywhere else"
        shared.is_lost = True
        await call()
        await call()
        assert local.assumed == [shared.granted], "once for each outage"
        shared.is_lost = False
        await asyncio.sleep(2.1)
        await call()
        await call()
        # The other processes look again within two seconds.
        assert shared.assumed == [Debts(requests_seconds=5 + 2, input_seconds=1)]

    run_in_virtual_time(scenario())
