"""The body of a delivery: what happened, when, and the few figures that let a receiver decide what to fetch."""

from __future__ import annotations

import orjson
from sqlalchemy import Connection

from workers.provenance.repository.deliveries import Delivery
from workers.provenance.repository.delivery_subjects import batch_subject, run_subject


def message_of(connection: Connection, delivery: Delivery) -> bytes:
    """`{"type", "timestamp", "data"}` (Standard Webhooks 1.0) as JSON. `timestamp` is when it happened, the same at
    every attempt; an ended run's data are the same, too."""
    if delivery.run_id is not None:
        data = run_subject(connection, delivery.run_id)
    else:
        assert delivery.batch_id is not None  # noqa: S101 - for the type checker: a row has one of the two
        data = batch_subject(connection, delivery.batch_id)
    at = delivery.created_at.isoformat()
    return orjson.dumps({"type": delivery.event.value, "timestamp": at, "data": data})
