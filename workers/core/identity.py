"""Ids that sort by the time of their making: `run_` and 26 characters, the clock first, then chance."""

from __future__ import annotations

import datetime as dt

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def make_id(prefix: str, at: dt.datetime, randomness: bytes) -> str:
    """`prefix_` + 48 bits of milliseconds + 80 bits of `randomness` (10 bytes), in base 32 without i, l, o, u."""
    if len(randomness) != 10:
        raise ValueError(f"an id takes 10 random bytes, not {len(randomness)}")
    milliseconds = int(at.timestamp() * 1000)
    number = (milliseconds << 80) | int.from_bytes(randomness)
    digits = []
    for _ in range(26):
        number, digit = divmod(number, 32)
        digits.append(_ALPHABET[digit])
    return f"{prefix}_{''.join(reversed(digits))}"
