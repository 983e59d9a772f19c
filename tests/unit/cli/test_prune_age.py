"""What `--older-than` takes, and how sizes are told."""

from __future__ import annotations

import datetime as dt

import pytest

from workers.cli.prune import age_of, size
from workers.errors import InputError


@pytest.mark.parametrize(
    ("text", "age"),
    [
        ("90d", dt.timedelta(days=90)),
        (" 12h ", dt.timedelta(hours=12)),
        ("2w", dt.timedelta(days=14)),
        ("1m", dt.timedelta(minutes=1)),
        ("36500d", dt.timedelta(days=36_500)),
    ],
)
def test_an_age_is_a_number_and_a_unit(text: str, age: dt.timedelta) -> None:
    assert age_of(text) == age


@pytest.mark.parametrize(
    "text", ["", "90", "d", "0d", "-1d", "1.5d", "90 days", "9y", "٣d", "1d2h", "x" * 99]
)
def test_whatever_else_is_refused_with_what_would_be_right(text: str) -> None:
    with pytest.raises(InputError, match="give a whole number above 0 and a unit, m, h, d or w, as in 90d"):
        age_of(text)


@pytest.mark.parametrize("text", ["36501d", "99999999w"])
def test_an_age_beyond_any_record_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="more than a hundred years"):
        age_of(text)


@pytest.mark.parametrize(
    ("count", "told"),
    [(0, "0 bytes"), (999, "999 bytes"), (1_500, "1.5 kB"), (2_000_000, "2.0 MB"), (3 * 10**15, "3000.0 TB")],
)
def test_sizes_are_told_in_a_unit_that_suits_them(count: int, told: str) -> None:
    assert size(count) == told
