"""What the scripts promise whatever happens, played on a clock that stands still between the steps."""

from __future__ import annotations

import dataclasses
import importlib.resources
from typing import Any

import fakeredis
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.governor import wire
from workers.governor.base import (
    BATCH_HORIZON_SECONDS,
    Demand,
    Lane,
    Limits,
    Pace,
    Settlement,
    Signal,
    Spent,
)
from workers.governor.wire import Answer, Taken, Verdict

SECOND_US = 1_000_000
DAY_US = 86_400 * SECOND_US
#: Noon of a day in 2023, so that no example passes midnight by chance.
NOON_US = (1_700_000_000 // 86_400 * 86_400 + 43_200) * SECOND_US
LIMITS = Limits(requests_per_minute=60, input_tokens_per_minute=6000, output_tokens_per_minute=600, burst=3)


class Desk:
    """The scripts without a process around them. It stands in for the `time` module of fakeredis, too."""

    def __init__(self) -> None:
        self.now_us = NOON_US
        self.redis: Any = fakeredis.FakeRedis(server=fakeredis.FakeServer())
        folder = importlib.resources.files("workers.governor") / "scripts"
        self._scripts = {
            name: self.redis.register_script((folder / f"{name}.lua").read_text(encoding="utf-8"))
            for name in ("acquire", "release", "hear")
        }
        self._number = 0
        self.given: dict[str, Answer] = {}

    def time(self) -> float:
        return self.now_us / SECOND_US

    def ask(
        self,
        demand: Demand,
        *,
        ticket: str = "",
        owner: str = "desk",
        longest_seconds: float = 1e6,
        **told: Any,
    ) -> tuple[str, Answer, Taken | None]:
        self._number += 1
        ticket = ticket or f"{owner}:{self._number}"
        longest_us = round(longest_seconds * SECOND_US)
        arguments = wire.acquire_arguments(
            demand, ticket, lease_us=10**12, silence_us=10**12, longest_us=longest_us, **told
        )
        reply = self._scripts["acquire"](keys=_keys(wire.KEYS), args=arguments)
        answer, self.given = wire.read_acquire(reply)
        return ticket, answer, answer.taken

    def end(self, ticket: str, demand: Demand, taken: Taken, settlement: Settlement) -> None:
        arguments = wire.settle_arguments(ticket, demand, taken, settlement)
        if arguments is not None:
            self.leave(arguments)

    def leave(self, arguments: wire.Arguments) -> None:
        self._scripts["release"](keys=_keys(wire.KEYS), args=[0, *arguments])

    def hear(self, limits: Limits, signal: Signal) -> None:
        self._scripts["hear"](keys=_keys(wire.HEAR_KEYS), args=wire.hear_arguments(limits, signal))

    def state(self) -> dict[str, float]:
        return {name.decode(): float(value) for name, value in self.redis.hgetall("state").items()}

    def everything(self) -> dict[str, Any]:
        sets = {name: self.redis.zrange(name, 0, -1, withscores=True) for name in wire.KEYS[1:5]}
        return {"state": self.state(), **sets, **{name: self.redis.hgetall(name) for name in wire.KEYS[5:]}}

    def debts(self) -> dict[str, float]:
        """What counts of the state: debts that are paid, and a day's count."""
        debts = {"today": self.state().get("today", 0)}
        for name in ("requests", "input", "output"):
            debts[name] = max(0, self.state().get(f"arrival:{name}", 0) - self.now_us)
        return debts


def _keys(names: tuple[str, ...]) -> list[str]:
    return list(names)


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fakeredis.commands_mixins.server_mixin.time", _CLOCK)


class _Clock:
    """Whatever desk an example opens, the server reads its time."""

    desk: Desk

    def time(self) -> float:
        return self.desk.time()


_CLOCK = _Clock()


def desk() -> Desk:
    _CLOCK.desk = Desk()
    return _CLOCK.desk


@dataclasses.dataclass(frozen=True, kw_only=True)
class Step:
    gap_us: int
    lane: Lane
    input_tokens: int
    output_tokens: int
    ends: str


steps = st.lists(
    st.builds(
        Step,
        gap_us=st.integers(0, 3 * SECOND_US),
        lane=st.sampled_from(Lane),
        input_tokens=st.integers(0, 500),
        output_tokens=st.integers(0, 60),
        ends=st.sampled_from(["runs", "settles", "is not sent"]),
    ),
    min_size=1,
    max_size=16,
)


def asks(step: Step, limits: Limits = LIMITS) -> Demand:
    return Demand(
        key="provider",
        limits=limits,
        lane=step.lane,
        input_tokens=step.input_tokens,
        output_tokens=step.output_tokens,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Start:
    at_us: int
    lane: Lane
    demand: Demand


def play(at: Desk, plan: list[Step], *, may_give_back: bool = True) -> list[Start]:
    """The calls that were sent, in the order in which they were granted; batch calls beyond the horizon leave."""
    sent = []
    for step in plan:
        at.now_us += step.gap_us
        wanted = asks(step)
        ticket, answer, taken = at.ask(wanted)
        if taken is None:
            at.leave(wire.left_arguments(ticket))
            continue
        if step.ends == "is not sent" and may_give_back:
            at.end(ticket, wanted, taken, Settlement(is_sent=False))
            continue
        if step.ends == "settles" and may_give_back:
            spent = Spent(input_tokens=step.input_tokens // 2, output_tokens=step.output_tokens * 2)
            at.end(ticket, wanted, taken, Settlement(spent=spent))
        sent.append(Start(at_us=at.now_us + answer.wait_us, lane=step.lane, demand=wanted))
    return sent


@given(steps)
@settings(max_examples=25, deadline=None)
def test_no_window_holds_more_requests_than_rate_and_burst_allow_whatever_is_given_back(
    plan: list[Step],
) -> None:
    starts = sorted(start.at_us for start in play(desk(), plan))

    # Any n + 3 requests take at least the time of n at one a second.
    for first in range(len(starts)):
        for last in range(first + 3, len(starts)):
            assert starts[last] - starts[first] >= (last - first - 2) * SECOND_US - 2


@given(steps)
@settings(max_examples=25, deadline=None)
def test_no_window_holds_more_tokens_than_the_rate_allows_and_its_last_call(plan: list[Step]) -> None:
    sent = sorted(play(desk(), plan, may_give_back=False), key=lambda start: start.at_us)

    # 10 output tokens a second, 100 µs rounding for all calls.
    for first in range(len(sent)):
        tokens = 0
        for last in range(first, len(sent)):
            # A call that writes nothing need not wait for those that do.
            if sent[last].demand.output_tokens:
                assert tokens <= (sent[last].at_us - sent[first].at_us + 100) / SECOND_US * 10
            tokens += sent[last].demand.output_tokens


@given(steps)
@settings(max_examples=25, deadline=None)
def test_each_lane_starts_in_order_of_arrival(plan: list[Step]) -> None:
    sent = play(desk(), plan)

    for lane in Lane:
        starts = [start.at_us for start in sent if start.lane is lane]
        assert starts == sorted(starts)


@given(steps, st.integers(0, 200), st.integers(1, 60))
@settings(max_examples=25, deadline=None)
def test_a_refused_call_changes_nothing(plan: list[Step], input_tokens: int, output_tokens: int) -> None:
    at = desk()
    play(at, [*plan, Step(gap_us=0, lane=Lane.INTERACTIVE, input_tokens=500, output_tokens=60, ends="runs")])
    before = at.everything()
    wanted = Demand(key="provider", limits=LIMITS, input_tokens=input_tokens, output_tokens=output_tokens)

    # The last call owes six seconds of output.
    _, answer, _ = at.ask(wanted, longest_seconds=1)

    assert answer.verdict is Verdict.REFUSED
    assert at.everything() == before


@given(steps, st.integers(0, 500), st.integers(0, 60), st.booleans())
@settings(max_examples=25, deadline=None)
def test_what_was_not_sent_is_given_back_exactly(
    plan: list[Step], input_tokens: int, output_tokens: int, has_day: bool
) -> None:
    at = desk()
    play(at, plan)
    wanted = Demand(
        key="provider",
        limits=dataclasses.replace(LIMITS, requests_per_day=1000 if has_day else None),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )
    before, (_, soonest, _) = at.debts(), at.ask(wanted, longest_seconds=-1)
    ticket, answer, taken = at.ask(wanted)
    assert taken is not None

    at.end(ticket, wanted, taken, Settlement(is_sent=False))

    after = at.debts()
    if not has_day:
        # Without a daily limit nobody reads the count, so nothing is told of it.
        after["today"] -= 1
    # A start beyond the debts that made it wait is no debt of its own: the next call finds the same start.
    for name, debt in before.items():
        assert debt <= after[name] <= max(debt, answer.wait_us)
    assert at.ask(wanted)[1].wait_us == soonest.wait_us


@given(steps, st.integers(0, 40))
@settings(max_examples=25, deadline=None)
def test_an_interactive_call_waits_for_its_own_lane_the_horizon_and_one_batch_call(
    plan: list[Step], queued: int
) -> None:
    at = desk()
    batch = [dataclasses.replace(step, lane=Lane.BATCH, ends="runs") for step in plan]
    for step in batch:
        at.now_us += step.gap_us
        at.ask(asks(step))
    for _ in range(queued):
        at.ask(asks(batch[0]))

    _, answer, _ = at.ask(Demand(key="provider", limits=LIMITS, input_tokens=1, output_tokens=1))

    # The largest batch call owes 5 s of input (500 at 100 a second) or 6 s of output (60 at 10).
    owed_us = max(max(step.input_tokens / 100, step.output_tokens / 10, 1) for step in batch) * SECOND_US
    assert answer.verdict is Verdict.GRANTED
    assert answer.wait_us <= BATCH_HORIZON_SECONDS * SECOND_US + owed_us + 100


def test_whoever_asks_serves_those_before_it_and_they_find_their_start_later() -> None:
    at, wanted = desk(), Demand(key="provider", limits=Limits(requests_per_minute=60), lane=Lane.BATCH)
    tickets = [at.ask(wanted, owner=owner)[0] for owner in ("a", "b", "a", "b", "a", "b")]
    # The first two took seconds 0 and 1; four stand in line. Two seconds later the last one's process asks.
    at.now_us += 2 * SECOND_US

    _, last, _ = at.ask(wanted, ticket=tickets[5])
    # It hears at once of the other ticket of its process, which starts after the third.
    assert (last.verdict, last.wait_us) == (Verdict.IN_LINE, 3 * SECOND_US)
    assert {ticket: answer.wait_us for ticket, answer in at.given.items()} == {tickets[3]: SECOND_US}

    _, fifth, _ = at.ask(wanted, ticket=tickets[4])
    assert (fifth.verdict, fifth.wait_us) == (Verdict.IN_LINE, 2 * SECOND_US)
    assert {ticket: answer.wait_us for ticket, answer in at.given.items()} == {tickets[2]: 0}


def test_a_block_also_puts_off_a_start_that_its_owner_has_not_heard_of() -> None:
    at, wanted = desk(), Demand(key="provider", limits=Limits(requests_per_minute=60), lane=Lane.BATCH)
    tickets = [at.ask(wanted, owner=owner)[0] for owner in "abcd"]
    at.now_us += 2 * SECOND_US
    at.ask(wanted, ticket=tickets[3])

    at.hear(wanted.limits, Signal(block_seconds=9))

    # Its start was second 2, which is now.
    assert at.ask(wanted, ticket=tickets[2])[1].wait_us == 9 * SECOND_US


def test_a_start_that_its_owner_never_heard_of_is_given_back_when_it_gives_up() -> None:
    limits = Limits(output_tokens_per_minute=60, requests_per_day=9, concurrency=2)
    at, wanted = desk(), Demand(key="provider", limits=limits, output_tokens=10)
    running = [at.ask(wanted) for _ in range(2)]
    waiting = [at.ask(wanted, owner=owner)[0] for owner in "ab"]
    ticket, _, taken = running[0]
    assert taken is not None
    at.end(ticket, wanted, taken, Settlement(is_success=True))
    before = at.debts()
    # The last in line asks, and the one before it is served.
    at.ask(wanted, ticket=waiting[1])
    assert at.debts() != before

    at.leave(wire.left_arguments(waiting[0]))

    assert at.debts() == before
    assert at.redis.zcard("leases") == 1
    assert at.redis.hlen("granted") == 0


def test_a_release_that_redis_hears_twice_counts_once() -> None:
    limits = Limits(output_tokens_per_minute=60, requests_per_day=9)
    at, wanted = desk(), Demand(key="provider", limits=limits, output_tokens=10)
    calls = [at.ask(wanted) for _ in range(3)]
    ticket, _, taken = calls[0]
    assert taken is not None

    for _ in range(2):
        at.end(ticket, wanted, taken, Settlement(is_sent=False))

    # Three calls of ten seconds, one of them given back.
    assert at.debts() == {"today": 2, "requests": 0, "input": 0, "output": 20 * SECOND_US}


def test_a_waiter_that_can_no_longer_start_in_time_does_not_hold_up_the_line() -> None:
    at, wanted = desk(), Demand(key="provider", limits=Limits(concurrency=1))
    ticket, _, taken = at.ask(wanted)
    assert taken is not None
    at.ask(wanted, owner="late", longest_seconds=0.5)
    behind, _, _ = at.ask(wanted, owner="patient")
    at.now_us += SECOND_US
    at.end(ticket, wanted, taken, Settlement(is_success=True))

    assert at.ask(wanted, ticket=behind)[1].verdict is Verdict.GRANTED
    assert at.redis.zcard("line:interactive") == 0


def test_the_count_of_a_day_starts_again_at_midnight_utc() -> None:
    at, wanted = desk(), Demand(key="provider", limits=Limits(requests_per_day=2))
    for _ in range(2):
        assert at.ask(wanted, longest_seconds=0)[1].verdict is Verdict.GRANTED

    refused = at.ask(wanted, longest_seconds=60)[1]
    assert (refused.verdict, refused.wait_us) == (Verdict.REFUSED, DAY_US // 2)

    # Eight seconds before midnight it can be worth waiting for the next day's first start.
    at.now_us += DAY_US // 2 - 8 * SECOND_US
    assert at.ask(wanted, longest_seconds=7)[1].verdict is Verdict.REFUSED
    assert at.ask(wanted, longest_seconds=20)[1].wait_us == 8 * SECOND_US
    at.now_us += 60 * SECOND_US
    assert at.ask(wanted, longest_seconds=0)[1].verdict is Verdict.GRANTED
    assert at.ask(wanted, longest_seconds=0)[1].verdict is Verdict.REFUSED


def test_overload_after_a_calm_time_halves_again() -> None:
    at, limits = desk(), Limits(concurrency=8)
    caps = []
    # Two seconds of calm: what comes at 1 s answers the same overload.
    for gap_seconds in (0, 1, 1, 2):
        at.now_us += gap_seconds * SECOND_US
        at.hear(limits, Signal(is_overload=True))
        caps.append(at.state()["cap"])

    assert caps == [4, 4, 2, 1]


def test_microseconds_of_this_century_are_stored_to_the_last_digit() -> None:
    at = desk()
    at.now_us += 123_457
    wanted = Demand(key="provider", limits=Limits(requests_per_minute=60))
    at.ask(wanted)
    at.hear(wanted.limits, Signal(block_seconds=1e-6, requests=Pace(unit_seconds=0.25, seconds=1)))

    for name, value in at.redis.hgetall("state").items():
        assert b"e" not in value, name
    assert at.redis.hget("state", "arrival:requests") == str(at.now_us + SECOND_US + 1).encode()
