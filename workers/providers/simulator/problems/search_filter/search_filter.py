"""Search queries over records. A query is compared with values and never executed."""

from __future__ import annotations

import re
from collections.abc import Mapping

Value = str | int
TERM = re.compile(r"(?P<field>[A-Za-z_][A-Za-z0-9_]*)(?P<operator>[:<>])(?P<wanted>.*)")


def matches(query: str, record: Mapping[str, Value]) -> bool:
    """Whether every term of the query holds for the record."""
    answers = [_holds(term, record) for term in query.split()]
    return all(answers)


def _holds(term: str, record: Mapping[str, Value]) -> bool:
    found = TERM.fullmatch(term)
    if found is None:
        return any(_contains(value, term) for value in record.values())
    value = record.get(found["field"])
    if found["operator"] == ":":
        return value is not None and _contains(value, found["wanted"])
    number = _whole_number(found["wanted"], term)
    if not isinstance(value, int):
        return False
    return value > number if found["operator"] == ">" else value < number


def _contains(value: Value, wanted: str) -> bool:
    return wanted.casefold() in str(value).casefold()


def _whole_number(text: str, term: str) -> int:
    if re.fullmatch(r"-?[0-9]{1,18}", text) is None:
        raise ValueError(f"term {term!r} does not compare with a whole number")
    return int(text)
