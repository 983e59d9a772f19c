"""Redis goes and comes back, with and without its data, and processes stand still: the limit holds all the same.

Whole governors of several processes around one fakeredis, on a clock that leaps and is the server's clock, too."""

from __future__ import annotations

import asyncio
import dataclasses
import itertools
import random
from collections.abc import Awaitable, Callable
from typing import Any

import fakeredis
import pytest

from tests.contract.governor_arena import demand
from tests.unit.governor.virtual_time import VirtualTimeLoop
from workers.errors import SlotTimeoutError
from workers.governor.base import Lane, Limits
from workers.governor.governor import Governor
from workers.governor.local import LocalStore
from workers.governor.redis import RedisStore

PROCESSES = 3
LIMIT = 300
#: Seconds since 1970 at which the loop's clock is 0: noon of a day in 2023.
_ORIGIN = 1_700_000_000 // 86_400 * 86_400 + 43_200


def now() -> float:
    return asyncio.get_running_loop().time()


class _ServerClock:
    """Stands in for the `time` module of fakeredis."""

    def time(self) -> float:
        return _ORIGIN + now()


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fakeredis.commands_mixins.server_mixin.time", _ServerClock())


class StandingStill(fakeredis.FakeAsyncRedis):
    """The process stands still for `seconds` between the decision of Redis and its answer."""

    seconds = 0.0

    async def evalsha(self, *args: Any, **kwargs: Any) -> Any:
        reply = await super().evalsha(*args, **kwargs)
        asyncio.get_running_loop()._leaping.now += self.seconds  # type: ignore[attr-defined]
        return reply


class Process:
    """A worker process that can be stopped: its sleepers then wake when it goes on, however overdue they are."""

    def __init__(self, server: fakeredis.FakeServer, number: int, limits: Limits) -> None:
        # A way to the server of its own, which can be cut alone.
        self.link = fakeredis.FakeServer()
        self.link.dbs, self.link.lock, self.link.connected = server.dbs, server.lock, server.connected
        self.calls: list[asyncio.Task[None]] = []
        self._goes_on = asyncio.Event()
        self._goes_on.set()
        self._client = fakeredis.FakeAsyncRedis(server=self.link)
        self._store = RedisStore(self._client, owner=f"worker-{number}", prefix="test", sleep=self.sleep)
        self.governor = Governor(
            self._store,
            LocalStore(PROCESSES, wall_clock=_ServerClock().time),
            lambda _: limits,
            clock=now,
            sleep=self.sleep,
        )

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
        await self._goes_on.wait()

    async def kill(self) -> None:
        """Nobody hears of it again: what it holds is not given back."""
        self.link.connected = False
        for call in self.calls:
            call.cancel()
        await asyncio.gather(*self.calls, return_exceptions=True)
        await self.aclose()

    def stop(self) -> None:
        self._goes_on.clear()

    def go_on(self) -> None:
        self._goes_on.set()

    async def aclose(self) -> None:
        await self._store.aclose()
        await self._client.aclose()


@dataclasses.dataclass(kw_only=True)
class Site:
    """`starts` of all processes, in seconds."""

    server: fakeredis.FakeServer
    limits: Limits
    callers: int
    until: float
    processes: list[Process] = dataclasses.field(default_factory=list)
    starts: list[float] = dataclasses.field(default_factory=list)

    def start(self, number: int, *, is_idle: bool = False) -> None:
        process = Process(self.server, number, self.limits)
        self.processes.append(process)
        if not is_idle:
            process.calls = [
                asyncio.create_task(self.call_again_and_again(process, self.until))
                for _ in range(self.callers)
            ]

    async def restart(self, number: int, *, after_seconds: float) -> None:
        await self.processes.pop(number).kill()
        await asyncio.sleep(after_seconds)
        self.start(100 + int(now()))

    def redis_goes(self) -> None:
        self._connect(is_connected=False)

    async def redis_comes_back(self, *, with_data: bool) -> None:
        self._connect(is_connected=True)
        if not with_data:
            client = fakeredis.FakeAsyncRedis(server=self.server)
            await client.flushall()
            await client.aclose()

    async def call_again_and_again(self, process: Process, until: float) -> None:
        while now() < until:
            try:
                async with process.governor.slot("provider", deadline_seconds=20):
                    self.starts.append(now())
                    await asyncio.sleep(0.05)
            except SlotTimeoutError as refused:
                await process.sleep(max(0.1, min(5.0, refused.wait_seconds)))

    def _connect(self, *, is_connected: bool) -> None:
        for end in (self.server, *(process.link for process in self.processes)):
            end.connected = is_connected

    def most_in_a_minute(self) -> int:
        """Of any 60 s, their end left out."""
        return max(sum(begin <= start < begin + 60 for start in self.starts) for begin in self.starts)

    def between(self, begin: float, end: float) -> int:
        return sum(begin <= start < end for start in self.starts)


Faults = Callable[[Site], Awaitable[None]]


def play(faults: Faults, *, callers: int, until: float, idle: int = 0, limits: Limits | None = None) -> Site:
    """So many callers in each process but the last `idle` ones."""
    sites: list[Site] = []

    async def played() -> None:
        site = Site(
            server=fakeredis.FakeServer(),
            limits=limits or Limits(requests_per_minute=LIMIT),
            callers=callers,
            until=until,
        )
        sites.append(site)
        for number in range(PROCESSES):
            site.start(number, is_idle=number >= PROCESSES - idle)
        await faults(site)
        await asyncio.gather(*(call for process in site.processes for call in process.calls))
        for process in site.processes:
            await process.aclose()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(played())
    return sites[0]


async def no_faults(_: Site) -> None: ...


def test_without_faults_the_limit_is_used_up_and_kept() -> None:
    site = play(no_faults, callers=20, until=100)

    # One percent is kept: 297 a minute, and the first at once.
    assert 297 <= site.most_in_a_minute() <= LIMIT


def test_the_share_begins_when_the_starts_that_redis_granted_are_over() -> None:
    async def faults(site: Site) -> None:
        await asyncio.sleep(40)
        site.redis_goes()

    # Sixty callers have booked sixty starts ahead, twelve seconds.
    site = play(faults, callers=20, until=130)

    assert site.most_in_a_minute() <= LIMIT
    # The shares together are what Redis was.
    assert site.between(60, 120) >= 290


@pytest.mark.parametrize("with_data", [True, False])
@pytest.mark.parametrize("seconds", [0.5, 5, 30])
def test_redis_goes_and_comes_back(with_data: bool, seconds: float) -> None:
    async def faults(site: Site) -> None:
        await asyncio.sleep(40)
        site.redis_goes()
        await asyncio.sleep(seconds)
        await site.redis_comes_back(with_data=with_data)

    site = play(faults, callers=20, until=150)

    assert site.most_in_a_minute() <= LIMIT
    assert site.between(40 + seconds + 30, 150) >= 290 * (80 - seconds) / 60, "it has recovered"


@pytest.mark.parametrize("with_data", [True, False])
def test_redis_goes_again_and_again(with_data: bool) -> None:
    async def faults(site: Site) -> None:
        for seconds in (3, 11, 1, 7, 4):
            await asyncio.sleep(12)
            site.redis_goes()
            await asyncio.sleep(seconds)
            await site.redis_comes_back(with_data=with_data)

    assert play(faults, callers=20, until=150).most_in_a_minute() <= LIMIT


def test_a_redis_that_loses_its_data_unnoticed_goes_on_from_what_its_askers_remember() -> None:
    async def faults(site: Site) -> None:
        await asyncio.sleep(40)
        await site.redis_comes_back(with_data=False)

    site = play(faults, callers=20, until=120)

    assert site.most_in_a_minute() <= LIMIT
    assert site.between(40, 100) >= 290, "nothing is lost"


def test_a_process_that_did_not_ask_for_long_does_not_use_an_empty_redis_for_a_burst() -> None:
    async def faults(site: Site) -> None:
        quiet = site.processes[-1]
        async with quiet.governor.slot("provider"):
            site.starts.append(now())
        await asyncio.sleep(39.9)
        await site.redis_comes_back(with_data=False)
        await asyncio.gather(*(site.call_again_and_again(quiet, 100) for _ in range(40)))

    assert play(faults, callers=40, until=100, idle=1).most_in_a_minute() <= LIMIT


def test_waiters_of_the_share_are_moved_to_redis_when_it_is_back() -> None:
    # Three a minute, one for each process: the share's next start is a minute away.
    limits = Limits(requests_per_minute=3)
    starts: list[float] = []

    async def call_twice(process: Process) -> None:
        for _ in range(2):
            async with process.governor.slot("provider", deadline_seconds=200):
                starts.append(now())

    async def faults(site: Site) -> None:
        site.redis_goes()
        calls = [asyncio.create_task(call_twice(process)) for process in site.processes]
        await asyncio.sleep(45)
        assert len(starts) == PROCESSES
        await site.redis_comes_back(with_data=True)
        await asyncio.gather(*calls)

    play(faults, callers=0, until=0, limits=limits)

    # The shares begin two of the three intervals (60.6 s in all) after the loss, all at once. Redis is found again by
    # 47 s; nothing for the probe's 2 s and an interval of the share after that; then evenly, where the shares would
    # have given three starts at once.
    assert starts[:3] == pytest.approx([40.4] * 3, abs=0.9)
    gaps = [later - earlier for earlier, later in itertools.pairwise(starts[3:])]
    assert starts[3] >= 45 + 2 + 60.6
    assert gaps == pytest.approx([20.2] * 2, abs=0.01)


def test_a_key_that_nobody_used_for_a_day_is_no_lost_one() -> None:
    async def faults(site: Site) -> None:
        (process,) = site.processes[:1]
        for _ in range(2):
            asked_at = now()
            async with process.governor.slot("provider"):
                assert now() == pytest.approx(asked_at, abs=0.01)
            # What `acquire.lua` wrote has expired after 25 hours.
            await asyncio.sleep(26 * 3600)
            await site.redis_comes_back(with_data=False)

    play(faults, callers=0, until=0)


@pytest.mark.parametrize("seconds", [1, 5, 15, 40])
def test_a_process_that_was_stopped_does_not_send_what_is_overdue_at_once(seconds: float) -> None:
    async def faults(site: Site) -> None:
        await asyncio.sleep(40)
        site.processes[0].stop()
        await asyncio.sleep(seconds)
        site.processes[0].go_on()

    site = play(faults, callers=20, until=120)

    assert site.most_in_a_minute() <= LIMIT
    # Two in a twentieth of a second are a tenth of a second's work; twenty would be four seconds' work.
    woken_at = 40 + seconds
    assert site.between(woken_at, woken_at + 0.05) <= 4


@pytest.mark.parametrize("seed", range(4))
def test_whatever_strikes_in_whatever_order_the_limit_holds(seed: int) -> None:
    dice = random.Random(seed)

    async def stand_still(process: Process, seconds: float) -> None:
        process.stop()
        await asyncio.sleep(seconds)
        process.go_on()

    async def redis_is_away(site: Site, seconds: float) -> None:
        site.redis_goes()
        await asyncio.sleep(seconds)
        await site.redis_comes_back(with_data=dice.random() < 0.5)

    async def strike(site: Site) -> None:
        while now() < 200:
            await asyncio.sleep(dice.uniform(0.5, 10))
            match dice.choice(["stop", "kill", "away", "away", "both"]):
                case "stop":
                    await stand_still(dice.choice(site.processes), dice.uniform(0.5, 25))
                case "kill":
                    await site.restart(dice.randrange(PROCESSES), after_seconds=dice.uniform(1, 5))
                case "away":
                    await redis_is_away(site, dice.uniform(0.1, 12))
                case "both":
                    await asyncio.gather(
                        redis_is_away(site, dice.uniform(0.1, 12)),
                        site.restart(dice.randrange(PROCESSES), after_seconds=dice.uniform(1, 5)),
                    )

    site = play(strike, callers=20, until=220)

    assert site.most_in_a_minute() <= LIMIT


def test_a_start_that_went_by_before_its_process_heard_of_it_is_known_to_be_late() -> None:
    async def scenario() -> None:
        client = StandingStill(server=fakeredis.FakeServer())
        store, wanted = (
            RedisStore(client, owner="worker", prefix="test"),
            demand(Limits(requests_per_minute=60)),
        )
        await store.acquire(wanted, deadline_seconds=20)
        client.seconds = 10

        grant = await store.acquire(wanted, deadline_seconds=20)

        # One second after the first, told ten seconds later.
        assert grant.wait_seconds == pytest.approx(1 - 10, abs=0.01)
        await store.aclose()
        await client.aclose()

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(scenario())


def test_a_quiet_process_waits_as_long_as_others_may_have_booked_ahead() -> None:
    async def after(lane: Lane, quiet_seconds: float) -> float:
        server = fakeredis.FakeServer()
        process = Process(server, 0, Limits(requests_per_minute=LIMIT))
        async with process.governor.slot("provider", lane=lane, deadline_seconds=20):
            pass
        await asyncio.sleep(quiet_seconds)
        process.link.connected = False
        asked_at = now()
        async with process.governor.slot("provider", deadline_seconds=60):
            begun_at = now()
        await process.aclose()
        return begun_at - asked_at

    async def scenario() -> None:
        # Three processes begin two intervals of 0.202 s after the last start: as far ahead as it was a moment ago
        # (one interval), a batch's horizon, or the longest wait.
        apart = 2 * 0.202
        assert await after(Lane.INTERACTIVE, 4) == pytest.approx(0.202 + apart, abs=0.01)
        assert await after(Lane.BATCH, 6) == pytest.approx(1 + apart, abs=0.01)
        assert await after(Lane.INTERACTIVE, 6) == pytest.approx(20 + apart, abs=0.01)

    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(scenario())
