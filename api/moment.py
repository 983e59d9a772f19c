"""A moment that a client gives."""

from __future__ import annotations

from typing import Annotated

from pydantic import AwareDatetime, BeforeValidator


def _written_out(value: object) -> object:
    # A bare number would be taken for seconds since 1970: `since=5` would silently be everything.
    if not isinstance(value, str) or value.strip().lstrip("+-").replace(".", "", 1).isdecimal():
        raise ValueError("give a date and a time with its offset, such as 2026-05-01T12:00:00Z")
    return value


Moment = Annotated[AwareDatetime, BeforeValidator(_written_out)]
