from __future__ import annotations

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.governor.base import Headroom
from workers.providers.headroom import read_headroom

#: Seven seconds before 2033-05-18T03:33:20Z, which is 2_000_000_000.
NOW = 1_999_999_993.0


def read(headers: dict[str, str]) -> Headroom | None:
    return read_headroom(headers, now_epoch_seconds=NOW)


def test_openai_states_durations() -> None:
    headers = {
        "X-RateLimit-Limit-Requests": "500",
        "x-ratelimit-remaining-requests": "499",
        "x-ratelimit-reset-requests": "120ms",
        "x-ratelimit-limit-tokens": "30000",
        "x-ratelimit-remaining-tokens": "29000",
        "x-ratelimit-reset-tokens": "6m0s",
    }
    assert read(headers) == Headroom(
        requests_remaining=499,
        requests_reset_seconds=pytest.approx(0.12),
        input_tokens_remaining=29_000,
        input_tokens_reset_seconds=360.0,
    )


def test_anthropic_states_moments_and_both_sides() -> None:
    headers = {
        "anthropic-ratelimit-requests-remaining": "49",
        "anthropic-ratelimit-requests-reset": "2033-05-18T03:33:20Z",
        "anthropic-ratelimit-tokens-remaining": "1000",
        "anthropic-ratelimit-tokens-reset": "2033-05-18T03:33:21Z",
        "anthropic-ratelimit-input-tokens-remaining": "30000",
        "anthropic-ratelimit-input-tokens-reset": "2033-05-18T03:33:15Z",
        "anthropic-ratelimit-output-tokens-remaining": "0",
        "anthropic-ratelimit-output-tokens-reset": "2033-05-18T04:34:10+01:00",
    }
    # 7 s to :20, 2 s to :15, and 04:34:10+01:00 is 50 s after :20.
    assert read(headers) == Headroom(
        requests_remaining=49,
        requests_reset_seconds=7.0,
        input_tokens_remaining=30_000,
        input_tokens_reset_seconds=2.0,
        output_tokens_remaining=0,
        output_tokens_reset_seconds=57.0,
    )


def test_tokens_without_a_side_count_as_input() -> None:
    headers = {
        "anthropic-ratelimit-tokens-remaining": "7",
        "anthropic-ratelimit-tokens-reset": "2033-05-18T03:33:20Z",
    }
    assert read(headers) == Headroom(input_tokens_remaining=7, input_tokens_reset_seconds=7.0)


def test_groq_counts_requests_by_the_day() -> None:
    headers = {
        "x-ratelimit-remaining-requests": "14370",
        "x-ratelimit-reset-requests": "2m59.56s",
        "x-ratelimit-remaining-tokens": "17997",
        "x-ratelimit-reset-tokens": "7.66s",
    }
    got = read(headers)
    assert got is not None
    assert (got.requests_remaining, got.requests_reset_seconds) == (14_370, pytest.approx(179.56))
    assert (got.input_tokens_remaining, got.input_tokens_reset_seconds) == (17_997, pytest.approx(7.66))


def test_mistral_names_the_minute_instead_of_a_reset() -> None:
    headers = {
        "x-ratelimit-limit-tokens-minute": "5000000",
        "x-ratelimit-remaining-tokens-minute": "4999911",
        "x-ratelimit-tokens-query-cost": "52",
        "x-ratelimit-limit-req-minute": "720",
        "x-ratelimit-remaining-req-minute": "717",
    }
    assert read(headers) == Headroom(
        requests_remaining=717,
        requests_reset_seconds=60.0,
        input_tokens_remaining=4_999_911,
        input_tokens_reset_seconds=60.0,
    )


@pytest.mark.parametrize(
    ("reset", "seconds"),
    [
        ("2000000000", 7.0),
        ("2000000000000", 7.0),
        ("30", 30.0),
        ("1999999990", 0.0),
        ("2000086394", None),  # 86_401 s away: more than a day
        ("soon", None),
        ("", None),
    ],
)
def test_a_reset_is_a_moment_or_a_wait_within_a_day(reset: str, seconds: float | None) -> None:
    assert read({"x-ratelimit-remaining": "3", "x-ratelimit-reset": reset}) == Headroom(
        requests_remaining=3, requests_reset_seconds=seconds
    )


@pytest.mark.parametrize("count", ["-1", "unlimited", "", "9" * 13, "1e9", "1_000", "٣", "nan"])
def test_an_absurd_count_is_not_said(count: str) -> None:
    assert read({"x-ratelimit-remaining-requests": count, "x-ratelimit-reset-requests": "1s"}) is None
    beside = {"x-ratelimit-remaining-requests": count, "x-ratelimit-remaining-tokens": "5.0"}
    assert read(beside) == Headroom(input_tokens_remaining=5)


def test_an_answer_without_limits_says_nothing() -> None:
    assert read({}) is None
    assert read({"retry-after": "3", "x-ratelimit-reset-requests": "3s"}) is None


_names = st.sampled_from(
    [
        b"x-ratelimit-remaining-requests",
        b"x-ratelimit-reset-requests",
        b"anthropic-ratelimit-input-tokens-remaining",
        b"anthropic-ratelimit-input-tokens-reset",
        b"x-ratelimit-remaining-tokens-minute",
        b"x-ratelimit-reset",
    ]
)
_values = st.binary(max_size=30) | st.from_regex(rb"[0-9:TZ.+hms-]{0,30}", fullmatch=True)


@given(st.lists(st.tuples(_names, _values), max_size=6), st.floats(min_value=0, max_value=1e12))
def test_any_headers_are_read_or_ignored(headers: list[tuple[bytes, bytes]], now: float) -> None:
    got = read_headroom(httpx.Headers(headers), now_epoch_seconds=now)
    if got is None:
        return
    assert all(count is None or count >= 0 for count in (got.requests_remaining, got.input_tokens_remaining))
    waits = (got.requests_reset_seconds, got.input_tokens_reset_seconds, got.output_tokens_reset_seconds)
    assert all(wait is None or 0.0 <= wait <= 86_400.0 for wait in waits)
