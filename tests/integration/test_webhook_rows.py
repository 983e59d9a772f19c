"""What is noted for webhooks, and how it is taken and recorded, on a real database."""

from __future__ import annotations

from tests.integration.stored_runs import store_run
from tests.integration.stored_webhooks import (
    URL,
    note,
    note_batch,
    noted,
    set_delivery,
    store_heard_batch,
    store_heard_run,
)
from workers.core.webhook import WebhookEvent
from workers.provenance.session import Database


def test_a_run_without_a_webhook_is_told_to_nobody(database: Database) -> None:
    store_run(database)

    note(database, "run_1")

    assert noted(database) == []


def test_a_run_is_noted_once_for_each_event(database: Database) -> None:
    store_heard_run(database)

    note(database, "run_1")
    note(database, "run_1")

    (row,) = noted(database)
    assert (row.run_id, row.batch_id, row.event, row.url) == ("run_1", None, "run.finished", URL)
    assert (row.state, row.attempts, row.lease_expires_at) == ("pending", 0, None)


def test_many_runs_are_noted_at_once_each_under_an_id_of_its_own(database: Database) -> None:
    for number in (1, 2, 3):
        store_heard_run(database, f"run_{number}")

    note(database, "run_1", "run_2", "run_3", event=WebhookEvent.RUN_CANCELLED)

    assert len({row.delivery_id for row in noted(database)}) == 3


def test_an_end_of_a_batch_is_noted_once(database: Database) -> None:
    store_heard_batch(database)

    note_batch(database, WebhookEvent.BATCH_FINISHED)
    first = noted(database)
    note_batch(database, WebhookEvent.BATCH_FINISHED)

    assert noted(database) == first
    assert [(row.batch_id, row.run_id) for row in first] == [("batch_1", None)]


def test_a_second_pause_is_news_under_a_new_id(database: Database) -> None:
    store_heard_batch(database)
    note_batch(database, WebhookEvent.BATCH_PAUSED)
    (first,) = noted(database)
    set_delivery(database, state="failed", attempts=14, last_status=500, last_error="x")

    note_batch(database, WebhookEvent.BATCH_PAUSED)

    (second,) = noted(database)
    assert second.delivery_id != first.delivery_id
    assert (second.state, second.attempts, second.last_status, second.last_error) == (
        *("pending", 0),
        *(None, None),
    )
