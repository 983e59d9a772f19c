"""What is noted for webhooks, and how it is taken and recorded, on a real database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.integration.stored_runs import AT, ago, finish, store_run
from tests.integration.stored_webhooks import (
    URL,
    note,
    note_batch,
    noted,
    set_delivery,
    store_heard_batch,
    store_heard_run,
)
from workers.core.webhook import Answer, WebhookEvent
from workers.errors import IdempotencyConflictError
from workers.provenance.models import DEFAULT_TENANT
from workers.provenance.repository import deliveries, runs
from workers.provenance.repository.deliveries import Delivery
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


def take(database: Database, most: int = 100, most_per_receiver: int = 100) -> list[Delivery]:
    with database.begin() as connection:
        return deliveries.take_due(
            connection, most=most, most_per_receiver=most_per_receiver, lease_seconds=30
        )


def record(database: Database, delivery: Delivery, answer: Answer, wait_seconds: float | None = None) -> bool:
    with database.begin() as connection:
        return deliveries.record(connection, delivery, answer, wait_seconds=wait_seconds, at=AT)


def store_due(database: Database, *urls: str) -> None:
    """A delivery to each URL, noted in order."""
    for number, url in enumerate(urls):
        store_heard_run(database, f"run_{number}", url=url)
        note(database, f"run_{number}")


def test_what_is_taken_is_leased_and_counted_and_not_taken_again(database: Database) -> None:
    store_due(database, URL)

    (taken,) = take(database)

    assert (taken.run_id, taken.event, taken.attempts) == ("run_0", WebhookEvent.RUN_FINISHED, 1)
    assert "receiver.example" not in repr(taken)
    assert take(database) == []


def test_a_delivery_whose_worker_died_is_taken_again_under_the_same_id(database: Database) -> None:
    store_due(database, URL)
    (first,) = take(database)

    set_delivery(database, lease_expires_at=ago(1))

    (second,) = take(database)
    assert (second.delivery_id, second.attempts) == (first.delivery_id, 2)


def test_a_worker_that_comes_late_does_not_undo_what_the_next_one_found(database: Database) -> None:
    store_due(database, URL)
    (late,) = take(database)
    set_delivery(database, lease_expires_at=ago(1))
    (next_one,) = take(database)

    assert not record(database, late, Answer(status=500, problem="answered 500"))
    assert record(database, next_one, Answer(status=204))
    assert not record(database, next_one, Answer(status=500))

    (row,) = noted(database)
    assert (row.state, row.last_status, row.last_error, row.ended_at) == ("delivered", 204, None, AT)
    assert row.lease_expires_at is None


def test_a_postponed_delivery_is_due_when_its_wait_is_over(database: Database) -> None:
    store_due(database, URL)
    (taken,) = take(database)

    record(database, taken, Answer(status=503, problem="answered 503"), wait_seconds=60)

    (row,) = noted(database)
    assert (row.state, row.last_status, row.last_error) == ("pending", 503, "answered 503")
    assert (row.lease_expires_at, row.ended_at) == (None, None)
    assert take(database) == []
    set_delivery(database, next_at=ago(1))
    assert [delivery.attempts for delivery in take(database)] == [2]


def test_a_delivery_that_is_given_up_is_never_taken_again(database: Database) -> None:
    store_due(database, URL)
    (taken,) = take(database)

    record(database, taken, Answer(problem="no answer within 10 s"))

    (row,) = noted(database)
    assert (row.state, row.last_status, row.last_error) == ("failed", None, "no answer within 10 s")
    set_delivery(database, next_at=ago(60))
    assert take(database) == []


def test_receivers_take_turns_whoever_came_first(database: Database) -> None:
    store_due(database, *["https://crowd.example/x"] * 5, "https://other.example/")

    taken = take(database, most=2)

    assert sorted(delivery.url for delivery in taken) == ["https://crowd.example/x", "https://other.example/"]


def test_one_receiver_gets_so_many_at_once_those_of_other_workers_included(database: Database) -> None:
    crowd = [
        "https://crowd.example/a",
        "https://CROWD.example/b",
        "http://crowd.example?c",
        "https://crowd.example/d",
    ]
    store_due(database, *crowd, "https://crowd.example:8443/elsewhere")

    first = take(database, most_per_receiver=3)
    # Host names know no case; another port is another receiver.
    assert sorted(delivery.url for delivery in first) == sorted(
        [*crowd[:3], "https://crowd.example:8443/elsewhere"]
    )
    assert take(database, most_per_receiver=3) == []

    record(database, first[0], Answer(status=204))
    record(database, first[1], Answer(status=204))
    assert [delivery.url for delivery in take(database, most_per_receiver=3)] == ["https://crowd.example/d"]


def test_two_workers_at_once_never_take_the_same(database: Database) -> None:
    store_due(database, *[f"https://receiver-{number}.example/" for number in range(40)])

    with ThreadPoolExecutor(4) as threads:
        taken = [part.result() for part in [threads.submit(take, database, 10) for _ in range(4)]]

    ids = [delivery.delivery_id for part in taken for delivery in part]
    assert len(ids) == len(set(ids)) == 40


def test_a_pause_that_was_replaced_while_it_was_told_is_not_overwritten(database: Database) -> None:
    store_heard_batch(database)
    note_batch(database, WebhookEvent.BATCH_PAUSED)
    (old,) = take(database)
    note_batch(database, WebhookEvent.BATCH_PAUSED)

    assert not record(database, old, Answer(status=204))

    assert [row.state for row in noted(database)] == ["pending"]


def test_a_run_that_ends_is_noted_in_the_same_transaction(database: Database) -> None:
    store_heard_run(database)

    finish(database)

    assert [(row.run_id, row.event) for row in noted(database)] == [("run_1", "run.finished")]


def test_a_cancelled_run_is_noted_once(database: Database) -> None:
    store_heard_run(database)

    for _ in range(2):
        with database.begin() as connection:
            runs.cancel(connection, "run_1", tenant_id=DEFAULT_TENANT, at=AT)

    assert [(row.run_id, row.event) for row in noted(database)] == [("run_1", "run.cancelled")]


def test_an_end_that_is_rolled_back_is_told_to_nobody(database: Database) -> None:
    store_heard_run(database)

    def cancel_and_fail() -> None:
        with database.begin() as connection:
            runs.cancel(connection, "run_1", tenant_id=DEFAULT_TENANT, at=AT)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        cancel_and_fail()

    assert noted(database) == []


def test_the_same_request_with_another_webhook_is_another_request(database: Database) -> None:
    store_run(database, idempotency_key="key", webhook_url=URL)

    assert store_run(database, "run_2", idempotency_key="key", webhook_url=URL).run_id == "run_1"
    with pytest.raises(IdempotencyConflictError):
        store_run(database, "run_2", idempotency_key="key")


def test_the_statuses_of_a_run_are_its_own(database: Database) -> None:
    store_due(database, URL, URL)
    taken = take(database)
    for delivery in taken:
        record(database, delivery, Answer(status=204))

    with database.begin() as connection:
        (status,) = deliveries.run_statuses(connection, "run_0")
        assert deliveries.run_statuses(connection, "run_9") == []
        assert deliveries.batch_statuses(connection, "batch_1") == []

    assert (status.event, status.state, status.attempts) == ("run.finished", "delivered", 1)
    assert (status.last_status, status.next_at, status.ended_at) == (204, None, AT)
