"""Webhooks as rows: runs and batches that somebody wants to hear of, and what is noted for them."""

from __future__ import annotations

from typing import Any

from sqlalchemy import insert, select, update

from tests.integration.stored_runs import store_run
from workers.core.webhook import WebhookEvent
from workers.provenance.models import DEFAULT_TENANT, batches, runs, tenants, webhook_deliveries
from workers.provenance.repository import deliveries
from workers.provenance.session import Database

URL = "https://receiver.example/hook"


def store_heard_run(database: Database, run_id: str = "run_1", url: str = URL) -> None:
    """A queued run with a webhook."""
    store_run(database, run_id)
    with database.begin() as connection:
        connection.execute(update(runs).where(runs.c.run_id == run_id).values(webhook_url=url))


def store_heard_batch(database: Database, batch_id: str = "batch_1", **changes: Any) -> None:
    """A running batch without runs, with a webhook."""
    values = {"state": "running", "run_count": 0, "request_digest": "d", "webhook_url": URL, **changes}
    with database.begin() as connection:
        connection.execute(insert(tenants).values(tenant_id=DEFAULT_TENANT, name="t"))
        connection.execute(insert(batches).values(batch_id=batch_id, tenant_id=DEFAULT_TENANT, **values))


def note(database: Database, *run_ids: str, event: WebhookEvent = WebhookEvent.RUN_FINISHED) -> None:
    with database.begin() as connection:
        deliveries.note_run_events(connection, run_ids, event)


def note_batch(database: Database, event: WebhookEvent, batch_id: str = "batch_1") -> None:
    with database.begin() as connection:
        deliveries.note_batch_event(connection, batch_id, event)


def noted(database: Database) -> list[Any]:
    """Every delivery's row, oldest first."""
    with database.begin() as connection:
        order = (webhook_deliveries.c.created_at, webhook_deliveries.c.delivery_id)
        return list(connection.execute(select(webhook_deliveries).order_by(*order)))


def set_delivery(database: Database, **values: Any) -> None:
    """Write columns of every delivery."""
    with database.begin() as connection:
        connection.execute(update(webhook_deliveries).values(**values))
