"""What was read of trajectory files, so that no file is read twice."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, insert, select, tuple_
from sqlalchemy.dialects.postgresql import insert as upsert

from workers.provenance.scoring_models import reading_runs, readings

_MOST_AT_ONCE: Final = 5_000

Asked = Mapping[str, str | None]
"""What a reader asked for beside its file: path to digest, None where nothing was there."""
RunPlace = tuple[str, int]
"""A run: the reading's id and the run's position in it."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewReading:
    """A file that was read. unit_key: digest of its content, its path and the reader. contents: a JSON object for each
    run and each record that was skipped. packed: the runs by position."""

    reading_id: str
    unit_key: str
    asked: Asked
    contents: Sequence[Mapping[str, Any]]
    packed: Mapping[int, bytes]


def store(connection: Connection, reading: NewReading, *, tenant_id: str) -> None:
    """Keep a reading unless it is there."""
    row = connection.execute(
        upsert(readings)
        .values(
            tenant_id=tenant_id,
            reading_id=reading.reading_id,
            unit_key=reading.unit_key,
            asked=json.dumps(dict(reading.asked), sort_keys=True),
            contents=json.dumps(list(reading.contents)),
        )
        .on_conflict_do_nothing()
        .returning(readings.c.reading_id)
    ).one_or_none()
    rows = [
        {"tenant_id": tenant_id, "reading_id": reading.reading_id, "position": position, "packed": packed}
        for position, packed in reading.packed.items()
    ]
    if row is not None and rows:
        connection.execute(insert(reading_runs), rows)


def find(
    connection: Connection, unit_keys: Collection[str], *, tenant_id: str
) -> dict[str, list[tuple[str, Asked]]]:
    """By unit key the readings that there are, each with what must still be so for it to hold."""
    found: dict[str, list[tuple[str, Asked]]] = {}
    wanted = sorted(set(unit_keys))
    for start in range(0, len(wanted), _MOST_AT_ONCE):
        rows = connection.execute(
            select(readings.c.unit_key, readings.c.reading_id, readings.c.asked)
            .where(
                readings.c.tenant_id == tenant_id,
                readings.c.unit_key.in_(wanted[start : start + _MOST_AT_ONCE]),
            )
            .order_by(readings.c.reading_id)
        )
        for row in rows:
            found.setdefault(row.unit_key, []).append((row.reading_id, json.loads(row.asked)))
    return found


def contents(
    connection: Connection, reading_ids: Collection[str], *, tenant_id: str
) -> dict[str, list[dict[str, Any]]]:
    """What the readings hold, without the runs themselves."""
    found: dict[str, list[dict[str, Any]]] = {}
    wanted = sorted(set(reading_ids))
    for start in range(0, len(wanted), _MOST_AT_ONCE):
        rows = connection.execute(
            select(readings.c.reading_id, readings.c.contents).where(
                readings.c.tenant_id == tenant_id,
                readings.c.reading_id.in_(wanted[start : start + _MOST_AT_ONCE]),
            )
        )
        found |= {row.reading_id: json.loads(row.contents) for row in rows}
    return found


def packed(connection: Connection, places: Collection[RunPlace], *, tenant_id: str) -> dict[RunPlace, bytes]:
    """The runs at these places, as they were packed."""
    if not places:
        return {}
    rows = connection.execute(
        select(reading_runs.c.reading_id, reading_runs.c.position, reading_runs.c.packed).where(
            reading_runs.c.tenant_id == tenant_id,
            tuple_(reading_runs.c.reading_id, reading_runs.c.position).in_(list(places)),
        )
    )
    return {(row.reading_id, row.position): row.packed for row in rows}
