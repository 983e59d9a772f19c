"""A broker that takes connections and says nothing."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator

import pytest
from celery import Celery

from workers import enqueue


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Celery]:
    monkeypatch.setattr(enqueue, "_LOOK_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as server:
        app = Celery(broker=f"redis://127.0.0.1:{server.getsockname()[1]}/0", set_as_current=False)
        app.conf.task_publish_retry_policy = {"max_retries": 1, "interval_start": 0, "interval_step": 0}
        enqueue.bound_sending(app)
        yield app


def test_whoever_asks_how_a_frozen_broker_is_gets_a_sentence(frozen: Celery) -> None:
    frozen.conf.broker_transport_options = {}
    problem = enqueue.broker_problem(frozen)
    assert problem is not None
    assert problem.startswith("the broker does not answer: ")


def test_sending_to_a_frozen_broker_ends_and_leaves_the_row_to_the_rescue(frozen: Celery) -> None:
    began = time.monotonic()
    enqueue.submit_run(frozen, "run_1")
    assert time.monotonic() - began < 5
