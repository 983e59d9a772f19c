"""When a night's scoring is due: pure arithmetic with clocks and time zones."""

from __future__ import annotations

import dataclasses
import datetime as dt
from zoneinfo import ZoneInfo

from workers.core.scoring import UPLOADED


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A scoring that is made every night. at: time of day in `timezone`. source: a folder that the scoring workers
    can read, or `uploaded` (all that was uploaded) or `uploaded-since` (since the night before). settings: profile,
    donors, draws and seed."""

    name: str
    at: dt.time
    timezone: str = "UTC"
    source: str = UPLOADED
    labels: str | None = None
    format_name: str | None = None
    profile: str = "paper"
    donors: int = 5
    draws: int = 4
    seed: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """A night of a schedule: its date where the schedule lives, and the moment it was due."""

    date: dt.date
    due_at: dt.datetime


def last_night(schedule: Schedule, now: dt.datetime) -> Night:
    """The newest night whose time has come. An hour that the clock skips is due as if it had not been, one that it
    repeats at its first pass."""
    zone = ZoneInfo(schedule.timezone)
    date = now.astimezone(zone).date()
    while (due_at := dt.datetime.combine(date, schedule.at, zone).astimezone(dt.UTC)) > now:
        date -= dt.timedelta(days=1)
    return Night(date=date, due_at=due_at)


def due(schedule: Schedule, now: dt.datetime, *, first_seen_at: dt.datetime) -> Night | None:
    """The night to start, if it has not been started: the newest one, however many were missed, and none from before
    the schedule was there."""
    night = last_night(schedule, now)
    return night if night.due_at >= first_seen_at else None
