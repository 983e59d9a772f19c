"""Queries about runs."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, bindparam, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert

from workers.core.batch import BatchState
from workers.core.budget import Amount, Budget
from workers.core.run import Outcome, RunState, SeatState, sources_of
from workers.core.webhook import WebhookEvent
from workers.errors import IdempotencyConflictError, NotFoundError, StateError
from workers.provenance import ledger, payload
from workers.provenance.digest import GENESIS, canonical, digest
from workers.provenance.models import DEFAULT_TENANT, batches, payloads, runs, stages, tenants
from workers.provenance.repository import budgets, call_records, calls, deliveries
from workers.provenance.repository.usage import usd_number


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewRun:
    """What a client submits, checked."""

    run_id: str
    team: Mapping[str, Any]
    spec: str
    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    tests: Mapping[str, str] = dataclasses.field(default_factory=dict)
    #: What goes with code that is to be judged as it is (`core.submission.Existing`), None where a coder writes.
    review: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    external_id: str | None = None
    priority: int = 0
    tenant_id: str = DEFAULT_TENANT
    idempotency_key: str | None = None
    #: What is told of its end.
    webhook_url: str | None = None
    budget: Budget = dataclasses.field(default_factory=Budget)
    #: Kept from everyone but the lead.
    lead_share: Amount = dataclasses.field(default_factory=Amount)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run's row."""

    run_id: str
    tenant_id: str
    batch_id: str | None
    position: int | None  # its line in the batch, from 1
    external_id: str | None
    team: str
    team_digest: str
    input_digest: str
    state: RunState
    outcome: Outcome | None
    round: int
    priority: int
    is_simulated: bool
    budget_usd: Decimal | None
    budget_tokens: int | None
    metadata: Mapping[str, Any]
    verdict_digest: str | None
    ledger_seq: int
    ledger_head: str
    created_at: dt.datetime
    started_at: dt.datetime | None
    finished_at: dt.datetime | None
    #: Since when the bodies that no other run needs are gone.
    pruned_at: dt.datetime | None

    @property
    def has_ended(self) -> bool:
        return self.state in {RunState.FINISHED, RunState.CANCELLED}


_COLUMNS = [runs.c[field.name] for field in dataclasses.fields(Run)]


def material_of(new: NewRun) -> dict[str, Any]:
    """What a run is about, as it is kept under its input digest."""
    material: dict[str, Any] = {"spec": new.spec, "files": dict(new.files), "tests": dict(new.tests)}
    return material if new.review is None else {**material, "review": dict(new.review)}


def request_digest_of(new: NewRun, input_digest: str) -> str:
    """Two requests with the same digest ask for the same run."""
    asked = [
        new.team["name"],
        input_digest,
        new.external_id,
        new.priority,
        dict(new.metadata),
        _limits(new.budget),
    ]
    if new.webhook_url is not None:
        asked.append(new.webhook_url)
    return digest(canonical(asked))


def created_event(
    *, tenant_id: str, team: str, team_digest: str, input_digest: str, external_id: str | None, budget: Budget
) -> dict[str, Any]:
    """What the first entry of a run's ledger, `run.created`, says."""
    return {
        "tenant": tenant_id,
        "team": team,
        "team_digest": team_digest,
        "input_digest": input_digest,
        "external_id": external_id,
        **_limits(budget),
    }


def _limits(budget: Budget) -> dict[str, Any]:
    return {"budget_usd": usd_number(budget.usd), "budget_tokens": budget.tokens}


def create(connection: Connection, new: NewRun, *, at: dt.datetime) -> tuple[Run, bool]:
    """Write a queued run and the first event of its ledger; (run, whether it is new).

    The same idempotency key with the same request gives the run that is already there.
    Raises: IdempotencyConflictError for the same key with another request.
    """
    connection.execute(
        insert(tenants).values(tenant_id=new.tenant_id, name=new.tenant_id).on_conflict_do_nothing()
    )
    team_digest, input_digest = payload.store_all(connection, [dict(new.team), material_of(new)])
    request_digest = request_digest_of(new, input_digest)
    row = connection.execute(
        insert(runs)
        .values(
            run_id=new.run_id,
            tenant_id=new.tenant_id,
            external_id=new.external_id,
            team=new.team["name"],
            team_digest=team_digest,
            input_digest=input_digest,
            state=RunState.QUEUED,
            priority=new.priority,
            metadata=dict(new.metadata),
            idempotency_key=new.idempotency_key,
            request_digest=request_digest,
            webhook_url=new.webhook_url,
            budget_usd=new.budget.usd,
            budget_tokens=new.budget.tokens,
            lead_share_usd=new.lead_share.usd if new.budget.is_set else None,
            lead_share_tokens=new.lead_share.tokens if new.budget.is_set else 0,
            ledger_head=GENESIS,
            dispatched_at=func.now(),
        )
        .on_conflict_do_nothing(index_elements=["tenant_id", "idempotency_key"])
        .returning(runs.c.run_id)
    ).one_or_none()
    if row is None:
        return _same_request(connection, new, request_digest), False
    with ledger.writer(connection, new.run_id) as log:
        log.append(
            "run.created",
            created_event(
                tenant_id=new.tenant_id,
                team=new.team["name"],
                team_digest=team_digest,
                input_digest=input_digest,
                external_id=new.external_id,
                budget=new.budget,
            ),
            at=at,
        )
    return get(connection, new.run_id, tenant_id=new.tenant_id), True


def _same_request(connection: Connection, new: NewRun, request_digest: str) -> Run:
    row = connection.execute(
        select(*_COLUMNS, runs.c.request_digest).where(
            runs.c.tenant_id == new.tenant_id, runs.c.idempotency_key == new.idempotency_key
        )
    ).one()
    if row.request_digest != request_digest:
        raise IdempotencyConflictError(
            f"Idempotency-Key {new.idempotency_key!r} was used for run {row.run_id} with another body; "
            "send the same body again or use a new key"
        )
    return _run(row)


def get(connection: Connection, run_id: str, *, tenant_id: str = DEFAULT_TENANT) -> Run:
    """The run. Raises: NotFoundError."""
    # PostgreSQL does not even compare a text that holds NUL.
    row = (
        None
        if "\x00" in run_id
        else connection.execute(
            select(*_COLUMNS).where(runs.c.run_id == run_id, runs.c.tenant_id == tenant_id)
        ).one_or_none()
    )
    if row is None:
        raise NotFoundError(f"there is no run {run_id[:80]!r}")
    return _run(row)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a worker needs of a run before it starts: the team's digest, the submitted material, and whether
    somebody waits for this one run or it is one of many."""

    team_digest: str
    material: Mapping[str, Any]
    is_batch: bool


_ORDER = (
    select(runs.c.team_digest, runs.c.batch_id, payloads.c.body)
    .join(payloads, payloads.c.digest == runs.c.input_digest)
    .where(runs.c.run_id == bindparam("run_id"))
)


def order_of(connection: Connection, run_id: str) -> Order:
    """Raises: NotFoundError, also when the material was redacted."""
    row = connection.execute(_ORDER, {"run_id": run_id}).one_or_none()
    if row is None or row.body is None:
        raise NotFoundError(f"there is no run {run_id!r}, or its material was redacted")
    return Order(
        team_digest=row.team_digest,
        material=json.loads(row.body),
        is_batch=row.batch_id is not None,
    )


def page(
    connection: Connection,
    *,
    tenant_id: str = DEFAULT_TENANT,
    before: str | None = None,
    limit: int = 50,
    state: RunState | None = None,
    outcome: Outcome | None = None,
    team: str | None = None,
    batch_id: str | None = None,
) -> list[Run]:
    """Runs, newest first, older than `before` (ids sort by time of creation)."""
    query = select(*_COLUMNS).where(runs.c.tenant_id == tenant_id)
    if before is not None:
        query = query.where(runs.c.run_id < before)
    if state is not None:
        query = query.where(runs.c.state == state)
    if outcome is not None:
        query = query.where(runs.c.outcome == outcome)
    if team is not None:
        query = query.where(runs.c.team == team)
    if batch_id is not None:
        query = query.where(runs.c.batch_id == batch_id)
    rows = connection.execute(query.order_by(runs.c.run_id.desc()).limit(limit))
    return [_run(row) for row in rows]


def start(connection: Connection, run_id: str) -> None:
    connection.execute(
        update(runs)
        .where(runs.c.run_id == run_id, runs.c.state.in_(sources_of(RunState.RUNNING)))
        .values(state=RunState.RUNNING, started_at=func.now())
    )


def enter_round(connection: Connection, run_id: str, number: int) -> None:
    """The run goes into its next round; its caller holds the run's lock."""
    connection.execute(update(runs).where(runs.c.run_id == run_id).values(round=number))


def finish(connection: Connection, run_id: str, *, outcome: Outcome, verdict_digest: str) -> None:
    """Close a running run, and note it for its webhook. Raises: StateError if it is not running."""
    row = connection.execute(
        update(runs)
        .where(runs.c.run_id == run_id, runs.c.state.in_(sources_of(RunState.FINISHED)))
        .values(
            state=RunState.FINISHED, outcome=outcome, verdict_digest=verdict_digest, finished_at=func.now()
        )
        .returning(runs.c.run_id)
    ).one_or_none()
    if row is None:
        raise StateError(f"run {run_id} is not running, so it cannot finish")
    deliveries.note_run_event(connection, run_id, WebhookEvent.RUN_FINISHED)


def cancel(connection: Connection, run_id: str, *, tenant_id: str, at: dt.datetime) -> tuple[Run, bool]:
    """End the run as cancelled, with every seat that is still open; (run, whether this call did it).

    Work in flight learns of it from its process's heartbeat. A run that has ended stays as it ended.
    Raises: NotFoundError.
    """
    get(connection, run_id, tenant_id=tenant_id)
    with ledger.writer(connection, run_id) as log:
        if log.state not in sources_of(RunState.CANCELLED):
            return get(connection, run_id, tenant_id=tenant_id), False
        budgets.hold_batch(connection, log.batch_id)
        connection.execute(
            update(runs)
            .where(runs.c.run_id == run_id)
            .values(state=RunState.CANCELLED, finished_at=func.now())
        )
        connection.execute(
            update(stages)
            .where(stages.c.run_id == run_id, stages.c.state.in_([SeatState.PENDING, SeatState.RUNNING]))
            .values(state=SeatState.CANCELLED, finished_at=func.now())
        )
        # Those still in flight are broken off within seconds and say so themselves; the others never will.
        calls.orphan_run(connection, run_id)
        budgets.charge_batch(connection, [run_id])
        call_records.seal(connection, log, at=at)
        log.append("run.cancelled", {}, at=at)
        deliveries.note_run_event(connection, run_id, WebhookEvent.RUN_CANCELLED)
    return get(connection, run_id, tenant_id=tenant_id), True


def cancelled_among(connection: Connection, run_ids: list[str]) -> set[str]:
    """Those of the given runs that have been cancelled, themselves or with their batch."""
    if not run_ids:
        return set()
    rows = connection.execute(
        select(runs.c.run_id)
        .outerjoin(batches, batches.c.batch_id == runs.c.batch_id)
        .where(
            runs.c.run_id.in_(run_ids),
            or_(runs.c.state == RunState.CANCELLED, batches.c.state == BatchState.CANCELLED),
        )
    )
    return {row.run_id for row in rows}


def batch_of(connection: Connection, run_id: str) -> str | None:
    """The batch that the run belongs to, None for a run of its own (or none at all)."""
    return connection.scalar(select(runs.c.batch_id).where(runs.c.run_id == run_id))


def of_batches(connection: Connection, run_ids: Iterable[str]) -> set[str]:
    """Those of the given runs that belong to a batch."""
    rows = connection.execute(
        select(runs.c.run_id).where(runs.c.run_id.in_(sorted(run_ids)), runs.c.batch_id.is_not(None))
    )
    return {row.run_id for row in rows}


def _run(row: Any) -> Run:
    values = {field.name: getattr(row, field.name) for field in dataclasses.fields(Run)}
    values["state"] = RunState(row.state)
    values["outcome"] = None if row.outcome is None else Outcome(row.outcome)
    return Run(**values)
