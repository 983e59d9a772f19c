"""Questions and answers of the Lua scripts: names of keys, order of arguments, units. Pure."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Any, Final

from workers.governor.base import (
    BATCH_HORIZON_SECONDS,
    CALM_SECONDS,
    Demand,
    Lane,
    Limits,
    Settlement,
    Signal,
)

MICROSECONDS: Final = 1_000_000
_MINUTE_US: Final = 60 * MICROSECONDS
KEYS: Final = ("state", "leases", "line:interactive", "line:batch", "heard", "wants", "granted")
"""In the order in which every script takes them; `scripts/acquire.lua` says what each holds."""
KEEP_KEYS: Final = ("state", "leases", "heard")
HEAR_KEYS: Final = ("state",)
NOTHING_OWED: Final = (0, 0, 0)
_LANES: Final = {Lane.INTERACTIVE: 0, Lane.BATCH: 1}

Arguments = list[str | float]


class Verdict(enum.IntEnum):
    REFUSED = -1
    IN_LINE = 0
    GRANTED = 1


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What a granted ticket took, as the script wrote it down: for giving exactly that back."""

    serial: int
    day: int
    requests_us: int
    input_us: int
    output_us: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What `acquire.lua` said of one ticket; in line `wait_us` is the soonest that it can possibly start.
    `taken` is None unless it was granted. `born` names the state that the store keeps now, `owed_us` says for
    requests, input and output tokens how long until everything granted so far is paid."""

    verdict: Verdict
    wait_us: int
    ahead: int
    paused_us: int
    taken: Taken | None
    born: str = ""
    owed_us: tuple[int, ...] = NOTHING_OWED


def needs_lease(limits: Limits) -> bool:
    """A call that only spends a start needs none; whatever is given back or settled later does."""
    return (
        limits.concurrency is not None
        or limits.requests_per_day is not None
        or limits.input_tokens_per_minute is not None
        or limits.output_tokens_per_minute is not None
    )


def acquire_arguments(
    demand: Demand,
    ticket: str,
    *,
    lease_us: int,
    silence_us: int,
    longest_us: int,
    born: str = "",
    owed_us: Sequence[int] = NOTHING_OWED,
    elsewhere_us: Sequence[int] = NOTHING_OWED,
) -> Arguments:
    """`born`, `owed_us`: what the asker remembers of `Answer`, for a store that does not; `elsewhere_us`: what was
    granted without the store."""
    limits = demand.limits
    return [
        ticket,
        _LANES[demand.lane],
        limits.concurrency or 0,
        lease_us if needs_lease(limits) else 0,
        silence_us,
        longest_us,
        round(BATCH_HORIZON_SECONDS * MICROSECONDS),
        limits.requests_per_day or 0,
        limits.burst,
        *(1, _unit_us(limits.requests_per_minute)),
        *(demand.input_tokens, _unit_us(limits.input_tokens_per_minute)),
        *(demand.output_tokens, _unit_us(limits.output_tokens_per_minute)),
        born,
        *owed_us,
        *elsewhere_us,
    ]


def read_acquire(reply: Sequence[Any]) -> tuple[Answer, dict[str, Answer]]:
    """The answer, and what other waiters of this process were granted since it last asked."""
    verdict, wait_us, ahead, paused_us, numbers, given, born, owed_us = reply
    answer = Answer(
        verdict=Verdict(verdict),
        wait_us=wait_us,
        ahead=ahead,
        paused_us=paused_us,
        taken=_taken(numbers) if verdict == Verdict.GRANTED else None,
        born=_text(born),
        owed_us=tuple(owed_us),
    )
    others = {
        _text(ticket): Answer(
            verdict=Verdict.GRANTED, wait_us=its_wait_us, ahead=0, paused_us=paused_us, taken=_taken(rest)
        )
        for ticket, its_wait_us, *rest in given
    }
    return answer, others


def earlier(answer: Answer, by_us: int) -> Answer:
    """The same, said that long ago."""
    return dataclasses.replace(answer, wait_us=answer.wait_us - by_us)


def _text(word: str | bytes) -> str:
    return word if isinstance(word, str) else word.decode()


def _taken(numbers: Sequence[int]) -> Taken:
    serial, day, requests_us, input_us, output_us = numbers
    return Taken(serial=serial, day=day, requests_us=requests_us, input_us=input_us, output_us=output_us)


def left_arguments(ticket: str) -> Arguments:
    """A ticket whose owner gave up, or never learnt what it was given."""
    return [ticket, 1, 0, 0, 0, 0, 0, 0]


def unwanted_arguments(ticket: str, taken: Taken) -> Arguments:
    """A ticket that was granted after its owner had left: everything comes back."""
    return [ticket, 0, 0, taken.serial, taken.requests_us, taken.day, -taken.input_us, -taken.output_us]


def settle_arguments(ticket: str, demand: Demand, taken: Taken, settlement: Settlement) -> Arguments | None:
    """What `release.lua` must hear of a call that ended; None if there is nothing to give back or to settle."""
    limits = demand.limits
    leased = needs_lease(limits)
    if not settlement.is_sent:
        day = taken.day if limits.requests_per_day is not None else 0
        given_back = (taken.serial, taken.requests_us, day, -taken.input_us, -taken.output_us)
        return [ticket, int(leased), 0, *given_back]
    input_us = output_us = 0
    if settlement.spent is not None:
        input_us = _settled_us(
            taken.input_us,
            demand.input_tokens,
            settlement.spent.input_tokens,
            limits.input_tokens_per_minute,
        )
        output_us = _settled_us(
            taken.output_us,
            demand.output_tokens,
            settlement.spent.output_tokens,
            limits.output_tokens_per_minute,
        )
    if not leased and not input_us and not output_us:
        return None
    return [ticket, int(leased), int(settlement.is_success), 0, 0, 0, input_us, output_us]


def hear_arguments(limits: Limits, signal: Signal) -> Arguments:
    arguments: Arguments = [
        round(signal.block_seconds * MICROSECONDS),
        int(signal.is_overload),
        limits.concurrency or 0,
        round(CALM_SECONDS * MICROSECONDS),
    ]
    for pace in (signal.requests, signal.input_tokens, signal.output_tokens):
        if pace is None:
            arguments += [0, 0]
        else:
            arguments += [pace.unit_seconds * MICROSECONDS, round(pace.seconds * MICROSECONDS)]
    return arguments


def _unit_us(per_minute: float | None) -> float:
    return 0 if per_minute is None else _MINUTE_US / per_minute


def _settled_us(taken_us: int, expected: int, spent: int, per_minute: float | None) -> int:
    """µs to add to a bucket: in proportion to what was really taken, so that nothing spent gives all back."""
    if expected and taken_us:
        return round(taken_us * (spent - expected) / expected)
    return round(spent * _unit_us(per_minute))
