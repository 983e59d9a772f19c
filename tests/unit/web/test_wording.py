"""How pages write what they show."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.web import wording


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (None, "–"),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (10.0, "10 s"),
        (59.4, "59 s"),
        (59.6, "1 min"),
        (185.0, "3 min 5 s"),
        (3600.0, "1 h"),
        (12_000.0, "3 h 20 min"),
    ],
)
def test_a_length_of_time_has_its_two_largest_units(seconds: float | None, written: str) -> None:
    assert wording.duration(seconds) == written


@pytest.mark.parametrize(
    ("share", "written"), [(None, "–"), (0.0, "0 %"), (0.999, "99 %"), (1.0, "100 %"), (0.29, "29 %")]
)
def test_a_hundred_per_cent_is_said_only_when_nothing_is_left(share: float | None, written: str) -> None:
    assert wording.percent(share) == written


def test_money_without_a_price_is_a_dash_and_decimals_are_money_too() -> None:
    assert [wording.dollars(usd) for usd in (None, Decimal("0.0328"), 12.345, 0.0)] == [
        "–",
        "$0.0328",
        "$12.35",
        "$0.0000",
    ]


def test_letters_that_turn_text_around_are_shown_as_such() -> None:
    assert wording.plain("if x:\u202e # admin\u2066") == "if x:\ufffd # admin\ufffd"
    assert wording.plain("a\r\nb\tc") == "a\nb\tc"


@given(st.text())
def test_plain_text_is_left_as_it_is_but_for_those_letters(text: str) -> None:
    shown = wording.plain(text)
    assert wording.plain(shown) == shown
    assert not set(shown) & set("\u202a\u202b\u202d\u202e\u2066\u2067\u2069\x00\x1b\x7f")


@given(st.text(), st.integers(2, 50))
def test_an_excerpt_is_one_line_and_not_longer_than_asked(text: str, letters: int) -> None:
    shown = wording.excerpt(text, letters)
    assert len(shown) <= letters
    assert "\n" not in shown


def test_times_are_written_in_utc_whatever_zone_they_come_in() -> None:
    east = dt.datetime(2026, 3, 1, 1, 30, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert wording.moment(east) == "2026-02-28 23:30:00"
    assert wording.moment("2026-02-28T23:30:00+00:00") == "2026-02-28 23:30:00"
    assert wording.iso(east) == "2026-02-28T23:30:00+00:00"


def test_a_query_string_holds_what_is_set_and_escapes_it() -> None:
    assert wording.query({"team": "a&b=c", "state": None, "outcome": ""}) == "team=a%26b%3Dc"


def test_sizes_and_counts_are_written_for_people() -> None:
    assert [wording.size(count) for count in (0, 999, 1400, 3_000_000)] == [
        "0 B",
        "999 B",
        "1.4 kB",
        "3.0 MB",
    ]
    assert [wording.many(count, "run") for count in (0, 1, 10_000)] == ["0 runs", "1 run", "10,000 runs"]
    assert wording.many(2, "was fixed", "were fixed") == "2 were fixed"
