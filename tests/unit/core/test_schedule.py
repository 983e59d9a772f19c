"""Which night is due, in the clock of the place."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.core.schedule import Schedule, due, last_night


def at(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


def schedule(clock: str = "02:30", timezone: str = "UTC") -> Schedule:
    return Schedule(name="n", at=dt.time.fromisoformat(clock), timezone=timezone)


@pytest.mark.parametrize(
    ("now", "date"),
    [
        ("2026-03-02T02:29:59", "2026-03-01"),
        ("2026-03-02T02:30:00", "2026-03-02"),
        ("2026-03-02T23:59:00", "2026-03-02"),
        ("2026-03-03T02:29:00", "2026-03-02"),
    ],
)
def test_a_night_begins_at_its_time_of_day(now: str, date: str) -> None:
    assert last_night(schedule(), at(now)).date.isoformat() == date


def test_the_clock_is_that_of_the_place() -> None:
    # 02:30 in Berlin is 01:30 UTC in winter and 00:30 UTC in summer.
    berlin = schedule(timezone="Europe/Berlin")
    assert last_night(berlin, at("2026-01-10T01:30:00")).date.isoformat() == "2026-01-10"
    assert last_night(berlin, at("2026-07-10T00:30:00")).date.isoformat() == "2026-07-10"
    assert last_night(berlin, at("2026-07-10T00:29:00")).date.isoformat() == "2026-07-09"


def test_the_date_is_that_of_the_place() -> None:
    # 00:30 on 11 January is 11:30 UTC on the 10th in Auckland (UTC+13), and 10:30 UTC on the 11th in Honolulu (UTC-10).
    auckland = schedule("00:30", timezone="Pacific/Auckland")
    assert last_night(auckland, at("2026-01-10T11:30:00")).date.isoformat() == "2026-01-11"
    honolulu = schedule("00:30", timezone="Pacific/Honolulu")
    assert last_night(honolulu, at("2026-01-11T10:29:00")).date.isoformat() == "2026-01-10"


def test_an_hour_that_the_clock_skips_is_due_all_the_same() -> None:
    # On 29 March 2026 Berlin's clocks go from 02:00 to 03:00, at 01:00 UTC.
    berlin = schedule(timezone="Europe/Berlin")
    assert last_night(berlin, at("2026-03-29T01:30:00")).date.isoformat() == "2026-03-29"


def test_what_lies_before_the_schedule_was_there_was_never_due() -> None:
    seen = at("2026-03-02T12:00:00")
    assert due(schedule(), at("2026-03-02T13:00:00"), first_seen_at=seen) is None
    night = due(schedule(), at("2026-03-05T13:00:00"), first_seen_at=seen)
    assert night is not None
    assert night.date.isoformat() == "2026-03-05"
    # The night itself may be the moment at which it was first seen.
    assert due(schedule(), at("2026-03-02T13:00:00"), first_seen_at=at("2026-03-02T02:30:00")) is not None


@given(
    st.integers(1_600_000_000, 1_900_000_000).map(lambda second: dt.datetime.fromtimestamp(second, dt.UTC)),
    st.times().map(lambda t: t.replace(microsecond=0, tzinfo=None)),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Pacific/Auckland"]),
)
def test_the_last_night_is_never_in_the_future_and_never_older_than_a_day_and_an_hour(
    now: dt.datetime, clock: dt.time, timezone: str
) -> None:
    night = last_night(Schedule(name="n", at=clock, timezone=timezone), now)
    assert night.due_at.tzinfo is dt.UTC
    assert dt.timedelta() <= now - night.due_at <= dt.timedelta(hours=25)
