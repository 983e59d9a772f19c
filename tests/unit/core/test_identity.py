"""Ids that sort by time and can be read aloud."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.core.identity import make_id

ZERO = bytes(10)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
MOMENTS = st.integers(0, 7_000_000_000_000_000).map(lambda micros: EPOCH + dt.timedelta(microseconds=micros))


def test_the_digits_are_the_clock_and_then_chance() -> None:
    # 1 ms is 1 << 80; 80 = 16·5, so the 17th digit from the right is 1, and 26 digits in all.
    at = dt.datetime(1970, 1, 1, 0, 0, 0, 1000, tzinfo=dt.UTC)
    assert make_id("run", at, ZERO) == "run_" + "0" * 9 + "1" + "0" * 16
    # 2026-01-01T00:00:00Z is 1,767,225,600,000 ms, in base 32: 1 19 13 27 13 21 10 0 0.
    digits = [0, 1, 19, 13, 27, 13, 21, 10, 0, 0]
    assert sum(digit * 32**place for place, digit in enumerate(reversed(digits))) == 1_767_225_600_000
    new_year = make_id("run", dt.datetime(2026, 1, 1, tzinfo=dt.UTC), ZERO)
    assert new_year == "run_01kdvdna00" + "0" * 16
    assert make_id("run", at, bytes(9) + b"\x1f") == "run_" + "0" * 9 + "1" + "0" * 15 + "z"


@given(MOMENTS, st.binary(min_size=10, max_size=10))
def test_an_id_is_26_digits_that_cannot_be_misread(at: dt.datetime, chance: bytes) -> None:
    prefix, _, digits = make_id("run", at, chance).partition("_")
    assert prefix == "run"
    assert len(digits) == 26
    assert set(digits) <= set("0123456789abcdefghjkmnpqrstvwxyz")


@given(MOMENTS, MOMENTS, st.binary(min_size=10, max_size=10), st.binary(min_size=10, max_size=10))
def test_ids_sort_by_their_millisecond(
    one: dt.datetime, other: dt.datetime, left: bytes, right: bytes
) -> None:
    def milliseconds(at: dt.datetime) -> int:
        return int(at.timestamp() * 1000)

    if milliseconds(one) < milliseconds(other):
        assert make_id("run", one, left) < make_id("run", other, right)
    elif milliseconds(one) == milliseconds(other):
        assert (make_id("run", one, left) < make_id("run", other, right)) is (left < right)


@pytest.mark.parametrize("chance", [b"", bytes(9), bytes(11)])
def test_too_little_chance_is_refused(chance: bytes) -> None:
    with pytest.raises(ValueError, match="10 random bytes"):
        make_id("run", dt.datetime(2026, 1, 1, tzinfo=dt.UTC), chance)
