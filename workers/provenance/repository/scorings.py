"""Queries about scorings."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert

from workers.core.scoring import OPEN_PARTS, OPEN_STATES, PartKey, PartState, ScoringStage, ScoringState
from workers.errors import IdempotencyConflictError, NotFoundError
from workers.provenance.digest import canonical, digest
from workers.provenance.models import DEFAULT_TENANT, tenants
from workers.provenance.scoring_models import scoring_parts, scorings


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewScoring:
    """What is asked for, checked. settings: profile, donors (k), draws and seed. folder: read by a worker, instead
    of a manifest. unopened: (path, error) of what the client could not open, for the report."""

    scoring_id: str
    settings: Mapping[str, Any]
    manifest_digest: str | None = None
    folder: str | None = None
    labels_digest: str | None = None
    labels_name: str | None = None
    format_name: str | None = None
    unopened: Sequence[tuple[str, str]] = ()
    schedule: str | None = None
    night: str | None = None
    tenant_id: str = DEFAULT_TENANT
    idempotency_key: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """A scoring's row, without its long texts."""

    scoring_id: str
    tenant_id: str
    state: ScoringState
    stage: ScoringStage
    folder: str | None
    manifest_digest: str | None
    labels_digest: str | None
    labels_name: str | None
    format_name: str | None
    profile: str
    settings: Mapping[str, Any]
    schedule: str | None
    night: str | None
    previous_id: str | None
    file_count: int
    run_count: int
    problem_count: int
    reused_count: int
    computed_count: int
    stale_count: int
    skipped_count: int
    scoring_version: str | None
    error: str | None
    created_at: dt.datetime
    started_at: dt.datetime | None
    finished_at: dt.datetime | None

    @property
    def has_ended(self) -> bool:
        return self.state not in OPEN_STATES


_FIELDS = [field.name for field in dataclasses.fields(Scoring)]
_COLUMNS = [scorings.c[name] for name in _FIELDS]


def create(connection: Connection, new: NewScoring) -> tuple[Scoring, bool]:
    """Write a queued scoring and its first part; (scoring, whether it is new).

    Raises: IdempotencyConflictError for the same key with another request."""
    connection.execute(
        upsert(tenants).values(tenant_id=new.tenant_id, name=new.tenant_id).on_conflict_do_nothing()
    )
    asked = {
        "settings": dict(new.settings),
        "manifest": new.manifest_digest,
        "folder": new.folder,
        "labels": [new.labels_name, new.labels_digest],
        "format": new.format_name,
        "unopened": [list(item) for item in new.unopened],
    }
    request_digest = digest(canonical(asked))
    row = connection.execute(
        upsert(scorings)
        .values(
            scoring_id=new.scoring_id,
            tenant_id=new.tenant_id,
            state=ScoringState.QUEUED,
            stage=ScoringStage.PLAN,
            folder=new.folder,
            manifest_digest=new.manifest_digest,
            labels_digest=new.labels_digest,
            labels_name=new.labels_name,
            format_name=new.format_name,
            profile=new.settings["profile"],
            settings=dict(new.settings),
            unopened=json.dumps([list(item) for item in new.unopened]),
            schedule=new.schedule,
            night=new.night,
            idempotency_key=new.idempotency_key,
            request_digest=request_digest,
        )
        .on_conflict_do_nothing(index_elements=["tenant_id", "idempotency_key"])
        .returning(scorings.c.scoring_id)
    ).one_or_none()
    if row is None:
        return _same_request(connection, new, request_digest), False
    connection.execute(
        insert(scoring_parts).values(
            scoring_id=new.scoring_id, stage=ScoringStage.PLAN, number=0, state=PartState.PENDING
        )
    )
    return get(connection, new.scoring_id, tenant_id=new.tenant_id), True


def first_part(scoring_id: str) -> PartKey:
    """What is sent for a new scoring."""
    return PartKey(scoring_id=scoring_id, stage=ScoringStage.PLAN, number=0)


def _same_request(connection: Connection, new: NewScoring, request_digest: str) -> Scoring:
    row = connection.execute(
        select(*_COLUMNS, scorings.c.request_digest).where(
            scorings.c.tenant_id == new.tenant_id, scorings.c.idempotency_key == new.idempotency_key
        )
    ).one()
    if row.request_digest != request_digest:
        raise IdempotencyConflictError(
            f"Idempotency-Key {new.idempotency_key!r} was used for scoring {row.scoring_id} with another body; "
            "send the same body again or use a new key"
        )
    return _scoring(row)


def get(connection: Connection, scoring_id: str, *, tenant_id: str = DEFAULT_TENANT) -> Scoring:
    """Raises: NotFoundError."""
    row = (
        None
        if "\x00" in scoring_id
        else connection.execute(
            select(*_COLUMNS).where(scorings.c.scoring_id == scoring_id, scorings.c.tenant_id == tenant_id)
        ).one_or_none()
    )
    if row is None:
        raise NotFoundError(f"there is no scoring {scoring_id[:80]!r}")
    return _scoring(row)


def of_worker(connection: Connection, scoring_id: str) -> Scoring:
    """As `get`, whosever it is: a message names no tenant. Raises: NotFoundError."""
    row = connection.execute(select(*_COLUMNS).where(scorings.c.scoring_id == scoring_id)).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no scoring {scoring_id[:80]!r}")
    return _scoring(row)


def page(
    connection: Connection,
    *,
    tenant_id: str = DEFAULT_TENANT,
    before: str | None = None,
    limit: int = 50,
    state: ScoringState | None = None,
    schedule: str | None = None,
) -> list[Scoring]:
    """Scorings, newest first."""
    query = select(*_COLUMNS).where(scorings.c.tenant_id == tenant_id)
    if before is not None:
        query = query.where(scorings.c.scoring_id < before)
    if state is not None:
        query = query.where(scorings.c.state == state)
    if schedule is not None:
        query = query.where(scorings.c.schedule == schedule)
    rows = connection.execute(query.order_by(scorings.c.scoring_id.desc()).limit(limit))
    return [_scoring(row) for row in rows]


def schedule_names(connection: Connection, *, tenant_id: str) -> list[str]:
    """The schedules that have made scorings, by name."""
    names = connection.scalars(
        select(scorings.c.schedule)
        .where(scorings.c.tenant_id == tenant_id, scorings.c.schedule.is_not(None))
        .distinct()
    )
    return sorted(name for name in names if name is not None)


def nights(
    connection: Connection, *, tenant_id: str, schedule: str | None = None, limit: int = 60
) -> list[tuple[Scoring, dict[str, Any]]]:
    """Scorings that a schedule made, the newest night first, each with its texts as from `texts`."""
    query = select(*_COLUMNS, scorings.c.summary, scorings.c.comparison).where(
        scorings.c.tenant_id == tenant_id, scorings.c.schedule.is_not(None), scorings.c.night.is_not(None)
    )
    if schedule is not None:
        query = query.where(scorings.c.schedule == schedule)
    rows = connection.execute(
        query.order_by(scorings.c.night.desc(), scorings.c.schedule, scorings.c.scoring_id.desc()).limit(
            limit
        )
    )
    return [
        (
            _scoring(row),
            {
                name: None if getattr(row, name) is None else json.loads(getattr(row, name))
                for name in ("summary", "comparison")
            },
        )
        for row in rows
    ]


def newest_finished(connection: Connection, *, tenant_id: str = DEFAULT_TENANT) -> Scoring | None:
    """The newest scoring that has a report."""
    found = page(connection, tenant_id=tenant_id, limit=1, state=ScoringState.FINISHED)
    return found[0] if found else None


def night_before(connection: Connection, scoring: Scoring) -> str | None:
    """The newest finished scoring of the same schedule from an earlier night."""
    if scoring.schedule is None or scoring.night is None:
        return None
    return connection.scalar(
        select(scorings.c.scoring_id)
        .where(
            scorings.c.tenant_id == scoring.tenant_id,
            scorings.c.schedule == scoring.schedule,
            scorings.c.night < scoring.night,
            scorings.c.state == ScoringState.FINISHED,
        )
        .order_by(scorings.c.night.desc(), scorings.c.scoring_id.desc())
        .limit(1)
    )


def texts(connection: Connection, scoring_id: str) -> dict[str, Any]:
    """The decoded `unopened`, `summary` and `comparison` of a scoring; None where there is none yet."""
    row = connection.execute(
        select(scorings.c.unopened, scorings.c.summary, scorings.c.comparison).where(
            scorings.c.scoring_id == scoring_id
        )
    ).one()
    return {name: None if text is None else json.loads(text) for name, text in row._mapping.items()}


def change(connection: Connection, scoring_id: str, **values: Any) -> None:
    """Set columns of an open scoring."""
    connection.execute(
        update(scorings)
        .where(scorings.c.scoring_id == scoring_id, scorings.c.state.in_(OPEN_STATES))
        .values(**values)
    )


def lock(connection: Connection, scoring_id: str) -> Scoring | None:
    """The scoring, held until the transaction ends; None if it has ended or never was."""
    row = connection.execute(
        select(*_COLUMNS)
        .where(scorings.c.scoring_id == scoring_id, scorings.c.state.in_(OPEN_STATES))
        .with_for_update()
    ).one_or_none()
    return None if row is None else _scoring(row)


def end(connection: Connection, scoring_id: str, *, state: ScoringState, error: str | None = None) -> bool:
    """Close a scoring with all its open parts. False if it had ended."""
    row = connection.execute(
        update(scorings)
        .where(scorings.c.scoring_id == scoring_id, scorings.c.state.in_(OPEN_STATES))
        .values(state=state, error=error, finished_at=func.now())
        .returning(scorings.c.scoring_id)
    ).one_or_none()
    if row is None:
        return False
    connection.execute(
        update(scoring_parts)
        .where(scoring_parts.c.scoring_id == scoring_id, scoring_parts.c.state.in_(OPEN_PARTS))
        .values(state=PartState.CANCELLED, finished_at=func.now(), lease_expires_at=None)
    )
    return True


def cancel(connection: Connection, scoring_id: str, *, tenant_id: str) -> Scoring:
    """End a scoring as cancelled; one that has ended stays as it ended. Raises: NotFoundError."""
    get(connection, scoring_id, tenant_id=tenant_id)
    end(connection, scoring_id, state=ScoringState.CANCELLED)
    return get(connection, scoring_id, tenant_id=tenant_id)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class StageProgress:
    """How many parts of a stage there are in each state, and how many runs or files they hold."""

    stage: ScoringStage
    parts: Mapping[str, int]
    total: int
    done: int


def progress(connection: Connection, scoring_id: str) -> list[StageProgress]:
    """The stages that were reached, in order."""
    part = scoring_parts.c
    rows = connection.execute(
        select(part.stage, part.state, func.count(), func.sum(part.run_count))
        .where(part.scoring_id == scoring_id)
        .group_by(part.stage, part.state)
    ).all()
    found = []
    for stage in ScoringStage:
        of = [row for row in rows if row[0] == stage]
        if of:
            runs: Counter[str] = Counter({row[1]: int(row[3] or 0) for row in of})
            total = sum(runs.values())
            unfinished = runs[PartState.PENDING] + runs[PartState.RUNNING]
            found.append(
                StageProgress(
                    stage=stage,
                    parts={row[1]: int(row[2]) for row in of},
                    total=total,
                    done=total - unfinished,
                )
            )
    return found


def _scoring(row: Any) -> Scoring:
    values = {name: getattr(row, name) for name in _FIELDS}
    values["state"] = ScoringState(row.state)
    values["stage"] = ScoringStage(row.stage)
    return Scoring(**values)
