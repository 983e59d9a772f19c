"""Changes of a batch's state: pause, resume, cancel with the sweep behind it, and its end.

Each is one change of one row, whatever the batch's size; whoever claims, sends or asks a model looks at that row."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Row, exists, func, select, text, update

from workers.core.batch import BatchState, PauseCause, batch_sources_of
from workers.core.budget import Budget, plain
from workers.core.run import RunState
from workers.core.webhook import WebhookEvent
from workers.errors import NotFoundError, StateError
from workers.provenance import ledger
from workers.provenance.models import batches, runs
from workers.provenance.repository import budgets, call_records, calls, stages
from workers.provenance.repository.deliveries import note_batch_event, note_run_events


def pause(connection: Connection, batch_id: str, *, tenant_id: str) -> None:
    """No further run is sent; those under way go on to their end. Pausing a paused batch changes nothing.

    Raises: NotFoundError; StateError for a batch that has ended.
    """
    row = _locked(connection, batch_id, tenant_id)
    if row.state == BatchState.PAUSED:
        return
    _change(connection, row, BatchState.PAUSED, pause_cause=PauseCause.USER)
    note_batch_event(connection, batch_id, WebhookEvent.BATCH_PAUSED)


def resume(connection: Connection, batch_id: str, *, tenant_id: str, budget: Budget | None = None) -> None:
    """Go on, with a larger budget where `budget` names one. Resuming a batch that runs changes no more than that.

    Raises: NotFoundError; StateError for a batch that has ended, for a budget that is not larger, and for a batch
    whose budget is used up if none is given.
    """
    row = _locked(connection, batch_id, tenant_id)
    larger = _larger(row, budget or Budget())
    if row.state == BatchState.PAUSED and row.pause_cause == PauseCause.BUDGET and not larger:
        had = Budget(usd=row.budget_usd, tokens=row.budget_tokens)
        raise StateError(
            f"batch {batch_id} has used up its budget of {_shown(had)}; resume it with a larger one"
        )
    if row.state == BatchState.RUNNING:
        if larger:
            connection.execute(update(batches).where(batches.c.batch_id == batch_id).values(**larger))
        return
    _change(connection, row, BatchState.RUNNING, pause_cause=None, **larger)
    stages.resume_held(connection, batch_id)


def _larger(row: Row[Any], budget: Budget) -> dict[str, Any]:
    """The columns that a larger budget changes. Raises: StateError for one that is not larger than before, and for a
    batch that never had one: what its ended runs have used was not kept."""
    changed: dict[str, Any] = {}
    had_budget = Budget(usd=row.budget_usd, tokens=row.budget_tokens).is_set
    if budget.is_set and not had_budget:
        raise StateError(f"batch {row.batch_id} was submitted without a budget; resume it without one")
    for name, before, asked, unit in (
        ("budget_usd", row.budget_usd, budget.usd, "USD"),
        ("budget_tokens", row.budget_tokens, budget.tokens, "tokens"),
    ):
        if asked is None:
            continue
        if before is not None and asked <= before:
            had, wanted = (_number(before), _number(asked))
            raise StateError(
                f"{name} is {wanted}, but the batch has {had} {unit} already; give more than that"
            )
        changed[name] = asked
    return changed


def _number(value: Decimal | int) -> str:
    return plain(value) if isinstance(value, Decimal) else f"{value:,}"


def _shown(budget: Budget) -> str:
    parts = [] if budget.usd is None else [f"{plain(budget.usd)} USD"]
    parts += [] if budget.tokens is None else [f"{budget.tokens:,} tokens"]
    return " and ".join(parts)


def exhaust(connection: Connection, batch_id: str, budget: Budget) -> bool:
    """A call found this budget used up: the batch waits for a larger one. False if it has got one meanwhile, so that
    the call should be tried again."""
    row = connection.execute(_lock(batch_id)).one()
    if Budget(usd=row.budget_usd, tokens=row.budget_tokens) != budget:
        return False
    if row.state in {BatchState.RUNNING, BatchState.PAUSED} and row.pause_cause != PauseCause.BUDGET:
        connection.execute(
            update(batches)
            .where(batches.c.batch_id == batch_id)
            .values(state=BatchState.PAUSED, pause_cause=PauseCause.BUDGET)
        )
        note_batch_event(connection, batch_id, WebhookEvent.BATCH_PAUSED)
    return True


def cancel(connection: Connection, batch_id: str, *, tenant_id: str) -> bool:
    """Nothing more of it is sent, claimed or asked from the moment this is committed, and heartbeats break off what is
    in flight. Its runs' rows follow by `sweep`. Whether this call did it: an ended batch stays as it ended.

    Raises: NotFoundError.
    """
    row = _locked(connection, batch_id, tenant_id)
    if BatchState(row.state) not in batch_sources_of(BatchState.CANCELLED):
        return False
    _change(connection, row, BatchState.CANCELLED, pause_cause=None)
    note_batch_event(connection, batch_id, WebhookEvent.BATCH_CANCELLED)
    return True


def _locked(connection: Connection, batch_id: str, tenant_id: str) -> Row[Any]:
    # PostgreSQL does not even compare a text that holds NUL.
    known = None if "\x00" in batch_id else connection.execute(_lock(batch_id)).one_or_none()
    if known is None or known.tenant_id != tenant_id:
        raise NotFoundError(f"there is no batch {batch_id[:80]!r}")
    return known


def _lock(batch_id: str) -> Any:
    # Not the whole row: a run's reference to its batch need not wait.
    return select(batches).where(batches.c.batch_id == batch_id).with_for_update(key_share=True)


_DONE_TO = {BatchState.PAUSED: "paused", BatchState.RUNNING: "resumed", BatchState.CANCELLED: "cancelled"}


def _change(connection: Connection, row: Row[Any], target: BatchState, **values: Any) -> None:
    if BatchState(row.state) not in batch_sources_of(target):
        raise StateError(
            f"batch {row.batch_id} is {row.state}; only one that is not over can be {_DONE_TO[target]}"
        )
    connection.execute(
        update(batches).where(batches.c.batch_id == row.batch_id).values(state=target, **values)
    )


def finish_ended(connection: Connection, batch_id: str | None = None) -> list[str]:
    """Close every batch (or this one) of which nothing is left to be done; those that this call closed.

    Whoever comes second waits for the row and finds it closed.
    """
    left = exists().where(
        runs.c.batch_id == batches.c.batch_id, runs.c.state.in_([RunState.QUEUED, RunState.RUNNING])
    )
    statement = (
        update(batches)
        .where(
            text("finished_at IS NULL"),
            batches.c.state.in_(batch_sources_of(BatchState.FINISHED)),
            ~left,
        )
        .values(state=BatchState.FINISHED, pause_cause=None, finished_at=func.now())
        .returning(batches.c.batch_id)
    )
    if batch_id is not None:
        statement = statement.where(batches.c.batch_id == batch_id)
    ended = [row.batch_id for row in connection.execute(statement)]
    for each in ended:
        note_batch_event(connection, each, WebhookEvent.BATCH_FINISHED)
    return ended


def unswept(connection: Connection) -> list[str]:
    """Cancelled batches that still have open runs: a sweep is under way, or died."""
    rows = connection.execute(
        select(batches.c.batch_id).where(text("finished_at IS NULL"), batches.c.state == BatchState.CANCELLED)
    )
    return [row.batch_id for row in rows]


_ENDING = text(
    """
    SELECT run_id, ledger_seq AS seq, ledger_head AS head FROM runs
    WHERE batch_id = :batch_id AND state = :state
        AND EXISTS (SELECT FROM batches WHERE batches.batch_id = :batch_id AND batches.state = 'cancelled')
    LIMIT :most
    FOR UPDATE SKIP LOCKED
    """
)

_CANCEL_RUNS = text("UPDATE runs SET state = 'cancelled', finished_at = now() WHERE run_id = ANY(:run_ids)")

_CANCEL_SEATS = text(
    """
    UPDATE stages SET state = 'cancelled', finished_at = now()
    WHERE run_id = ANY(:run_ids) AND state IN ('pending', 'running')
    """
)


_IS_ALONE = text("SELECT pg_try_advisory_xact_lock(hashtextextended('sweep ' || :batch_id, 0))")


def sweep(connection: Connection, batch_id: str, *, at: dt.datetime, most: int) -> int:
    """End up to `most` open runs of a cancelled batch, those that were started first; how many. None of any other, nor
    while another sweep of it is at work, which goes on to the end.

    Runs that somebody holds just now are passed over until the next chunk. When none is left the batch is closed.
    """
    if not connection.scalar(_IS_ALONE, {"batch_id": batch_id}):
        return 0
    budgets.hold_batch(connection, batch_id)
    ending: Sequence[Row[Any]] = ()
    for state in (RunState.RUNNING, RunState.QUEUED):
        ending = connection.execute(_ENDING, {"batch_id": batch_id, "state": state, "most": most}).all()
        if ending:
            break
    run_ids = [row.run_id for row in ending]
    if run_ids:
        connection.execute(_CANCEL_RUNS, {"run_ids": run_ids})
        connection.execute(_CANCEL_SEATS, {"run_ids": run_ids})
        calls.orphan_runs(connection, run_ids)
        budgets.charge_batch(connection, run_ids)
        sealed = call_records.of_runs(connection, run_ids)
        ledger.append_to_many(
            connection,
            [(row.run_id, row.seq, row.head) for row in ending],
            {run_id: _ending(sealed.get(run_id)) for run_id in run_ids},
            at=at,
        )
        note_run_events(connection, run_ids, WebhookEvent.RUN_CANCELLED)
    else:
        _close_swept(connection, batch_id)
    return len(run_ids)


def _ending(calls_made: list[dict[str, Any]] | None) -> list[tuple[str, dict[str, Any]]]:
    """The last events of a cancelled run."""
    sealed = [(call_records.SEALED, {"calls": calls_made})] if calls_made else []
    return [*sealed, ("run.cancelled", {})]


def _close_swept(connection: Connection, batch_id: str) -> None:
    left = exists().where(
        runs.c.batch_id == batches.c.batch_id, runs.c.state.in_([RunState.QUEUED, RunState.RUNNING])
    )
    connection.execute(
        update(batches)
        .where(
            batches.c.batch_id == batch_id,
            batches.c.state == BatchState.CANCELLED,
            batches.c.finished_at.is_(None),
            ~left,
        )
        .values(finished_at=func.now())
    )
