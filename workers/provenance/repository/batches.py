"""Queries about batches: create, find, list, and how far one has come."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, and_, func, or_, select
from sqlalchemy.dialects.postgresql import insert

from workers.core.batch import RATE_SECONDS, BatchState, PauseCause, Progress
from workers.core.budget import Budget
from workers.core.run import Outcome, RunState, SeatState
from workers.errors import IdempotencyConflictError, NotFoundError
from workers.provenance import payload
from workers.provenance.models import DEFAULT_TENANT, batches, calls, runs, stages, tenants
from workers.provenance.repository import bulk_runs
from workers.provenance.repository.bulk_runs import PreparedRun

#: Skipped lines that are kept with the batch; beyond that they are only counted.
MAX_SKIPPED_KEPT = 1000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewBatch:
    """A checked submission. `skipped` are its first bad lines, `teams` every team that its runs name."""

    batch_id: str
    request_digest: str
    run_count: int = 0
    teams: Sequence[Mapping[str, Any]] = ()
    duplicate_count: int = 0
    skipped_count: int = 0
    skipped: Sequence[Mapping[str, Any]] = ()
    name: str | None = None
    priority: int = 0
    concurrency: int | None = None
    budget: Budget = dataclasses.field(default_factory=Budget)
    webhook_url: str | None = None
    tenant_id: str = DEFAULT_TENANT
    idempotency_key: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch's row."""

    batch_id: str
    tenant_id: str
    name: str | None
    state: BatchState
    pause_cause: PauseCause | None
    priority: int
    concurrency: int | None
    budget_usd: Decimal | None
    budget_tokens: int | None
    run_count: int
    duplicate_count: int
    skipped_count: int
    webhook_url: str | None
    created_at: dt.datetime
    started_at: dt.datetime | None
    finished_at: dt.datetime | None

    @property
    def budget(self) -> Budget:
        return Budget(usd=self.budget_usd, tokens=self.budget_tokens)


_COLUMNS = [batches.c[field.name] for field in dataclasses.fields(Batch)]


def create(
    connection: Connection, new: NewBatch, prepared: Iterable[PreparedRun], *, at: dt.datetime
) -> tuple[Batch, bool]:
    """Write a batch with all its runs; (batch, whether it is new).

    `prepared` is read once and never held whole. The same idempotency key with the same request gives the batch that
    is already there, and nothing is read. Raises: IdempotencyConflictError for the same key with another request.
    """
    connection.execute(
        insert(tenants).values(tenant_id=new.tenant_id, name=new.tenant_id).on_conflict_do_nothing()
    )
    row = connection.execute(
        insert(batches)
        .values(
            batch_id=new.batch_id,
            tenant_id=new.tenant_id,
            name=new.name,
            state=BatchState.RUNNING,
            priority=new.priority,
            concurrency=new.concurrency,
            budget_usd=new.budget.usd,
            budget_tokens=new.budget.tokens,
            run_count=new.run_count,
            duplicate_count=new.duplicate_count,
            skipped_count=new.skipped_count,
            skipped=[dict(line) for line in new.skipped[:MAX_SKIPPED_KEPT]],
            webhook_url=new.webhook_url,
            idempotency_key=new.idempotency_key,
            request_digest=new.request_digest,
        )
        .on_conflict_do_nothing(index_elements=["tenant_id", "idempotency_key"])
        .returning(*_COLUMNS)
    ).one_or_none()
    if row is None:
        return _same_request(_row_of_key(connection, new.tenant_id, new.idempotency_key).one(), new), False
    payload.store_all(connection, [dict(team) for team in new.teams])
    bulk_runs.insert_all(connection, prepared, batch_id=new.batch_id, tenant_id=new.tenant_id, at=at)
    return _batch(row), True


def find_repeat(connection: Connection, new: NewBatch) -> Batch | None:
    """The batch that this request made before, if it did; only the key and the digest of `new` are looked at.

    Raises: IdempotencyConflictError for the same key with another request.
    """
    if new.idempotency_key is None:
        return None
    row = _row_of_key(connection, new.tenant_id, new.idempotency_key).one_or_none()
    return None if row is None else _same_request(row, new)


def _row_of_key(connection: Connection, tenant_id: str, key: str | None) -> Any:
    return connection.execute(
        select(*_COLUMNS, batches.c.request_digest).where(
            batches.c.tenant_id == tenant_id, batches.c.idempotency_key == key
        )
    )


def _same_request(row: Any, new: NewBatch) -> Batch:
    if row.request_digest != new.request_digest:
        raise IdempotencyConflictError(
            f"Idempotency-Key {new.idempotency_key!r} was used for batch {row.batch_id} with other lines or options; "
            "send the same ones again or use a new key"
        )
    return _batch(row)


def get(connection: Connection, batch_id: str, *, tenant_id: str = DEFAULT_TENANT) -> Batch:
    """The batch. Raises: NotFoundError."""
    # PostgreSQL does not even compare a text that holds NUL.
    row = (
        None
        if "\x00" in batch_id
        else connection.execute(
            select(*_COLUMNS).where(batches.c.batch_id == batch_id, batches.c.tenant_id == tenant_id)
        ).one_or_none()
    )
    if row is None:
        raise NotFoundError(f"there is no batch {batch_id[:80]!r}")
    return _batch(row)


def skipped_lines(connection: Connection, batch_id: str) -> list[dict[str, Any]]:
    """The first lines that were left out, [{"line": 7, "problem": "…"}]."""
    found = connection.execute(
        select(batches.c.skipped).where(batches.c.batch_id == batch_id)
    ).scalar_one_or_none()
    return list(found or ())


def page(
    connection: Connection,
    *,
    tenant_id: str = DEFAULT_TENANT,
    before: str | None = None,
    limit: int = 50,
    state: BatchState | None = None,
) -> list[Batch]:
    """Batches, newest first, older than `before` (ids sort by time of creation)."""
    query = select(*_COLUMNS).where(batches.c.tenant_id == tenant_id)
    if before is not None:
        query = query.where(batches.c.batch_id < before)
    if state is not None:
        query = query.where(batches.c.state == state)
    rows = connection.execute(query.order_by(batches.c.batch_id.desc()).limit(limit))
    return [_batch(row) for row in rows]


_WAITS = and_(runs.c.state == RunState.QUEUED, runs.c.dispatched_at.is_(None))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """`progress` and how many of the finished runs ended in the last `core.batch.RATE_SECONDS`; `at` is the
    database's time."""

    progress: Progress
    finished_lately: int
    at: dt.datetime


def progress(connection: Connection, batch_id: str) -> Count:
    """Where the batch's runs are, counted now."""
    ended = runs.c.state == RunState.FINISHED
    lately = runs.c.finished_at > func.now() - dt.timedelta(seconds=RATE_SECONDS)
    row = connection.execute(
        select(
            func.count().filter(_WAITS).label("waiting"),
            func.count()
            .filter(
                or_(
                    runs.c.state == RunState.RUNNING,
                    and_(runs.c.state == RunState.QUEUED, runs.c.dispatched_at.is_not(None)),
                )
            )
            .label("running"),
            *(func.count().filter(ended, runs.c.outcome == outcome).label(outcome) for outcome in Outcome),
            func.count().filter(runs.c.state == RunState.CANCELLED).label("cancelled"),
            func.count().filter(ended, lately).label("finished_lately"),
            func.now().label("at"),
        ).where(runs.c.batch_id == batch_id)
    ).one()
    return Count(
        progress=Progress(
            waiting=row.waiting,
            running=row.running,
            accepted=row.accepted,
            rejected=row.rejected,
            degraded=row.degraded,
            cancelled=row.cancelled,
        ),
        finished_lately=row.finished_lately,
        at=row.at,
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """What a batch's calls have used. `cost_usd` leaves out calls without a price, and is None where none has one."""

    calls: int
    unpriced_calls: int
    input_tokens: int
    output_tokens: int
    has_estimates: bool
    cost_usd: Decimal | None


def spending(connection: Connection, batch_id: str) -> Spending:
    """The sum of the call rows of all its runs."""
    ended = calls.c.state != "sent"
    row = connection.execute(
        select(
            func.count().label("calls"),
            func.count().filter(ended, calls.c.cost_usd.is_(None)).label("unpriced_calls"),
            func.coalesce(func.sum(calls.c.input_tokens), 0).label("input_tokens"),
            func.coalesce(func.sum(calls.c.output_tokens), 0).label("output_tokens"),
            func.coalesce(func.bool_or(calls.c.usage_is_estimated), False).label("has_estimates"),
            func.sum(calls.c.cost_usd).label("cost_usd"),
        )
        .select_from(calls.join(runs, runs.c.run_id == calls.c.run_id))
        .where(runs.c.batch_id == batch_id)
    ).one()
    return Spending(**row._mapping)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """In how many degraded runs a seat of this stage gave up for this cause."""

    stage: str
    cause: str
    runs: int


def failures(connection: Connection, batch_id: str, *, limit: int = 20) -> list[Failure]:
    """What went wrong most often in the runs that ended degraded."""
    number = func.count(stages.c.run_id.distinct())
    rows = connection.execute(
        select(stages.c.stage, stages.c.cause, number.label("runs"))
        .select_from(stages.join(runs, runs.c.run_id == stages.c.run_id))
        .where(
            runs.c.batch_id == batch_id,
            runs.c.state == RunState.FINISHED,
            runs.c.outcome == Outcome.DEGRADED,
            stages.c.state.in_([SeatState.FAILED, SeatState.ABSTAINED]),
            stages.c.cause.is_not(None),
        )
        .group_by(stages.c.stage, stages.c.cause)
        .order_by(number.desc(), stages.c.stage, stages.c.cause)
        .limit(limit)
    )
    return [Failure(stage=row.stage, cause=row.cause, runs=row.runs) for row in rows]


def _batch(row: Any) -> Batch:
    values = {field.name: getattr(row, field.name) for field in dataclasses.fields(Batch)}
    values["state"] = BatchState(row.state)
    values["pause_cause"] = None if row.pause_cause is None else PauseCause(row.pause_cause)
    return Batch(**values)
