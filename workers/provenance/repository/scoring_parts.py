"""The pieces of work of scorings: who holds them, how they ended, which were lost."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Sequence
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, and_, exists, func, insert, or_, select, tuple_, update

from workers.core.scoring import OPEN_PARTS, OPEN_STATES, PartKey, PartState, ScoringStage, ScoringState
from workers.provenance.digest import keepable
from workers.provenance.scoring_models import scoring_parts, scorings

_ROWS_AT_ONCE: Final = 1000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewPart:
    """A piece of work to open. work: numbers of files or runs; is_done if there is none left to do. donors: numbers
    of the runs that references are drawn from. label: the problem it is about."""

    number: int
    work: Sequence[int] = ()
    donors: Sequence[int] = ()
    is_done: bool = False
    label: str | None = None
    run_count: int = 0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A piece of work as its worker and reports see it."""

    key: PartKey
    state: PartState
    label: str | None
    work: tuple[int, ...]
    donors: tuple[int, ...]
    run_count: int
    computed_count: int
    detail: str | None


def _is(key: PartKey) -> ColumnElement[bool]:
    return and_(
        scoring_parts.c.scoring_id == key.scoring_id,
        scoring_parts.c.stage == key.stage,
        scoring_parts.c.number == key.number,
    )


def open_parts(
    connection: Connection, scoring_id: str, stage: ScoringStage, parts: Sequence[NewPart]
) -> None:
    """Write pending parts; those that are there stay as they are."""
    known = set(
        connection.scalars(
            select(scoring_parts.c.number).where(
                scoring_parts.c.scoring_id == scoring_id, scoring_parts.c.stage == stage
            )
        )
    )
    fresh = [
        {
            "scoring_id": scoring_id,
            "stage": stage,
            "number": part.number,
            "label": None if part.label is None else json.dumps(part.label),
            "work": list(part.work),
            "donors": list(part.donors),
            "run_count": part.run_count,
            "state": PartState.DONE if part.is_done else PartState.PENDING,
            "finished_at": func.now() if part.is_done else None,
        }
        for part in parts
        if part.number not in known
    ]
    for start in range(0, len(fresh), _ROWS_AT_ONCE):
        connection.execute(insert(scoring_parts).values(fresh[start : start + _ROWS_AT_ONCE]))


def claim(connection: Connection, key: PartKey, *, owner: str, lease_seconds: float) -> Part | None:
    """Take a part for `owner`; None when it has ended, is held by a live owner, or its scoring has ended."""
    row = connection.execute(
        update(scoring_parts)
        .where(
            _is(key),
            or_(
                scoring_parts.c.state == PartState.PENDING,
                and_(
                    scoring_parts.c.state == PartState.RUNNING,
                    scoring_parts.c.lease_expires_at < func.now(),
                ),
            ),
            exists().where(
                scorings.c.scoring_id == scoring_parts.c.scoring_id, scorings.c.state.in_(OPEN_STATES)
            ),
        )
        .values(
            state=PartState.RUNNING,
            owner=owner,
            lease_expires_at=func.now() + dt.timedelta(seconds=lease_seconds),
            started_at=func.now(),
        )
        .returning(scoring_parts)
    ).one_or_none()
    if row is None:
        return None
    connection.execute(
        update(scorings)
        .where(scorings.c.scoring_id == key.scoring_id, scorings.c.state == ScoringState.QUEUED)
        .values(state=ScoringState.RUNNING, started_at=func.now())
    )
    return _part(row)


def keep(connection: Connection, key: PartKey, *, owner: str, lease_seconds: float) -> bool:
    """Prolong the lease. False when the part is no longer the owner's: the scoring was cancelled, or the lease
    had run out and somebody else took it."""
    row = connection.execute(
        update(scoring_parts)
        .where(_is(key), scoring_parts.c.owner == owner, scoring_parts.c.state == PartState.RUNNING)
        .values(lease_expires_at=func.now() + dt.timedelta(seconds=lease_seconds))
        .returning(scoring_parts.c.number)
    ).one_or_none()
    return row is not None


def settle(
    connection: Connection,
    key: PartKey,
    *,
    owner: str,
    state: PartState,
    computed_count: int = 0,
    detail: str | None = None,
) -> bool:
    """Write a part's end. False when `owner` no longer holds it."""
    row = connection.execute(
        update(scoring_parts)
        .where(_is(key), scoring_parts.c.owner == owner, scoring_parts.c.state == PartState.RUNNING)
        .values(
            state=state,
            computed_count=computed_count,
            detail=None if detail is None else keepable(detail),
            finished_at=func.now(),
            lease_expires_at=None,
        )
        .returning(scoring_parts.c.number)
    ).one_or_none()
    return row is not None


def of_stage(connection: Connection, scoring_id: str, stage: ScoringStage) -> list[Part]:
    """The parts of a stage, in order."""
    rows = connection.execute(
        select(scoring_parts)
        .where(scoring_parts.c.scoring_id == scoring_id, scoring_parts.c.stage == stage)
        .order_by(scoring_parts.c.number)
    )
    return [_part(row) for row in rows]


def take_overdue(
    connection: Connection, *, pending_seconds: float, max_rescues: int, limit: int
) -> tuple[list[PartKey], list[PartKey]]:
    """(parts to send again, parts that were given up because their workers died too often).

    A running part is overdue when its lease has run out, a pending one when its message was sent longer ago."""
    part = scoring_parts.c
    age = func.now() - dt.timedelta(seconds=pending_seconds)
    rows = connection.execute(
        select(part.scoring_id, part.stage, part.number, part.state, part.rescues)
        .where(
            or_(
                and_(part.state == PartState.RUNNING, part.lease_expires_at < func.now()),
                and_(
                    part.state == PartState.PENDING,
                    part.enqueued_at < age,
                    # Later stages' parts are written before their time has come.
                    exists().where(scorings.c.scoring_id == part.scoring_id, scorings.c.stage == part.stage),
                ),
            )
        )
        .order_by(part.enqueued_at)
        .limit(limit)
        .with_for_update(skip_locked=True)
    ).all()
    again, lost = [], []
    for row in rows:
        key = PartKey(scoring_id=row.scoring_id, stage=ScoringStage(row.stage), number=row.number)
        rescues = row.rescues + int(row.state == PartState.RUNNING)
        if rescues > max_rescues:
            lost.append(key)
            values: dict[str, Any] = {
                "state": PartState.FAILED,
                "detail": f"the worker was lost {rescues} times while working on it",
                "finished_at": func.now(),
            }
        else:
            again.append(key)
            values = {"state": PartState.PENDING, "enqueued_at": func.now()}
        connection.execute(
            update(scoring_parts)
            .where(_is(key))
            .values(owner=None, lease_expires_at=None, rescues=rescues, **values)
        )
    return again, lost


def stalled(connection: Connection, *, idle_seconds: float, limit: int) -> list[str]:
    """Open scorings none of whose parts in the current stage is open, for some time: whoever should have gone on
    died."""
    part = scoring_parts.c
    is_open = exists().where(
        part.scoring_id == scorings.c.scoring_id, part.stage == scorings.c.stage, part.state.in_(OPEN_PARTS)
    )
    last_end = (
        select(func.coalesce(func.max(part.finished_at), scorings.c.created_at))
        .where(part.scoring_id == scorings.c.scoring_id)
        .correlate(scorings)
        .scalar_subquery()
    )
    rows = connection.scalars(
        select(scorings.c.scoring_id)
        .where(
            scorings.c.state.in_(OPEN_STATES),
            ~is_open,
            last_end < func.now() - dt.timedelta(seconds=idle_seconds),
        )
        .order_by(scorings.c.created_at)
        .limit(limit)
    )
    return list(rows)


def mark_sent(connection: Connection, keys: Sequence[PartKey]) -> None:
    """Their messages are about to be sent: from now on they count as under way."""
    if keys:
        part = scoring_parts.c
        connection.execute(
            update(scoring_parts)
            .where(
                tuple_(part.scoring_id, part.stage, part.number).in_(
                    [(key.scoring_id, key.stage.value, key.number) for key in keys]
                )
            )
            .values(enqueued_at=func.now())
        )


def _part(row: Any) -> Part:
    return Part(
        key=PartKey(scoring_id=row.scoring_id, stage=ScoringStage(row.stage), number=row.number),
        state=PartState(row.state),
        label=None if row.label is None else json.loads(row.label),
        work=tuple(row.work),
        donors=tuple(row.donors),
        run_count=row.run_count,
        computed_count=row.computed_count,
        detail=row.detail,
    )
