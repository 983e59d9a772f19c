"""Which nights of which schedules were started."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import Connection, insert, select
from sqlalchemy.dialects.postgresql import insert as upsert

from workers.provenance.scoring_models import schedule_nights, schedules, scorings


def first_seen(connection: Connection, name: str, *, at: dt.datetime) -> dt.datetime:
    """When a schedule was first seen, which may be now."""
    connection.execute(upsert(schedules).values(name=name, first_seen_at=at).on_conflict_do_nothing())
    seen: dt.datetime = connection.execute(
        select(schedules.c.first_seen_at).where(schedules.c.name == name)
    ).scalar_one()
    return seen


def is_started(connection: Connection, name: str, night: str) -> bool:
    """Whether a night was started."""
    found = connection.scalar(
        select(schedule_nights.c.night).where(
            schedule_nights.c.schedule == name, schedule_nights.c.night == night
        )
    )
    return found is not None


def hold(connection: Connection, name: str) -> None:
    """Let one at a time decide about a schedule, until the transaction ends."""
    connection.execute(select(schedules.c.name).where(schedules.c.name == name).with_for_update())


def note(connection: Connection, name: str, night: str, *, scoring_id: str) -> None:
    """Write that a night was started, in the transaction that makes its scoring."""
    connection.execute(insert(schedule_nights).values(schedule=name, night=night, scoring_id=scoring_id))


def before(connection: Connection, name: str, night: str) -> dt.datetime | None:
    """When the newest started night before this one was started."""
    return connection.scalar(
        select(scorings.c.created_at)
        .join(schedule_nights, schedule_nights.c.scoring_id == scorings.c.scoring_id)
        .where(schedule_nights.c.schedule == name, schedule_nights.c.night < night)
        .order_by(schedule_nights.c.night.desc())
        .limit(1)
    )
