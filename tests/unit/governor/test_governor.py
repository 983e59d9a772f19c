"""The governor's policy, over stores that do what the test says, on a clock that leaps."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from tests.unit.governor.virtual_time import run_in_virtual_time
from workers.errors import SlotTimeoutError, StoreLostError
from workers.governor.base import (
    Debts,
    Demand,
    Grant,
    Headroom,
    Lane,
    Limits,
    Pace,
    Settlement,
    Signal,
    Snapshot,
    Spent,
)
from workers.governor.governor import Governor

#: Without `requests_per_minute`, so that pacing (test_pacing.py) leaves it as it is.
LIMITED = Limits(concurrency=10)
AT_REST = Snapshot(
    is_shared=True,
    running=0,
    waiting_interactive=0,
    waiting_batch=0,
    blocked_seconds=0,
    next_start_seconds=0,
    concurrency=10,
    adaptive_concurrency=10,
    requests_today=0,
    requests_remaining=None,
)


class ScriptedStore:
    """Grants with a wait of `wait_seconds`; remembers what is out; can be lost."""

    def __init__(self, wait_seconds: float = 0.0) -> None:
        self.wait_seconds = wait_seconds
        self.is_lost = False
        self.is_shared = True
        self.paused = 0.0
        self.asked: list[Demand] = []
        self.out: set[str] = set()
        self.blocks: list[tuple[str, float]] = []
        self.signals: list[Signal] = []
        self.settlements: list[Settlement] = []
        self.deadlines: list[float] = []
        self.granted = Debts()
        self.assumed: list[Debts] = []

    async def acquire(self, demand: Demand, *, deadline_seconds: float) -> Grant:
        self._raise_if_lost()
        self.asked.append(demand)
        self.deadlines.append(deadline_seconds)
        await asyncio.sleep(0)
        if self.wait_seconds > deadline_seconds:
            raise SlotTimeoutError("too late", wait_seconds=self.wait_seconds)
        lease_id = str(len(self.asked))
        self.out.add(lease_id)
        return Grant(lease_id=lease_id, wait_seconds=self.wait_seconds, paused_seconds=self.paused)

    async def release(self, demand: Demand, grant: Grant, settlement: Settlement) -> None:
        await asyncio.sleep(0.001)
        self._raise_if_lost()
        self.out.discard(grant.lease_id)
        self.settlements.append(settlement)

    async def hear(self, key: str, limits: Limits, signal: Signal) -> None:
        self._raise_if_lost()
        self.blocks.append((key, signal.block_seconds))
        self.signals.append(signal)

    def debts(self, key: str, limits: Limits) -> Debts:
        return self.granted

    def assume(self, key: str, limits: Limits, debts: Debts) -> None:
        self.assumed.append(debts)

    async def snapshot(self, key: str, limits: Limits) -> Snapshot:
        self._raise_if_lost()
        return replace(AT_REST, is_shared=self.is_shared)

    def paused_seconds(self, key: str) -> float:
        return self.paused

    def _raise_if_lost(self) -> None:
        if self.is_lost:
            raise StoreLostError("connection refused")


def now() -> float:
    return asyncio.get_running_loop().time()


def governor_over(shared: ScriptedStore, local: ScriptedStore, limits: Limits = LIMITED) -> Governor:
    return Governor(shared, local, lambda _: limits, clock=now, probe_after_seconds=2)


def test_the_body_starts_after_the_reserved_wait_and_gives_the_slot_back() -> None:
    async def scenario() -> None:
        shared = ScriptedStore(wait_seconds=3)
        async with governor_over(shared, ScriptedStore()).slot("p", input_tokens=7, output_tokens=2):
            assert now() == pytest.approx(3)
            assert shared.out == {"1"}
        assert shared.out == set()
        assert shared.asked == [Demand(key="p", limits=LIMITED, input_tokens=7, output_tokens=2)]

    run_in_virtual_time(scenario())


def test_the_slot_comes_back_when_the_body_fails() -> None:
    async def scenario() -> None:
        shared = ScriptedStore()
        with pytest.raises(ZeroDivisionError):
            async with governor_over(shared, ScriptedStore()).slot("p"):
                raise ZeroDivisionError
        assert shared.out == set()

    run_in_virtual_time(scenario())


@pytest.mark.parametrize("cancelled_at", [0.5, 1.5, 2.0005])
def test_the_slot_comes_back_when_the_caller_is_cancelled(cancelled_at: float) -> None:
    # The caller waits until 1, works until 2 and gives back until 2.001.
    async def call(governor: Governor) -> None:
        async with governor.slot("p"):
            await asyncio.sleep(1)

    async def scenario() -> None:
        shared = ScriptedStore(wait_seconds=1)
        task = asyncio.create_task(call(governor_over(shared, ScriptedStore())))
        await asyncio.sleep(cancelled_at)
        assert shared.out == {"1"}
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0.01)
        assert task.cancelled()
        assert shared.out == set()

    run_in_virtual_time(scenario())


def test_the_slot_comes_back_when_the_caller_is_cancelled_twice() -> None:
    async def call(governor: Governor) -> None:
        async with governor.slot("p"):
            await asyncio.sleep(1)

    async def scenario() -> None:
        shared = ScriptedStore()
        task = asyncio.create_task(call(governor_over(shared, ScriptedStore())))
        await asyncio.sleep(0.5)
        task.cancel()
        await asyncio.sleep(0.0005)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await asyncio.sleep(0.01)
        assert shared.out == set()

    run_in_virtual_time(scenario())


def test_a_key_without_limits_still_hears_what_others_were_told() -> None:
    async def scenario() -> None:
        shared, local = ScriptedStore(wait_seconds=4), ScriptedStore()
        governor = governor_over(shared, local, Limits())
        async with governor.slot("p"):
            assert now() == pytest.approx(4)
        await governor.block("p", 5)
        assert shared.blocks == local.blocks == [("p", 5)]

    run_in_virtual_time(scenario())


def test_a_block_is_told_to_both_stores() -> None:
    async def scenario() -> None:
        shared, local = ScriptedStore(), ScriptedStore()
        await governor_over(shared, local).block("p", 5)
        assert shared.blocks == local.blocks == [("p", 5)]

    run_in_virtual_time(scenario())


def test_a_block_heard_during_the_wait_puts_the_start_off() -> None:
    async def scenario() -> None:
        shared = ScriptedStore(wait_seconds=3)
        # Four seconds of pause are older than the grant and already counted in its wait.
        shared.paused = 4
        asyncio.get_running_loop().call_at(1, setattr, shared, "paused", 4 + 5)
        async with governor_over(shared, ScriptedStore()).slot("p"):
            assert now() == pytest.approx(3 + 5)

    run_in_virtual_time(scenario())


def test_a_block_that_puts_the_start_beyond_the_deadline_gives_the_slot_back() -> None:
    async def scenario() -> None:
        shared = ScriptedStore(wait_seconds=3)
        asyncio.get_running_loop().call_at(1, setattr, shared, "paused", 60)
        with pytest.raises(SlotTimeoutError) as refused:
            async with governor_over(shared, ScriptedStore()).slot("p", deadline_seconds=20):
                raise AssertionError("it cannot start before second 63")
        # At second 3 the block is seen; the start is 60 s further.
        assert refused.value.wait_seconds == pytest.approx(60)
        assert shared.out == set()

    run_in_virtual_time(scenario())


def test_a_lost_store_is_replaced_by_the_share_until_a_probe_finds_it_again() -> None:
    async def scenario() -> None:
        shared, local = ScriptedStore(), ScriptedStore()
        governor = governor_over(shared, local)

        async def call() -> None:
            async with governor.slot("p"):
                pass

        shared.is_lost = True
        await asyncio.gather(*(call() for _ in range(5)))
        assert (len(shared.asked), len(local.asked)) == (0, 5)

        shared.is_lost = False
        await asyncio.sleep(1)
        await call()
        assert (len(shared.asked), len(local.asked)) == (0, 6), "the probe is due 2 s after the loss"

        await asyncio.sleep(1.1)
        await asyncio.gather(*(call() for _ in range(3)))
        assert (len(shared.asked), len(local.asked)) == (3, 6), (
            "one finds it again, and so do those who turned to the share"
        )

        await call()
        assert (len(shared.asked), len(local.asked)) == (4, 6)
        assert (shared.out, local.out) == (set(), set())

    with capture_logs() as log:
        run_in_virtual_time(scenario())
    assert [entry["event"] for entry in log] == ["governor.shared_store_lost", "governor.shared_store_back"]


def test_a_refusal_by_the_shared_store_is_an_answer_and_not_a_loss() -> None:
    async def scenario() -> None:
        shared, local = ScriptedStore(wait_seconds=30), ScriptedStore()
        with pytest.raises(SlotTimeoutError):
            async with governor_over(shared, local).slot("p", deadline_seconds=20):
                raise AssertionError("the start is 30 s away")
        assert local.asked == []

    run_in_virtual_time(scenario())


def test_a_store_lost_while_the_body_runs_does_not_fail_the_body() -> None:
    async def scenario() -> None:
        shared, local = ScriptedStore(), ScriptedStore()
        governor = governor_over(shared, local)
        async with governor.slot("p"):
            shared.is_lost = True
        await governor.block("p", 1)
        async with governor.slot("p"):
            pass
        assert len(local.asked) == 1

    run_in_virtual_time(scenario())


def test_time_lost_on_the_shared_store_counts_against_the_deadline() -> None:
    class SlowlyLostStore(ScriptedStore):
        async def acquire(self, demand: Demand, *, deadline_seconds: float) -> Grant:
            await asyncio.sleep(0.8)
            raise StoreLostError("no answer")

    async def scenario() -> None:
        local = ScriptedStore()
        async with governor_over(SlowlyLostStore(), local).slot("p", deadline_seconds=5):
            pass
        assert local.deadlines == [pytest.approx(4.2)]

    run_in_virtual_time(scenario())


def test_the_demand_says_lane_and_paced_limits() -> None:
    async def scenario() -> None:
        shared = ScriptedStore()
        governor = governor_over(shared, ScriptedStore(), Limits(requests_per_minute=606))
        async with governor.slot("p", lane=Lane.BATCH):
            pass
        (demand,) = shared.asked
        # One percent is kept for calls that travel unevenly: 606 · 60 / 60.6.
        assert demand.lane is Lane.BATCH
        assert demand.limits.requests_per_minute == pytest.approx(600)

    run_in_virtual_time(scenario())


def test_what_the_holder_said_goes_out_with_the_release() -> None:
    spent = Spent(input_tokens=5, output_tokens=3)

    async def fail_after_settling(governor: Governor) -> None:
        async with governor.slot("p") as slot:
            slot.settle(spent)
            raise ZeroDivisionError

    async def scenario() -> None:
        shared = ScriptedStore(wait_seconds=2)
        governor = governor_over(shared, ScriptedStore())
        async with governor.slot("p") as slot:
            assert slot.waited_seconds == pytest.approx(2)
        async with governor.slot("p") as slot:
            slot.settle(spent)
            assert len(shared.settlements) == 1, "nothing is sent before the slot ends"
        async with governor.slot("p") as slot:
            slot.settle(spent)
            slot.not_sent()
        await asyncio.gather(fail_after_settling(governor), return_exceptions=True)
        assert shared.settlements == [
            Settlement(is_success=True),
            Settlement(spent=spent, is_success=True),
            Settlement(is_sent=False),
            Settlement(spent=spent, is_success=False),
        ]

    run_in_virtual_time(scenario())


def test_a_caller_cancelled_before_its_start_gives_everything_back() -> None:
    async def scenario() -> None:
        shared = ScriptedStore(wait_seconds=5)

        async def call() -> None:
            async with governor_over(shared, ScriptedStore()).slot("p"):
                raise AssertionError("it starts at second 5")

        waiting = asyncio.create_task(call())
        await asyncio.sleep(1)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        await asyncio.sleep(0.01)
        assert shared.settlements == [Settlement(is_sent=False)]

    run_in_virtual_time(scenario())


def test_a_429_blocks_and_an_overload_does_not() -> None:
    async def scenario() -> None:
        shared, local = ScriptedStore(), ScriptedStore()
        governor = governor_over(shared, local)
        await governor.rate_limited("p", 7)
        await governor.overloaded("p")
        await governor.block("p", 1e9)
        assert shared.signals == local.signals
        assert shared.signals == [
            Signal(block_seconds=7, is_overload=True),
            Signal(is_overload=True),
            # An hour is the longest that one word is believed.
            Signal(block_seconds=3600),
        ]

    run_in_virtual_time(scenario())


def test_headers_are_told_to_the_others_only_when_they_change_something() -> None:
    async def scenario() -> None:
        shared = ScriptedStore()
        governor = governor_over(shared, ScriptedStore(), Limits(requests_per_minute=60))
        plenty = Headroom(requests_remaining=59, requests_reset_seconds=1)
        few = Headroom(requests_remaining=2, requests_reset_seconds=20)
        for headroom in (plenty, plenty, few, few, plenty, plenty):
            await governor.observe("p", headroom)
        slow, fast = (
            Signal(requests=Pace(unit_seconds=10, seconds=20)),
            Signal(requests=Pace(unit_seconds=1 / 59, seconds=1)),
        )
        # The first word of plenty after a scarcity lifts what this process said before.
        assert shared.signals == [slow, slow, fast]

    run_in_virtual_time(scenario())


def test_a_snapshot_of_a_lost_store_is_this_processs_own() -> None:
    async def scenario() -> None:
        shared, local = ScriptedStore(), ScriptedStore()
        local.is_shared = False
        governor = governor_over(shared, local)
        assert (await governor.snapshot("p")).is_shared
        shared.is_lost = True
        assert not (await governor.snapshot("p")).is_shared
        shared.is_lost = False
        await asyncio.sleep(2.1)
        assert (await governor.snapshot("p")).is_shared

    run_in_virtual_time(scenario())
