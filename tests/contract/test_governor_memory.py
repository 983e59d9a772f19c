"""What the scripts are told to remember, on a clock that stands still between the steps."""

from __future__ import annotations

import dataclasses

from tests.contract.test_governor_arithmetic import LIMITS, SECOND_US, _clock, desk
from workers.governor.base import Demand
from workers.governor.wire import Verdict

__all__ = ["_clock"]


def test_debts_that_an_asker_remembers_count_only_where_they_were_lost() -> None:
    at = desk()
    calls = Demand(key="provider", limits=dataclasses.replace(LIMITS, burst=1), input_tokens=100)
    owed_us = (7 * SECOND_US, 9 * SECOND_US, 0)
    _, first, _ = at.ask(calls)

    # One call a second, a hundred tokens a second.
    assert first.owed_us == (SECOND_US, SECOND_US, 0)
    _, second, _ = at.ask(calls, born=first.born, owed_us=owed_us)
    assert (second.wait_us, second.born) == (SECOND_US, first.born)

    at.redis.flushall()
    at.now_us += 1
    _, third, _ = at.ask(calls, born=first.born, owed_us=owed_us)
    assert third.wait_us == 9 * SECOND_US
    assert third.born != first.born
    # Told again, and told by somebody who has not heard that the store was empty: no more than once.
    waits = [at.ask(calls, born=born, owed_us=owed_us)[1].wait_us for born in (third.born, first.born)]
    assert waits == [10 * SECOND_US, 11 * SECOND_US]


def test_what_was_granted_elsewhere_counts_even_if_nothing_was_lost_and_the_asker_is_refused() -> None:
    at = desk()
    calls = Demand(key="provider", limits=dataclasses.replace(LIMITS, burst=1))
    _, first, _ = at.ask(calls)
    _, refused, _ = at.ask(calls, born=first.born, elsewhere_us=(30 * SECOND_US, 0, 0), longest_seconds=5)

    assert refused.verdict is Verdict.REFUSED
    _, answer, _ = at.ask(calls, born=first.born)
    assert answer.wait_us == 30 * SECOND_US
