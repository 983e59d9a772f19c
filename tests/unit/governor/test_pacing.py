from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.governor.base import Headroom, Limits, Pace, Signal
from workers.governor.pacing import binds, bounded_block, paced, signal_of

NOTHING = Signal()


@given(per_minute=st.floats(1, 1e5), burst=st.integers(1, 50))
def test_sixty_seconds_and_a_late_arrival_never_hold_more_starts_than_the_limit(
    per_minute: float, burst: int
) -> None:
    spaced = paced(Limits(requests_per_minute=per_minute, burst=burst))

    assert spaced.requests_per_minute is not None
    unit_seconds = 60 / spaced.requests_per_minute
    # GCRA lets ceil(w / unit) + burst - 1 calls start within w, its end left out; 60 s of arrivals hold the
    # starts of 60.6 s.
    most = math.ceil(60.6 / unit_seconds - 1e-6) + spaced.burst - 1
    assert most <= math.ceil(per_minute)
    assert spaced.burst <= max(1, per_minute)


def test_one_percent_is_kept_for_uneven_travel_and_three_of_tokens_for_calls_that_use_more() -> None:
    spaced = paced(
        Limits(requests_per_minute=3030, input_tokens_per_minute=101, output_tokens_per_minute=202)
    )

    # 3030 · 60 / 60.6 = 3000
    assert spaced.requests_per_minute == pytest.approx(3000)
    # 97 % of 100 and of 200
    assert spaced.input_tokens_per_minute == pytest.approx(97)
    assert spaced.output_tokens_per_minute == pytest.approx(194)


def test_a_burst_is_taken_out_of_the_limit_and_never_above_it() -> None:
    # 111 less the ten that may start beside the first: 101 a minute, of which one percent is kept.
    assert paced(Limits(requests_per_minute=111, burst=11)).requests_per_minute == pytest.approx(100)
    assert paced(Limits(requests_per_minute=3, burst=9)).burst == 3
    assert paced(Limits(requests_per_minute=0.5, burst=9)).burst == 1
    assert paced(Limits(burst=9)) == Limits(burst=9)


@pytest.mark.parametrize(
    ("headroom", "signal"),
    [
        (Headroom(), NOTHING),
        (Headroom(requests_remaining=0), NOTHING),
        (Headroom(requests_remaining=5), NOTHING),
        (Headroom(requests_reset_seconds=5), NOTHING),
        (Headroom(requests_remaining=0, requests_reset_seconds=0), NOTHING),
        (Headroom(requests_remaining=0, requests_reset_seconds=math.nan), NOTHING),
        (Headroom(requests_remaining=0, requests_reset_seconds=30), Signal(block_seconds=30)),
        (Headroom(requests_remaining=-1, requests_reset_seconds=30), Signal(block_seconds=30)),
        (Headroom(requests_remaining=0, requests_reset_seconds=1e9), Signal(block_seconds=3600)),
        (
            Headroom(requests_remaining=4, requests_reset_seconds=20),
            Signal(requests=Pace(unit_seconds=5, seconds=20)),
        ),
        (
            Headroom(
                requests_remaining=0,
                requests_reset_seconds=3,
                input_tokens_remaining=0,
                input_tokens_reset_seconds=8,
                output_tokens_remaining=100,
                output_tokens_reset_seconds=50,
            ),
            Signal(block_seconds=8, output_tokens=Pace(unit_seconds=0.5, seconds=50)),
        ),
    ],
)
def test_nothing_left_blocks_until_the_reset_and_what_is_left_is_spread_over_it(
    headroom: Headroom, signal: Signal
) -> None:
    assert signal_of(headroom) == signal


@pytest.mark.parametrize(
    ("signal", "limits", "expected"),
    [
        (NOTHING, Limits(), False),
        (Signal(block_seconds=1), Limits(), True),
        (Signal(is_overload=True), Limits(), True),
        (Signal(requests=Pace(unit_seconds=2, seconds=9)), Limits(requests_per_minute=60), True),
        (Signal(requests=Pace(unit_seconds=0.5, seconds=9)), Limits(requests_per_minute=60), False),
        (Signal(output_tokens=Pace(unit_seconds=0.5, seconds=9)), Limits(requests_per_minute=60), True),
    ],
)
def test_only_a_pace_slower_than_the_limit_is_news(signal: Signal, limits: Limits, expected: bool) -> None:
    assert binds(signal, limits) is expected


@pytest.mark.parametrize(
    ("seconds", "expected"), [(5, 5), (0, 0), (-1, 0), (math.nan, 0), (math.inf, 3600), (7200, 3600)]
)
def test_a_block_has_a_length_that_can_be_used(seconds: float, expected: float) -> None:
    assert bounded_block(seconds) == expected


def test_each_side_of_a_headroom_has_its_pace_and_a_last_one_is_not_none() -> None:
    told = signal_of(
        Headroom(
            requests_remaining=1,
            requests_reset_seconds=10,
            input_tokens_remaining=100,
            input_tokens_reset_seconds=20,
            output_tokens_remaining=300,
            output_tokens_reset_seconds=30,
        )
    )
    assert told == Signal(
        block_seconds=0,
        requests=Pace(unit_seconds=10, seconds=10),
        input_tokens=Pace(unit_seconds=0.2, seconds=20),
        output_tokens=Pace(unit_seconds=0.1, seconds=30),
    )


def test_a_reset_that_is_now_says_nothing() -> None:
    assert signal_of(Headroom(requests_remaining=5, requests_reset_seconds=0)) == NOTHING


def test_a_pace_that_is_the_limit_s_own_is_no_news() -> None:
    limits = Limits(requests_per_minute=3030)
    own = 60 / (paced(limits).requests_per_minute or 0)
    assert not binds(Signal(requests=Pace(unit_seconds=own, seconds=10)), limits)
    assert binds(Signal(requests=Pace(unit_seconds=own * 1.001, seconds=10)), limits)
