"""Latencies are functions of the request's digest with the distribution that was asked for."""

from __future__ import annotations

import hashlib
import math
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.errors import InputError
from workers.providers.simulator.latency import (
    LONGEST_DRAWN_SECONDS,
    Timing,
    fixed_latency,
    lognormal_latency,
    spread_latency,
)

DIGESTS = st.text("0123456789abcdef", min_size=24, max_size=24)


def digest(number: int) -> str:
    return hashlib.blake2b(str(number).encode(), digest_size=12).hexdigest()


def test_a_lognormal_has_the_median_and_the_95th_percentile_asked_for() -> None:
    draw = lognormal_latency(median_seconds=2.0, p95_seconds=8.0)
    # The middle of the digests is the middle of the distribution; 0xf3333333_3333 / 2^48 = 0.95.
    assert draw("0" * 12 + "800000000000") == pytest.approx(2.0)
    assert draw("0" * 12 + "f33333333333") == pytest.approx(8.0)
    # By symmetry of the logarithm the 5th percentile is 2² / 8.
    assert draw("0" * 12 + "0ccccccccccc") == pytest.approx(0.5)


def test_draws_over_many_requests_follow_it() -> None:
    draw = lognormal_latency(median_seconds=2.0, p95_seconds=8.0)
    drawn = sorted(draw(digest(number)) for number in range(4000))
    # The share of 4000 below a percentile has a standard error of 0.8 % (median) and 0.35 % (95th).
    assert median(drawn) == pytest.approx(2.0, rel=0.1)
    assert 0.93 < sum(seconds < 8.0 for seconds in drawn) / 4000 < 0.97


@given(DIGESTS)
def test_a_drawn_latency_is_finite_positive_and_bounded(request: str) -> None:
    seconds = lognormal_latency(median_seconds=30.0, p95_seconds=600.0)(request)
    assert 0 < seconds <= LONGEST_DRAWN_SECONDS


@given(DIGESTS)
def test_without_spread_a_lognormal_is_its_median(request: str) -> None:
    assert lognormal_latency(median_seconds=1.5, p95_seconds=1.5)(request) == 1.5


@pytest.mark.parametrize(
    ("median_seconds", "p95_seconds", "sentence"),
    [
        (0.0, 1.0, "above 0"),
        (math.nan, 1.0, "above 0"),
        (-1.0, 1.0, "above 0"),
        (2.0, 1.0, "at least the median, 2"),
        (2.0, math.inf, "at least the median, 2"),
    ],
)
def test_an_impossible_distribution_is_refused(
    median_seconds: float, p95_seconds: float, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        lognormal_latency(median_seconds=median_seconds, p95_seconds=p95_seconds)


def test_half_of_the_time_passes_before_the_first_piece_unless_something_else_is_said() -> None:
    pace = Timing(total=fixed_latency(3.0)).pace(digest(0))
    assert (pace.first_seconds, pace.total_seconds) == (1.5, 3.0)
    pace = Timing(total=fixed_latency(3.0), first=fixed_latency(0.4)).pace(digest(0))
    assert (pace.first_seconds, pace.total_seconds) == (0.4, 3.0)


@given(DIGESTS)
def test_the_first_piece_never_comes_after_the_last(request: str) -> None:
    first = lognormal_latency(median_seconds=1.0, p95_seconds=10.0)
    pace = Timing(total=spread_latency, first=first).pace(request)
    assert 0 < pace.first_seconds <= pace.total_seconds


def test_the_two_times_are_drawn_apart() -> None:
    same = lognormal_latency(median_seconds=1.0, p95_seconds=1.1)
    paces = [Timing(total=same, first=same).pace(digest(number)) for number in range(100)]
    assert any(pace.first_seconds < pace.total_seconds for pace in paces)
