"""Rows about accounts, limits and what was asked before."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select, update

from tests.integration.stored_runs import ago, open_seats, seat_key, store_run
from tests.integration.test_call_rows import new_call, reply
from workers.core.run import Stage
from workers.governor.accounts import AccountState
from workers.governor.base import Limits
from workers.governor.limit_book import LimitsSet
from workers.provenance.models import calls as calls_table
from workers.provenance.models import provider_states
from workers.provenance.repository import accounts, calls, limits
from workers.provenance.repository.accounts import Published
from workers.provenance.repository.call_history import Asked, asked_before, families_asked
from workers.provenance.session import Database

KEY = seat_key()


def state(word: str = "quota", **changes: Any) -> AccountState:
    values: dict[str, Any] = {
        "provider": "openai",
        "key_digest": "aa",
        "state": word,
        "reason": "402",
        "seconds_left": 600.0,
    }
    return AccountState(**{**values, **changes})


def publish(database: Database, *states: AccountState) -> None:
    with database.begin() as connection:
        accounts.publish(connection, states)


def published(database: Database) -> list[Published]:
    with database.begin() as connection:
        return accounts.published(connection)


def age(database: Database, seconds: float) -> None:
    """Make every word that much older, and its end that much nearer."""
    back = dt.timedelta(seconds=seconds)
    with database.begin() as connection:
        connection.execute(
            update(provider_states).values(
                since=provider_states.c.since - back, until=provider_states.c.until - back
            )
        )


def test_a_word_is_read_as_it_was_said_and_its_time_runs(database: Database) -> None:
    publish(database, state())
    age(database, 100)

    (word,) = published(database)

    assert 495 < word.state.seconds_left <= 500
    assert (word.state.provider, word.state.key_digest, word.state.state, word.state.reason) == (
        "openai",
        "aa",
        "quota",
        "402",
    )
    assert word.until is not None
    assert word.until - word.since == pytest.approx(dt.timedelta(seconds=600), abs=dt.timedelta(seconds=2))


def test_since_stays_while_the_state_stays_and_the_newest_word_stands(database: Database) -> None:
    publish(database, state())
    age(database, 100)
    (first,) = published(database)

    publish(database, state(reason="402 again", seconds_left=900.0))
    (second,) = published(database)
    publish(database, state("good", reason="", seconds_left=0.0))
    (third,) = published(database)

    assert (second.since, second.state.reason) == (first.since, "402 again")
    assert 895 < second.state.seconds_left <= 900
    assert first.updated_at < second.updated_at < third.updated_at
    assert third.since > second.since
    assert (third.state.state, third.state.seconds_left, third.until) == ("good", 0.0, None)


def test_each_key_has_its_own_word_and_the_oldest_comes_first(database: Database) -> None:
    publish(database, state(key_digest="bb"))
    publish(database, state(key_digest="aa"), state(provider="groq", key_digest="bb"))
    publish(database, state(key_digest="aa", reason="newer"))

    told = [(word.state.provider, word.state.key_digest, word.state.reason) for word in published(database)]

    assert told == [("openai", "bb", "402"), ("groq", "bb", "402"), ("openai", "aa", "newer")]


def test_low_quota_whose_time_is_over_counts_as_good_and_an_open_breaker_does_not(database: Database) -> None:
    publish(database, state("low"), state("quota", key_digest="bb"))
    age(database, 601)

    low, empty = published(database)

    assert (low.state.state, low.state.reason, low.state.seconds_left, low.until) == ("good", "", 0.0, None)
    assert low.since == empty.until
    assert (empty.state.state, empty.state.seconds_left) == ("quota", 0.0)


def test_a_reason_that_the_database_cannot_hold_is_kept_without_what_it_cannot(database: Database) -> None:
    publish(database, state(reason="no\x00 credit \ud800"))
    (word,) = published(database)
    assert word.state.reason.startswith("no")
    assert "credit" in word.state.reason


ALL = Limits(
    requests_per_minute=0.5,
    input_tokens_per_minute=1e12,
    output_tokens_per_minute=7.25,
    requests_per_day=2**31 - 1,
    concurrency=1,
)


def put(database: Database, provider: str, family: str, entry: Limits) -> None:
    with database.begin() as connection:
        limits.put(connection, LimitsSet(provider=provider, family=family, limits=entry))


def all_set(database: Database) -> list[tuple[str, str, Limits]]:
    with database.begin() as connection:
        return [(entry.provider, entry.family, entry.limits) for entry in limits.all_set(connection)]


def test_limits_are_replaced_whole_and_listed_by_place(database: Database) -> None:
    put(database, "openai", "gpt", Limits(concurrency=3))
    put(database, "openai", "*", ALL)
    put(database, "groq", "llama", Limits())
    put(database, "openai", "gpt", Limits(requests_per_day=5))

    assert all_set(database) == [
        ("groq", "llama", Limits()),
        ("openai", "*", ALL),
        ("openai", "gpt", Limits(requests_per_day=5)),
    ]


def test_a_reset_forgets_one_place_and_says_whether_there_was_anything(database: Database) -> None:
    put(database, "openai", "gpt", Limits(concurrency=3))
    put(database, "openai", "*", ALL)

    with database.begin() as connection:
        assert limits.reset(connection, "openai", "gpt")
        assert not limits.reset(connection, "openai", "gpt")
        assert not limits.reset(connection, "groq", "*")

    assert all_set(database) == [("openai", "*", ALL)]


RATES = st.none() | st.floats(min_value=1e-6, max_value=1e12)


@given(
    st.builds(
        Limits, requests_per_minute=RATES, input_tokens_per_minute=RATES, output_tokens_per_minute=RATES
    )
)
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_rates_come_back_as_they_were_set(database: Database, entry: Limits) -> None:
    put(database, "openai", "*", entry)
    assert all_set(database) == [("openai", "*", entry)]


def fail(database: Database, call_id: str, kind: str, message: str) -> None:
    with database.begin() as connection:
        calls.failed(connection, call_id, kind=kind, message=message, usage=None, cost_usd=None)


def send(database: Database, call_id: str, *, requests: int = 1, **changes: Any) -> None:
    """A call sent `requests` times, each call later than those before it."""
    key = changes.pop("key", KEY)
    with database.begin() as connection:
        calls.sent(connection, new_call(call_id, key, **changes))
        for _ in range(requests - 1):
            calls.sent_again(connection, call_id, key)
        connection.execute(
            update(calls_table).where(calls_table.c.call_id == call_id).values(sent_at=func.clock_timestamp())
        )


def before(database: Database, **changes: Any) -> dict[tuple[str, str], Asked]:
    with database.begin() as connection:
        return asked_before(connection, seat_key(**changes))


def test_what_was_asked_is_summed_by_model_with_the_end_of_its_last_call(seated: Database) -> None:
    send(seated, "z1", requests=2)
    fail(seated, "z1", "rate", "429")
    send(seated, "m1", model="cedar-1", family="cedar")
    fail(seated, "m1", "context", "413")
    send(seated, "a1", requests=3)  # sent later, though its name comes first
    fail(seated, "a1", "overload", "503")
    send(seated, "b1", provider="ollama")

    assert before(seated) == {
        # 2 requests of the first call and 3 of the second.
        ("local", "birch-1"): Asked(requests=5, error_kind="overload", error="503"),
        ("local", "cedar-1"): Asked(requests=1, error_kind="context", error="413"),
        ("ollama", "birch-1"): Asked(requests=1, error_kind=None, error=None),
    }


def test_an_answer_after_a_failure_is_the_last_word(seated: Database) -> None:
    send(seated, "c1")
    fail(seated, "c1", "torn", "cut")
    send(seated, "c2")
    with seated.begin() as connection:
        calls.done(connection, "c2", reply(), rung=1)

    assert before(seated) == {("local", "birch-1"): Asked(requests=2, error_kind=None, error=None)}


def test_only_this_seats_calls_of_this_round_count(seated: Database) -> None:
    others = [seat_key("right"), seat_key("coder", Stage.CODER), seat_key(round_=2), seat_key(run_id="run_2")]
    store_run(seated, "run_2")
    open_seats(seated, *others)
    for number, key in enumerate(others):
        send(seated, f"c{number}", key=key)

    assert before(seated) == {}
    assert len(before(seated, run_id="run_2")) == 1


def test_a_call_that_got_no_slot_was_never_asked(seated: Database) -> None:
    send(seated, "c1")
    with seated.begin() as connection:
        calls.not_sent(connection, "c1", KEY)
    assert before(seated) == {}


def test_families_are_those_asked_within_the_time_once_each(seated: Database) -> None:
    for number, (provider, family) in enumerate(
        [("local", "birch"), ("local", "alder"), ("ollama", "birch"), ("local", "birch"), ("groq", "llama")]
    ):
        send(seated, f"c{number}", provider=provider, family=family)
    with seated.begin() as connection:
        connection.execute(
            update(calls_table).where(calls_table.c.provider == "groq").values(sent_at=ago(3601))
        )

    with seated.begin() as connection:
        assert families_asked(connection, within_seconds=3600) == [
            ("local", "alder"),
            ("local", "birch"),
            ("ollama", "birch"),
        ]
        assert connection.scalar(select(func.count()).select_from(calls_table)) == 5
        assert len(families_asked(connection, within_seconds=3700)) == 4
