"""Batches as rows, with runs that wait for the dispatcher."""

from __future__ import annotations

from typing import Any

from sqlalchemy import insert, update
from sqlalchemy.dialects.postgresql import insert as upsert

from tests.integration.stored_runs import store_run
from workers.core.batch import BatchState
from workers.provenance.models import DEFAULT_TENANT, batches, runs, tenants
from workers.provenance.session import Database


def store_batch(
    database: Database, batch_id: str = "batch_1", *, count: int = 0, **columns: Any
) -> list[str]:
    """A running batch with `count` waiting runs; their ids, by line."""
    team = columns.pop("team", None)
    values = {
        "tenant_id": DEFAULT_TENANT,
        "state": BatchState.RUNNING,
        "run_count": count,
        "request_digest": "0" * 64,
        **columns,
    }
    with database.begin() as connection:
        connection.execute(
            upsert(tenants).values(tenant_id=DEFAULT_TENANT, name=DEFAULT_TENANT).on_conflict_do_nothing()
        )
        connection.execute(insert(batches).values(batch_id=batch_id, **values))
    run_ids = [f"{batch_id}_{number:03}" for number in range(1, count + 1)]
    for position, run_id in enumerate(run_ids, start=1):
        changes = {} if team is None else {"team": team.as_data()}
        store_run(database, run_id, spec=f"Spec {run_id}.", **changes)
        put_into_batch(database, run_id, batch_id, position=position, dispatched_at=None)
    return run_ids


def put_into_batch(database: Database, run_id: str, batch_id: str, **columns: Any) -> None:
    with database.begin() as connection:
        connection.execute(update(runs).where(runs.c.run_id == run_id).values(batch_id=batch_id, **columns))


def set_batch(database: Database, batch_id: str = "batch_1", **columns: Any) -> None:
    with database.begin() as connection:
        connection.execute(update(batches).where(batches.c.batch_id == batch_id).values(**columns))


def batch_row(database: Database, batch_id: str = "batch_1") -> Any:
    """Every column of the batch's row."""
    with database.begin() as connection:
        return connection.execute(batches.select().where(batches.c.batch_id == batch_id)).one()
