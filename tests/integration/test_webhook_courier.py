"""Deliveries from their rows to real receivers on loopback."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import hmac
import json
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from sqlalchemy import update

from tests.integration.stored_runs import AT, ago, finish, run_of, tamper
from tests.integration.stored_webhooks import (
    note,
    note_batch,
    noted,
    set_delivery,
    store_heard_batch,
    store_heard_run,
)
from tests.unit.webhooks.receiver import receiver, silence, status
from workers.core.webhook import WebhookEvent
from workers.gateway import LoopThread
from workers.guarded_http import guarded_client
from workers.provenance.models import runs as runs_table
from workers.provenance.repository import deliveries
from workers.provenance.session import Database
from workers.webhooks.courier import MOST_CONNECTIONS, MOST_PER_RECEIVER, Courier

KEYS = (b"k" * 24, b"l" * 24)


async def loopback(_: str) -> Sequence[str]:
    """Whatever the name, it is this machine."""
    return ["127.0.0.1"]


@dataclasses.dataclass
class Clock:
    """Seconds that pass only when they are asked for."""

    seconds: float = 0.0
    step: float = 0.0

    def __call__(self) -> float:
        self.seconds += self.step
        return self.seconds


Hire = Callable[..., Courier]


@pytest.fixture
def hire(database: Database) -> Iterator[Hire]:
    """Couriers of this database, each with a client of its own."""
    loop = LoopThread()
    clients = []

    async def open_client() -> Any:
        return guarded_client(
            loopback, allow_private=True, most_connections=MOST_CONNECTIONS, timeout_seconds=60.0
        )

    def courier(**changes: Any) -> Courier:
        clients.append(loop.run(open_client()))
        values = {
            "now": lambda: AT,
            "clock": Clock(),
            "chance": lambda: 0.5,
            "timeout_seconds": 5.0,
            **changes,
        }
        return Courier(database, loop, clients[-1], values.pop("keys", KEYS), **values)

    yield courier
    for client in clients:
        loop.run(client.aclose())
    loop.close()


def store_due(database: Database, *urls: str) -> None:
    for number, url in enumerate(urls):
        store_heard_run(database, f"run_{number}", url=url)
        note(database, f"run_{number}")


def test_an_end_is_told_once_signed_with_every_key_and_recorded(database: Database, hire: Hire) -> None:
    with receiver() as served:
        store_heard_run(database, url=served.url)
        finish(database)
        courier = hire()
        courier.sweep()
        courier.sweep()

    (request,) = served.requests
    (row,) = noted(database)
    assert (row.state, row.attempts, row.last_status, row.ended_at) == ("delivered", 1, 204, AT)
    assert request.headers["webhook-id"] == row.delivery_id
    # 2026-01-02 03:04:05 UTC in seconds since 1970.
    assert request.headers["webhook-timestamp"] == "1767323045"
    content = f"{row.delivery_id}.1767323045.".encode() + request.body
    assert request.headers["webhook-signature"] == " ".join(
        f"v1,{b64encode(hmac.digest(key, content, hashlib.sha256)).decode()}" for key in KEYS
    )


def test_a_run_is_told_in_ids_and_figures_and_not_a_word_of_its_content(
    database: Database, hire: Hire
) -> None:
    with receiver() as served:
        store_heard_run(database, url=served.url)
        finish(database)
        hire().sweep()

    run, (row,) = run_of(database), noted(database)
    assert run.finished_at is not None
    assert json.loads(served.requests[0].body) == {
        "type": "run.finished",
        "timestamp": row.created_at.isoformat(),
        "data": {
            **{"run_id": "run_1", "external_id": None, "batch_id": None, "team": "small"},
            **{"state": "finished", "outcome": "accepted", "reasons": [], "rounds": 1},
            **{"claims": 0, "standing_claims": 0, "simulated": False},
            **{"calls": 0, "input_tokens": 0, "output_tokens": 0, "cost_usd": None},
            **{"finished_at": run.finished_at.isoformat(), "path": "/v1/runs/run_1"},
        },
    }


def test_a_batch_is_told_with_its_counts(database: Database, hire: Hire) -> None:
    with receiver() as served:
        store_heard_batch(database, webhook_url=served.url, name="night", run_count=3, skipped_count=2)
        for number, state, outcome in (
            (1, "finished", "accepted"),
            (2, "queued", None),
            (3, "running", None),
        ):
            store_heard_run(database, f"run_{number}")
            with database.begin() as connection:
                values = {
                    "batch_id": "batch_1",
                    "state": state,
                    "outcome": outcome,
                    "request_digest": str(number),
                }
                connection.execute(
                    update(runs_table).where(runs_table.c.run_id == f"run_{number}").values(values)
                )
        note_batch(database, WebhookEvent.BATCH_PAUSED)
        hire().sweep()

    told = json.loads(served.requests[0].body)
    assert told["type"] == "batch.paused"
    data = told["data"]
    assert (data["batch_id"], data["name"], data["state"]) == ("batch_1", "night", "running")
    counts = ("runs", "waiting", "running", "accepted", "rejected", "degraded", "cancelled", "skipped")
    assert [data[name] for name in counts] == [3, 1, 1, 1, 0, 0, 0, 2]
    assert data["results_path"] == "/v1/batches/batch_1/results"


def test_a_failure_is_repeated_with_the_same_id_and_body_after_its_wait(
    database: Database, hire: Hire
) -> None:
    with receiver(status(500), status(204)) as served:
        store_heard_run(database, url=served.url)
        finish(database)
        courier = hire()
        courier.sweep()
        (row,) = noted(database)
        assert (row.state, row.attempts, row.last_error) == ("pending", 1, "answered 500")
        # The first wait is 10 s; the middle of the jitter changes nothing.
        assert 9.0 < (row.next_at - row.created_at).total_seconds() < 20.0
        set_delivery(database, next_at=ago(1))
        courier.sweep()

    first, second = served.requests
    assert first.headers["webhook-id"] == second.headers["webhook-id"]
    assert first.body == second.body
    assert noted(database)[0].state == "delivered"


def test_a_receiver_s_retry_after_is_kept(database: Database, hire: Hire) -> None:
    with receiver(status(429, retry_after="3600")) as served:
        store_due(database, served.url)
        hire().sweep()

    (row,) = noted(database)
    assert 3500 < (row.next_at - row.created_at).total_seconds() < 3700


def test_410_is_the_end(database: Database, hire: Hire) -> None:
    with receiver(status(410)) as served:
        store_due(database, served.url)
        hire().sweep()

    (row,) = noted(database)
    assert (row.state, row.attempts, row.last_status) == ("failed", 1, 410)


def test_the_last_attempt_gives_up(database: Database, hire: Hire) -> None:
    with receiver(status(503)) as served:
        store_due(database, served.url)
        set_delivery(database, attempts=13)
        hire().sweep()

    (row,) = noted(database)
    assert (row.state, row.attempts, row.last_error) == ("failed", 14, "answered 503")


def test_a_closed_address_is_given_up_and_never_called(database: Database, hire: Hire) -> None:
    store_due(database, "http://169.254.169.254/latest/meta-data")
    hire().sweep()

    (row,) = noted(database)
    assert (row.state, row.last_status) == ("failed", None)
    assert row.last_error == ("the URL leads into a closed network: 169.254.169.254 is a link-local address")


def test_a_silent_receiver_does_not_hold_up_the_others(database: Database, hire: Hire) -> None:
    everyone = threading.Event()

    async def count(writer: asyncio.StreamWriter) -> None:
        await status(204)(writer)
        if len(prompt.requests) == 30:
            everyone.set()

    with receiver(silence) as dead, receiver(count) as prompt:
        store_due(database, *[dead.url] * 20, *[prompt.url] * 30)
        courier = hire(timeout_seconds=60.0)
        thread = threading.Thread(target=courier.sweep)
        thread.start()
        # All thirty arrive while the silent one still holds its eight requests.
        assert everyone.wait(timeout=20)
        assert thread.is_alive()
        assert dead.most_at_once == MOST_PER_RECEIVER
        assert prompt.most_at_once <= MOST_PER_RECEIVER
        dead.stop_serving()
        thread.join(timeout=20)
        assert not thread.is_alive()


def test_what_becomes_due_while_a_silent_receiver_is_waited_for_goes_out(
    database: Database, hire: Hire
) -> None:
    held, heard = threading.Event(), threading.Event()

    async def hold(writer: asyncio.StreamWriter) -> None:
        held.set()
        await silence(writer)

    async def tell(writer: asyncio.StreamWriter) -> None:
        await status(204)(writer)
        heard.set()

    with receiver(hold) as dead, receiver(tell) as prompt:
        store_due(database, dead.url)
        thread = threading.Thread(target=hire(timeout_seconds=60.0).sweep)
        thread.start()
        assert held.wait(timeout=20)
        store_heard_run(database, "run_new", url=prompt.url)
        note(database, "run_new")
        is_heard = heard.wait(timeout=10)
        dead.stop_serving()
        thread.join(timeout=20)
    assert is_heard


def test_a_sweep_that_has_had_its_time_lets_another_begin(database: Database, hire: Hire) -> None:
    with receiver(silence) as dead, receiver() as prompt:
        store_due(database, dead.url)
        # Every look at the clock is four seconds later, so the sweep of five takes once and then only waits.
        courier = hire(timeout_seconds=60.0, clock=Clock(step=4.0))
        thread = threading.Thread(target=courier.sweep)
        thread.start()
        while not dead.requests or courier.is_taking:
            thread.join(timeout=0.01)
        store_heard_run(database, "run_new", url=prompt.url)
        note(database, "run_new")
        courier.sweep()
        assert len(prompt.requests) == 1
        dead.stop_serving()
        thread.join(timeout=20)


def test_two_workers_send_each_delivery_once(database: Database, hire: Hire) -> None:
    with receiver() as served:
        store_due(database, *[served.url] * 40)
        with ThreadPoolExecutor(2) as threads:
            for sweep in [threads.submit(hire().sweep) for _ in range(2)]:
                sweep.result()

    ids = [request.headers["webhook-id"] for request in served.requests]
    assert len(ids) == len(set(ids)) == 40
    assert {row.state for row in noted(database)} == {"delivered"}


def test_a_delivery_whose_worker_was_killed_is_sent_by_the_next(database: Database, hire: Hire) -> None:
    with receiver() as served:
        store_due(database, served.url)
        with database.begin() as connection:
            deliveries.take_due(connection, most=1, most_per_receiver=1, lease_seconds=30)
        courier = hire()
        courier.sweep()
        assert served.requests == []
        set_delivery(database, lease_expires_at=ago(1))
        courier.sweep()

    assert len(served.requests) == 1
    assert [(row.state, row.attempts) for row in noted(database)] == [("delivered", 2)]


def test_without_keys_deliveries_wait(database: Database, hire: Hire) -> None:
    with receiver() as served:
        store_due(database, served.url)
        hire(keys=()).sweep()
        assert served.connections == 0

    assert [(row.state, row.attempts) for row in noted(database)] == [("pending", 0)]


def test_a_spoilt_verdict_does_not_keep_others_from_being_told(database: Database, hire: Hire) -> None:
    with receiver() as served:
        for run_id in ("run_1", "run_2"):
            store_heard_run(database, run_id, url=served.url)
            finish(database, run_id)
        spoilt = run_of(database, "run_1").verdict_digest
        tamper(database, f"UPDATE payloads SET body = 'not JSON' WHERE digest = '{spoilt}'")  # noqa: S608
        with database.begin() as connection:
            connection.execute(
                update(runs_table).where(runs_table.c.run_id == "run_2").values(verdict_digest=None)
            )
        hire().sweep()

    assert len(served.requests) == 1
    told = {row.run_id: (row.state, row.last_error) for row in noted(database)}
    assert told == {
        "run_1": ("pending", "what it should say cannot be read from the database"),
        "run_2": ("delivered", None),
    }
