"""How pages write numbers, money, times and names."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

from workers.cli.money import money

#: Characters that turn text around or hide it: shown as U+FFFD, so that code on a page reads as it runs.
_STEERING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)


def plain(text: object) -> str:
    """A text without characters that would turn it around or hide a part of it."""
    return _STEERING.sub("\N{REPLACEMENT CHARACTER}", str(text).replace("\r\n", "\n"))


def many(number: int, noun: str, plural: str = "") -> str:
    """`1 run`, `10,000 runs`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def words(name: object) -> str:
    """A name of the code's as a reader takes it: `not_reproduced` is `not reproduced`."""
    return str(name).replace("_", " ")


def number(value: float | int | None) -> str:
    """With thousands apart; `–` where it is not known."""
    return "–" if value is None else f"{value:,}"


def percent(share: float | None) -> str:
    """`42 %`; 100 only when nothing is left, `–` where it is not known."""
    return "–" if share is None else f"{int(100 * share + 1e-9)} %"


def dollars(usd: float | Decimal | None) -> str:
    """US dollars; `–` where no price is known."""
    return "–" if usd is None else money(float(usd))


def duration(seconds: float | None) -> str:
    """A length of time in its two largest units: `0.4 s`, `18 s`, `3 min 5 s`, `3 h 20 min`."""
    if seconds is None:
        return "–"
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"


def size(count: int) -> str:
    """Bytes as `812 B`, `1.4 kB`, `3.0 MB`."""
    if count < 1000:
        return f"{count} B"
    return f"{count / 1000:.1f} kB" if count < 1_000_000 else f"{count / 1_000_000:.1f} MB"


def moment(value: dt.datetime | str) -> str:
    """A point in time in UTC, to the second. Takes what the database and what the ledger give."""
    return _aware(value).strftime("%Y-%m-%d %H:%M:%S")


def iso(value: dt.datetime | str) -> str:
    """For the `datetime` attribute."""
    return _aware(value).isoformat()


def _aware(value: dt.datetime | str) -> dt.datetime:
    found = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
    return found.astimezone(dt.UTC)


def excerpt(text: object, letters: int = 140) -> str:
    """The beginning of a text, in one line."""
    line = " ".join(plain(text).split())
    return line if len(line) <= letters else line[: letters - 1].rstrip() + "…"


def query(filters: Mapping[str, object]) -> str:
    """A query string of what is set."""
    return urlencode({name: str(value) for name, value in filters.items() if value})


FILTERS: Mapping[str, Callable[..., Any]] = {
    "plain": plain,
    "many": many,
    "words": words,
    "number": number,
    "percent": percent,
    "dollars": dollars,
    "duration": duration,
    "size": size,
    "moment": moment,
    "iso": iso,
    "excerpt": excerpt,
    "query": query,
}
