"""A batch's states, and the arithmetic of its progress."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.core.batch import (
    BATCH_ENDED,
    BATCH_TRANSITIONS,
    BatchState,
    Progress,
    batch_sources_of,
    runs_per_minute,
    seconds_left,
)

START = dt.datetime(2026, 1, 2, 3, 0, 0, tzinfo=dt.UTC)


def after(seconds: float) -> dt.datetime:
    return START + dt.timedelta(seconds=seconds)


def rate(finished: int, lately: int, *, now: float, finished_at: float | None = None) -> float | None:
    return runs_per_minute(
        finished=finished,
        finished_lately=lately,
        started_at=START,
        finished_at=None if finished_at is None else after(finished_at),
        now=after(now),
    )


def test_every_state_has_its_successors_and_the_ended_ones_have_none() -> None:
    assert BATCH_TRANSITIONS.keys() == set(BatchState)
    assert {BatchState.CANCELLED, BatchState.FINISHED} == BATCH_ENDED


def test_a_batch_goes_on_only_from_a_pause_and_is_cancelled_only_before_its_end() -> None:
    assert batch_sources_of(BatchState.RUNNING) == [BatchState.PAUSED]
    assert batch_sources_of(BatchState.CANCELLED) == [BatchState.RUNNING, BatchState.PAUSED]


def test_counts_add_up() -> None:
    progress = Progress(waiting=1, running=2, accepted=4, rejected=8, degraded=16, cancelled=32)
    assert (progress.finished, progress.ended, progress.left, progress.total) == (28, 60, 3, 63)


def test_the_rate_of_a_young_batch_is_over_its_life() -> None:
    assert rate(10, 10, now=120) == 5.0  # ten in two minutes


def test_the_rate_of_an_older_batch_is_over_the_last_five_minutes() -> None:
    assert rate(10_000, 25, now=3600) == 5.0  # 25 in five minutes


def test_the_rate_of_an_ended_batch_is_over_its_whole_time_whenever_it_is_asked() -> None:
    assert rate(600, 3, now=99_999, finished_at=3600) == 10.0  # 600 in an hour


def test_a_batch_that_came_to_a_standstill_has_the_rate_nought_and_no_end() -> None:
    assert rate(10, 0, now=3600) == 0.0
    assert seconds_left(5, 0.0) is None


def test_there_is_no_rate_before_the_first_run_has_finished() -> None:
    assert rate(0, 0, now=100) is None
    assert seconds_left(5, None) is None
    assert (
        runs_per_minute(finished=0, finished_lately=0, started_at=None, finished_at=None, now=START) is None
    )


def test_less_than_a_second_counts_as_one() -> None:
    assert rate(3, 3, now=0) == 180.0
    assert rate(3, 3, now=9, finished_at=0) == 180.0


def test_the_time_left_is_what_is_left_over_the_rate() -> None:
    assert seconds_left(30, 10.0) == 180.0
    assert seconds_left(0, None) == 0.0


@given(st.integers(1, 10**6), st.floats(0.01, 10**6))
def test_at_the_rate_told_the_rest_is_done_in_the_time_told(left: int, per_minute: float) -> None:
    seconds = seconds_left(left, per_minute)
    assert seconds is not None
    assert per_minute * seconds / 60 == pytest.approx(left)
