"""Roman numerals from 1 to 3999, written and read."""

from __future__ import annotations

DIGITS = (
    (1000, "M"),
    (900, "CM"),
    (500, "D"),
    (400, "CD"),
    (100, "C"),
    (90, "XC"),
    (50, "L"),
    (40, "XL"),
    (10, "X"),
    (9, "IX"),
    (5, "V"),
    (4, "IV"),
    (1, "I"),
)


def to_roman(number: object) -> str:
    """The numeral of an int from 1 to 3999, in capitals."""
    if isinstance(number, bool) or not isinstance(number, int):
        raise TypeError(f"a Roman numeral stands for an int, not for {number!r}")
    if not 1 <= number <= 3999:
        raise ValueError(f"{number} has no Roman numeral; 1 to 3999 have one")
    written = []
    for value, letters in DIGITS:
        count, number = divmod(number, value)
        written.append(letters * count)
    return "".join(written)


def from_roman(text: str) -> int:
    """The number that a numeral of `to_roman` stands for; small letters count like capitals."""
    numeral = text.upper() if text.isascii() else ""
    total = position = 0
    for value, letters in DIGITS:
        while numeral.startswith(letters, position):
            total += value
            position += len(letters)
    if not 1 <= total <= 3999 or to_roman(total) != numeral:
        raise ValueError(f"{text!r} is not a Roman numeral")
    return total
