"""When a delivery is tried again, and when it is given up."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.core.webhook import MOST_ATTEMPTS, Answer, wait_before_retry

FAILED = Answer(status=500, problem="answered 500")
#: The middle of the jitter: the wait itself.
MIDDLE = 0.5


def wait(
    answer: Answer = FAILED, attempts: int = 1, age_seconds: float = 0.0, chance: float = MIDDLE
) -> float | None:
    return wait_before_retry(answer, attempts=attempts, age_seconds=age_seconds, chance=chance)


def test_waits_double_from_ten_seconds_to_a_day_in_all() -> None:
    waits = [wait(attempts=attempts) for attempts in range(1, 14)]

    assert waits[:4] == [10.0, 20.0, 40.0, 80.0]
    # 10 s × (2^13 - 1) = 81,910 s, which is 22.75 hours.
    assert sum(seconds or 0 for seconds in waits) == 81_910.0


def test_the_fourteenth_failure_is_the_last() -> None:
    assert wait(attempts=13) == 40_960.0
    assert wait(attempts=14) is None


def test_a_wait_is_spread_by_a_fifth_to_both_sides() -> None:
    assert wait(chance=0.0) == pytest.approx(8.0)
    assert wait(chance=1.0) == pytest.approx(12.0)


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_is_the_end(status: int) -> None:
    answer = Answer(status=status)
    assert answer.is_success
    assert wait(answer) is None


@pytest.mark.parametrize("status", [199, 301, 302, 307, 400, 401, 404, 429, 500, 503])
def test_everything_else_is_tried_again_redirects_included(status: int) -> None:
    answer = Answer(status=status)
    assert not answer.is_success
    assert wait(answer) == 10.0


def test_410_stops_at_once_and_is_no_success() -> None:
    gone = Answer(status=410)
    assert wait(gone) is None
    assert not gone.is_success


def test_an_address_that_is_refused_is_not_tried_again() -> None:
    assert wait(Answer(problem="leads into a closed network", is_refused=True)) is None


def test_retry_after_lengthens_a_wait_and_never_shortens_it() -> None:
    assert wait(Answer(status=429, retry_after_seconds=100.0)) == 100.0
    assert wait(Answer(status=429, retry_after_seconds=1.0)) == 10.0


def test_a_receiver_cannot_keep_an_event_alive_beyond_three_days() -> None:
    day = 86_400.0
    patient = Answer(status=503, retry_after_seconds=day)
    assert wait(patient, age_seconds=2 * day) == day
    assert wait(patient, age_seconds=2 * day + 1) is None


@given(
    attempts=st.integers(min_value=0, max_value=40_000),
    age_seconds=st.floats(min_value=0, max_value=1e6),
    chance=st.floats(min_value=0, max_value=1, exclude_max=True),
    asked=st.none() | st.floats(min_value=0, max_value=86_400),
)
def test_every_wait_is_positive_and_ends(
    attempts: int, age_seconds: float, chance: float, asked: float | None
) -> None:
    seconds = wait(Answer(status=500, retry_after_seconds=asked), attempts, age_seconds, chance)
    assert (seconds is None) >= (attempts >= MOST_ATTEMPTS)
    assert seconds is None or 8.0 <= seconds <= 3 * 86_400.0
