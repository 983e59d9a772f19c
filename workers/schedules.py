"""Reads the scorings that are to be made every night, from the setting's own text or the file that it names."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from workers.core.schedule import Schedule
from workers.core.scoring import UPLOADED, UPLOADED_SINCE
from workers.errors import ManifestError
from workers.yaml_text import parse, read_text

_MOST_BYTES = 1 << 20
#: What a text that does not fit its pattern should have been.
_SHAPES = {
    "at": "is no time of day; write hours and minutes, such as '02:30'",
    "name": "must be small letters, digits and dashes, at most 63, such as nightly",
}


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=False)

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,62}$")]
    at: str = Field(pattern=r"^([01]\d|2[0-3]):[0-5]\d$")
    timezone: str = "UTC"
    source: str = UPLOADED
    labels: str | None = None
    format: str | None = None
    profile: Literal["paper", "tuned"] = "paper"
    k: Annotated[int, Field(ge=2)] = 5
    draws: Annotated[int, Field(ge=1, le=1000)] = 4
    seed: int = 0

    @field_validator("at", mode="before")
    @classmethod
    def _clock(cls, value: object) -> object:
        # YAML takes 22:30 without quotes for a number in base 60.
        is_minutes = isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 24 * 60
        return f"{value // 60:02}:{value % 60:02}" if isinstance(value, int) and is_minutes else value

    @field_validator("timezone")
    @classmethod
    def _zone(cls, value: str) -> str:
        try:
            ZoneInfo(value)
        except (OSError, ValueError, KeyError):
            raise ValueError(f"{value!r} is no time zone; use a name such as Europe/Berlin or UTC") from None
        return value

    @field_validator("source")
    @classmethod
    def _source(cls, value: str) -> str:
        if value not in (UPLOADED, UPLOADED_SINCE) and not Path(value).is_absolute():
            raise ValueError(
                f"{value!r} must be {UPLOADED}, {UPLOADED_SINCE} or the absolute path of a folder"
            )
        return value

    def schedule(self) -> Schedule:
        values = self.model_dump(exclude={"at", "format", "k"})
        at = dt.time.fromisoformat(self.at)
        return Schedule(at=at, format_name=self.format, donors=self.k, **values)


def read_schedules(text: str) -> tuple[Schedule, ...]:
    """The schedules in a JSON list, or in the JSON or YAML file that `text` names.

    Raises: ValueError with a sentence that says what would be right."""
    listed = _listed(text.strip())
    if not isinstance(listed, list):
        raise ValueError("must be a list of schedules, each with at least a name and a time (at: '02:30')")
    found: dict[str, Schedule] = {}
    for number, item in enumerate(listed, start=1):
        try:
            entry = _Entry.model_validate(item)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"])) or "it"
            message = _SHAPES.get(place) if first["type"] == "string_pattern_mismatch" else None
            message = message or first["msg"].removeprefix("Value error, ")
            raise ValueError(f"schedule {number}: {place}: {message}") from None
        if entry.name in found:
            raise ValueError(f"schedule {number}: the name {entry.name!r} is used twice; give each its own")
        found[entry.name] = entry.schedule()
    return tuple(found.values())


def _listed(text: str) -> Any:
    if text.startswith(("[", "{")):
        try:
            return json.loads(text)
        except ValueError as error:
            raise ValueError(f"is not JSON: {error}") from None
    if not text:
        return []
    path = Path(text)
    try:
        return parse(read_text(path, max_bytes=_MOST_BYTES, what="a file of schedules"), path).value
    except ManifestError as error:
        raise ValueError(str(error)) from None
