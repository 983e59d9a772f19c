"""What webhooks are to be told: written with the event itself, in one transaction, so that neither is there without
the other; taken under a lease, sent outside of any transaction, and recorded."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Connection,
    Row,
    Text,
    cast,
    func,
    literal,
    null,
    select,
    text,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from workers.core.webhook import Answer, DeliveryState, WebhookEvent
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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A delivery that was taken to be sent: its `attempts` include the one that begins. The URL may hold a secret."""

    delivery_id: str
    run_id: str | None
    batch_id: str | None
    event: WebhookEvent
    url: str = dataclasses.field(repr=False)
    attempts: int
    created_at: dt.datetime
    age_seconds: float


#: One sweep at a time takes, or two would each find a receiver free. Any number that nobody else locks.
_TAKING = 7_465_201_993
#: Receivers take turns: the first waiting delivery of each, then the second. What is under lease counts as busy. The
#: recursion steps over the index from receiver to receiver, so ten thousand messages to one cost what eight do.
_TAKE = text(
    """
    WITH RECURSIVE receivers AS (
        SELECT min(receiver) AS receiver FROM webhook_deliveries WHERE state = 'pending'
        UNION ALL
        SELECT (
            SELECT min(receiver) FROM webhook_deliveries
            WHERE state = 'pending' AND receiver > receivers.receiver
        )
        FROM receivers WHERE receiver IS NOT NULL
    ), busy AS (
        SELECT receiver, count(*) AS leased FROM webhook_deliveries
        WHERE state = 'pending' AND lease_expires_at > now() GROUP BY receiver
    ), chosen AS (
        SELECT due.delivery_id
        FROM receivers LEFT JOIN busy USING (receiver) CROSS JOIN LATERAL (
            SELECT delivery_id, next_at, row_number() OVER (ORDER BY next_at, delivery_id) AS place
            FROM webhook_deliveries AS waiting
            WHERE waiting.state = 'pending' AND waiting.receiver = receivers.receiver
              AND waiting.next_at <= now()
              AND (waiting.lease_expires_at IS NULL OR waiting.lease_expires_at <= now())
            ORDER BY next_at, delivery_id
            LIMIT greatest(0, :most_per_receiver - coalesce(busy.leased, 0))
        ) AS due
        ORDER BY due.place, due.next_at, due.delivery_id
        LIMIT :most
    )
    UPDATE webhook_deliveries AS taken
    SET attempts = least(attempts, 32000) + 1, lease_expires_at = now() + make_interval(secs => :lease_seconds)
    FROM chosen
    WHERE taken.delivery_id = chosen.delivery_id
    RETURNING taken.delivery_id, taken.run_id, taken.batch_id, taken.event, taken.url, taken.attempts,
              taken.created_at, extract(epoch FROM now() - taken.created_at)::float AS age_seconds
    """
)


def take_due(
    connection: Connection, *, most: int, most_per_receiver: int, lease_seconds: float
) -> list[Delivery]:
    """Take at most `most` due deliveries under a lease, and no more than `most_per_receiver` to one host and port,
    those that other workers are sending included.

    The attempt counts from now on: a worker that dies of it has made it all the same. Once its lease has run out
    the delivery is due again.
    """
    connection.execute(select(func.pg_advisory_xact_lock(_TAKING)))
    rows = connection.execute(
        _TAKE, {"most": most, "most_per_receiver": most_per_receiver, "lease_seconds": lease_seconds}
    )
    return [_delivery(row) for row in rows]


def _delivery(row: Row[Any]) -> Delivery:
    values = {field.name: getattr(row, field.name) for field in dataclasses.fields(Delivery)}
    return Delivery(**{**values, "event": WebhookEvent(row.event)})


def record(
    connection: Connection,
    delivery: Delivery,
    answer: Answer,
    *,
    wait_seconds: float | None,
    at: dt.datetime,
) -> bool:
    """Write how the attempt ended; with `wait_seconds` the delivery is due again then. False, and nothing is written,
    when the lease had run out and another worker has taken it since."""
    state = DeliveryState.PENDING
    if wait_seconds is None:
        state = DeliveryState.DELIVERED if answer.is_success else DeliveryState.FAILED
    row = connection.execute(
        update(webhook_deliveries)
        .where(
            webhook_deliveries.c.delivery_id == delivery.delivery_id,
            webhook_deliveries.c.attempts == delivery.attempts,
            webhook_deliveries.c.state == DeliveryState.PENDING.value,
        )
        .values(
            state=state.value,
            next_at=func.now() + dt.timedelta(seconds=wait_seconds or 0.0),
            lease_expires_at=None,
            last_status=answer.status,
            last_error=answer.problem,
            ended_at=at if wait_seconds is None else None,
        )
        .returning(webhook_deliveries.c.delivery_id)
    ).one_or_none()
    return row is not None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryStatus:
    """How far the telling of one event has come. `next_at`: when it is tried next, None once it has ended."""

    event: str
    state: str
    attempts: int
    last_status: int | None
    last_error: str | None
    next_at: dt.datetime | None
    ended_at: dt.datetime | None


def run_statuses(connection: Connection, run_id: str) -> list[DeliveryStatus]:
    """What was or is to be told of a run, oldest first."""
    return _statuses(connection, webhook_deliveries.c.run_id == run_id)


def batch_statuses(connection: Connection, batch_id: str) -> list[DeliveryStatus]:
    """What was or is to be told of a batch itself, not of its runs, oldest first."""
    return _statuses(connection, webhook_deliveries.c.batch_id == batch_id)


def _statuses(connection: Connection, whose: ColumnElement[bool]) -> list[DeliveryStatus]:
    rows = connection.execute(
        select(webhook_deliveries)
        .where(whose)
        .order_by(webhook_deliveries.c.created_at, webhook_deliveries.c.delivery_id)
    )
    return [
        DeliveryStatus(
            event=row.event,
            state=row.state,
            attempts=row.attempts,
            last_status=row.last_status,
            last_error=row.last_error,
            next_at=row.next_at if row.state == DeliveryState.PENDING else None,
            ended_at=row.ended_at,
        )
        for row in rows
    ]
