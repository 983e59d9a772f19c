"""What webhooks are to be told: written with the event itself, in one transaction, so that neither is there without
the other; taken under a lease, sent outside of any transaction, and recorded."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, Text, cast, func, literal, null, select
from sqlalchemy.dialects.postgresql import insert

from workers.core.webhook import DeliveryState, WebhookEvent
from workers.provenance.models import batches, runs, webhook_deliveries

#: Made by PostgreSQL: whoever ends a thousand runs in one statement has no ids to give.
_NEW_ID = func.concat("whd_", func.replace(cast(func.gen_random_uuid(), Text), "-", ""))
_NOTED = ["delivery_id", "tenant_id", "run_id", "batch_id", "event", "url", "state"]


def note_run_event(connection: Connection, run_id: str, event: WebhookEvent) -> None:
    """The run's webhook, if it has one, is to be told; called in the transaction that ends the run."""
    note_run_events(connection, [run_id], event)


def note_run_events(connection: Connection, run_ids: Sequence[str], event: WebhookEvent) -> None:
    """`note_run_event` for many runs in one statement. Noting the same again changes nothing."""
    told = select(
        _NEW_ID,
        runs.c.tenant_id,
        runs.c.run_id,
        null(),
        literal(event.value),
        runs.c.webhook_url,
        literal(DeliveryState.PENDING.value),
    ).where(runs.c.run_id.in_(run_ids), runs.c.webhook_url.is_not(None))
    connection.execute(
        insert(webhook_deliveries)
        .from_select(_NOTED, told)
        .on_conflict_do_nothing(index_elements=["run_id", "event"])
    )


def note_batch_event(connection: Connection, batch_id: str, event: WebhookEvent) -> None:
    """The batch's webhook, if it has one, is to be told; called in the transaction that changes its state.

    A batch can be paused more than once: the later pause takes the place of the earlier one, under an id of its
    own, so that the receiver does not take it for a repeat. An end is noted once.
    """
    told = select(
        _NEW_ID,
        batches.c.tenant_id,
        null(),
        batches.c.batch_id,
        literal(event.value),
        batches.c.webhook_url,
        literal(DeliveryState.PENDING.value),
    ).where(batches.c.batch_id == batch_id, batches.c.webhook_url.is_not(None))
    noted = insert(webhook_deliveries).from_select(_NOTED, told)
    key = ["batch_id", "event"]
    if event is WebhookEvent.BATCH_PAUSED:
        fresh = {
            "delivery_id": noted.excluded.delivery_id,
            "state": DeliveryState.PENDING.value,
            "attempts": 0,
            "next_at": func.now(),
            "lease_expires_at": None,
            "last_status": None,
            "last_error": None,
            "created_at": func.now(),
            "ended_at": None,
        }
        connection.execute(noted.on_conflict_do_update(index_elements=key, set_=fresh))
    else:
        connection.execute(noted.on_conflict_do_nothing(index_elements=key))
