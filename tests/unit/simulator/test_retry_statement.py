"""A wait in every grammar, as text; that it is read back as the same wait is shown in tests/contract."""

from __future__ import annotations

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.providers.retry_after import retry_after_seconds
from workers.providers.simulator.retry_statement import GRAMMARS, go_duration, rfc3339

#: Monday, 30 June 2025, 12:00:00 UTC.
NOW = 1_751_284_800.0


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0ms"),
        (0.0121, "13ms"),
        (1, "1s"),
        (1.5, "1.5s"),
        (59.9999, "1m0s"),
        (360, "6m0s"),
        (3723.25, "1h2m3.25s"),
        (86_400, "24h0m0s"),
    ],
)
def test_durations_read_as_go_writes_them(seconds: float, text: str) -> None:
    assert go_duration(seconds) == text


@pytest.mark.parametrize(
    ("grammar", "header", "value"),
    [
        ("seconds", "retry-after", "2"),
        ("float", "retry-after", "1.500"),
        ("milliseconds", "retry-after-ms", "1500"),
        # Dates have whole seconds and are never too early.
        ("imf-date", "retry-after", "Mon, 30 Jun 2025 12:00:02 GMT"),
        ("rfc850-date", "retry-after", "Monday, 30-Jun-25 12:00:02 GMT"),
        ("asctime-date", "retry-after", "Mon Jun 30 12:00:02 2025"),
        ("reset-duration", "x-ratelimit-reset-requests", "1.5s"),
        ("reset-rfc3339", "x-ratelimit-reset-requests", "2025-06-30T12:00:02Z"),
        ("reset-epoch", "x-ratelimit-reset-requests", "1751284802"),
    ],
)
def test_a_wait_of_a_second_and_a_half_in_every_header(grammar: str, header: str, value: str) -> None:
    assert GRAMMARS[grammar](1.5, NOW).headers[header] == value


def test_a_wait_may_stand_in_the_body_or_nowhere() -> None:
    assert GRAMMARS["sentence"](1.5, NOW).sentence == " Please try again in 1.5s."
    (detail,) = GRAMMARS["retry-info"](1.5, NOW).extra["details"]
    assert detail["retryDelay"] == "1.500s"
    nothing = GRAMMARS["none"](1.5, NOW)
    assert (nothing.headers, nothing.sentence, nothing.extra) == ({}, "", {})


@given(st.sampled_from([name for name in GRAMMARS if name not in {"none", "retry-info", "sentence"}]),
       st.floats(0, 86_000))  # fmt: skip
def test_no_stated_wait_is_shorter_than_the_wait(grammar: str, seconds: float) -> None:
    read = retry_after_seconds(GRAMMARS[grammar](seconds, NOW).headers, b"", now_epoch_seconds=NOW)
    assert read is not None
    # Durations and floats are rounded to the millisecond.
    assert seconds - 0.001 <= read <= seconds + 1.001


@given(st.floats(0, 4e9))
def test_times_are_rfc3339(epoch_seconds: float) -> None:
    assert 0 <= datetime.fromisoformat(rfc3339(epoch_seconds)).timestamp() - epoch_seconds <= 1
