from __future__ import annotations

import pytest

from workers.providers.attempts import AttemptCounter
from workers.providers.base import AttemptsExhaustedError, RateLimitedError, TransportError
from workers.providers.retry_plan import is_worth_waiting, wait_before_retry


async def test_a_counter_lets_its_limit_through_and_stores_each_first() -> None:
    stored: list[int] = []

    async def store(used: int) -> None:
        stored.append(used)

    counter = AttemptCounter(4, used=2, on_attempt=store)
    await counter()
    await counter()
    assert counter.remaining == 0
    with pytest.raises(AttemptsExhaustedError, match="all 4 requests"):
        await counter()
    assert stored == [3, 4]


async def test_a_count_stored_above_a_lowered_limit_sends_nothing() -> None:
    counter = AttemptCounter(2, used=5)
    assert counter.remaining == 0
    with pytest.raises(AttemptsExhaustedError):
        await counter()


def test_a_limit_that_sends_nothing_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="at least 1"):
        AttemptCounter(0)


@pytest.mark.parametrize(
    ("retry_index", "jitter", "seconds"),
    [(0, 0.0, 0.5), (0, 1.0, 1.0), (1, 0.0, 1.0), (2, 0.5, 3.0), (30, 1.0, 8.0)],
)
def test_an_unstated_wait_is_half_fixed_half_random(retry_index: int, jitter: float, seconds: float) -> None:
    """(1 s · 2^index, at most 8 s) · (½ + ½ · jitter)"""
    assert wait_before_retry(RateLimitedError("x"), retry_index=retry_index, jitter=jitter) == seconds


@pytest.mark.parametrize(("retry_index", "jitter", "seconds"), [(0, 0.5, 0.25), (2, 1.0, 2.0), (9, 1.0, 8.0)])
def test_a_broken_connection_waits_all_random(retry_index: int, jitter: float, seconds: float) -> None:
    """jitter · (½ s · 2^index, at most 8 s)"""
    assert wait_before_retry(TransportError("x"), retry_index=retry_index, jitter=jitter) == seconds


def test_a_stated_wait_is_never_shortened_and_jitter_adds_a_second_at_most() -> None:
    error = RateLimitedError("x", retry_after_seconds=7.0)
    assert wait_before_retry(error, retry_index=0, jitter=0.0) == 7.0
    assert wait_before_retry(error, retry_index=5, jitter=1.0) == 8.0


@pytest.mark.parametrize(
    ("stated", "wait_seconds", "remaining_seconds", "expected"),
    [
        (20.0, 20.5, 60.0, True),
        (20.1, 20.1, 60.0, False),
        (None, 8.0, 8.1, True),
        (None, 8.0, 8.0, False),
        (5.0, 5.0, 4.0, False),
    ],
)
def test_a_long_wait_or_one_past_the_deadline_is_given_up(
    stated: float | None, wait_seconds: float, remaining_seconds: float, expected: bool
) -> None:
    verdict = is_worth_waiting(
        RateLimitedError("x", retry_after_seconds=stated),
        wait_seconds=wait_seconds,
        max_wait_seconds=20.0,
        remaining_seconds=remaining_seconds,
    )
    assert verdict is expected
