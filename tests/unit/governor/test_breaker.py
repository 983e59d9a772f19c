"""The circuit breaker: what opens it, for how long, and how it closes. Times are seconds of an invented clock."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.governor.breaker import (
    COUNTED,
    FAILURES_TO_OPEN,
    HOPELESS_OPEN_SECONDS,
    LONGEST_OPEN_SECONDS,
    SHORTEST_OPEN_SECONDS,
    TRIAL_SECONDS,
    Breaker,
    Health,
)

EVENTS = st.lists(
    st.tuples(
        st.sampled_from(["ok", "ask", *sorted(COUNTED), "quota", "auth", "rate", "bad_request", "refusal"]),
        st.floats(min_value=0, max_value=400),
    ),
    max_size=60,
)


def lets_through(breaker: Breaker, now: float) -> bool:
    """Ask, and begin the call if nothing is against it."""
    if breaker.refusal(now) is not None:
        return False
    breaker.begin(now)
    return True


def fail_until_open(breaker: Breaker, at: float = 0.0) -> None:
    for _ in range(breaker.failures_to_open):
        breaker.failed("overload", "HTTP 503", at)


@pytest.mark.parametrize("kind", sorted(COUNTED))
def test_it_opens_at_the_fifth_counted_failure_in_a_row(kind: str) -> None:
    breaker = Breaker()

    changes = [breaker.failed(kind, "gone", 1.0) for _ in range(FAILURES_TO_OPEN)]

    assert changes == [False, False, False, False, True]
    refusal = breaker.refusal(2.0)
    assert refusal is not None
    # Open for 10 s from second 1 on: at second 2 another 9 are left.
    assert (refusal.kind, refusal.detail, refusal.retry_seconds) == (kind, "gone", 9.0)


def test_an_answer_in_between_starts_the_count_again() -> None:
    breaker = Breaker()
    for _ in range(FAILURES_TO_OPEN - 1):
        breaker.failed("overload", "", 0.0)

    breaker.succeeded(0.0)
    breaker.failed("overload", "", 0.0)

    assert breaker.refusal(0.0) is None


@pytest.mark.parametrize("kind", ["rate", "bad_request", "refusal", "context", "empty", "torn"])
def test_an_answer_we_do_not_like_never_opens_it(kind: str) -> None:
    breaker = Breaker()

    changes = {breaker.failed(kind, "", 0.0) for _ in range(50)}

    assert changes == {False}
    assert breaker.refusal(0.0) is None


@pytest.mark.parametrize("kind", ["quota", "auth"])
def test_an_empty_account_or_a_refused_key_opens_it_at_once_and_names_no_soon(kind: str) -> None:
    breaker = Breaker()

    assert breaker.failed(kind, "no credit", 0.0)

    refusal = breaker.refusal(HOPELESS_OPEN_SECONDS - 1)
    assert refusal is not None
    assert (refusal.kind, refusal.retry_seconds) == (kind, None)
    assert breaker.refusal(HOPELESS_OPEN_SECONDS) is None


def test_only_one_trial_goes_through_when_the_time_is_over() -> None:
    breaker = Breaker()
    fail_until_open(breaker)

    assert [lets_through(breaker, SHORTEST_OPEN_SECONDS) for _ in range(3)] == [True, False, False]


def test_a_good_trial_closes_it_and_a_bad_one_doubles_its_time_up_to_the_longest() -> None:
    breaker = Breaker()
    fail_until_open(breaker)
    now, lengths = 0.0, []
    for _ in range(6):
        assert breaker.open_until is not None
        lengths.append(breaker.open_until - now)
        now = breaker.open_until
        assert lets_through(breaker, now)
        assert breaker.failed("transport", "still gone", now)

    # 10, 20, 40, 80, 160 and never more.
    assert lengths == [10, 20, 40, 80, 160, LONGEST_OPEN_SECONDS]
    assert breaker.open_until is not None
    assert lets_through(breaker, breaker.open_until)
    assert breaker.succeeded(breaker.open_until)
    assert breaker.health(now) is Health.GOOD


def test_failures_of_calls_that_were_already_under_way_do_not_lengthen_it() -> None:
    breaker = Breaker()
    fail_until_open(breaker, at=0.0)

    assert not breaker.failed("overload", "", 5.0)

    assert breaker.open_until == SHORTEST_OPEN_SECONDS


def test_a_trial_whose_worker_died_lets_another_one_try() -> None:
    breaker = Breaker()
    fail_until_open(breaker)
    assert lets_through(breaker, 10.0)

    assert breaker.refusal(10.0 + TRIAL_SECONDS - 1) is not None
    assert breaker.refusal(10.0 + TRIAL_SECONDS) is None


def test_to_ask_is_not_to_send_so_a_call_that_another_rule_stops_holds_up_nobody() -> None:
    breaker = Breaker()
    fail_until_open(breaker)

    assert breaker.refusal(10.0) is None
    assert breaker.refusal(10.0) is None


def test_a_trial_that_was_never_sent_leaves_its_place_to_another() -> None:
    breaker = Breaker()
    fail_until_open(breaker)
    assert lets_through(breaker, 10.0)

    breaker.not_sent()

    assert lets_through(breaker, 10.0)


def test_a_rate_limit_on_the_trial_shows_that_the_provider_is_there() -> None:
    breaker = Breaker()
    fail_until_open(breaker)
    assert lets_through(breaker, 10.0)

    assert breaker.failed("rate", "429", 10.5)

    assert breaker.health(10.5) is Health.GOOD


def test_low_quota_lasts_until_its_reset_and_the_next_answer_says_that_it_is_over() -> None:
    breaker = Breaker()

    assert breaker.run_low("3 requests left for 3600 s", 3600, 0.0)
    assert not breaker.run_low("2 requests left for 3599 s", 3599, 1.0)

    assert breaker.health(3599.0) is Health.LOW
    assert breaker.is_running_dry(3599.0)
    assert not breaker.succeeded(3599.0)
    assert not breaker.is_running_dry(3600.0)
    assert breaker.succeeded(3600.0)


def test_an_account_without_credit_runs_dry_but_one_with_a_wrong_key_does_not() -> None:
    without_credit, wrong_key = Breaker(), Breaker()
    without_credit.failed("quota", "", 0.0)
    wrong_key.failed("auth", "", 0.0)

    assert without_credit.is_running_dry(1.0)
    assert not wrong_key.is_running_dry(1.0)


@given(events=EVENTS)
def test_it_never_stays_shut_for_good(events: list[tuple[str, float]]) -> None:
    """Whatever happened, a call may be sent once the longest open time and a lost trial are over."""
    breaker, now = Breaker(), 0.0
    for event, later in events:
        now += later
        if event == "ok":
            breaker.succeeded(now)
        elif event == "ask":
            lets_through(breaker, now)
        else:
            breaker.failed(event, "", now)

    assert breaker.refusal(now + HOPELESS_OPEN_SECONDS + TRIAL_SECONDS) is None
