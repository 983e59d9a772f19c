"""Whole batches through a real worker on real servers: every run ends, what is sent waits in the right line, and a
batch is stopped, held and brought back while it runs."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
import redis

from tests.factories import make_team
from tests.integration.conftest import DEADLINE_SECONDS, Bench, pause
from tests.integration.model_server import HANG, ModelServer
from tests.integration.stored_batches import batch_row, store_batch
from tests.integration.stored_runs import run_of
from workers.celery_app import app
from workers.core.budget import Budget
from workers.core.run import Close, Enqueue, RunState, Stage
from workers.enqueue import send, send_dispatch, send_seat, send_sweep, submit_run
from workers.provenance.repository import batch_control
from workers.provenance.session import Database
from workers.queues import Queue, TaskName, message_priority
from workers.tasks.rescue import rescue_lost_work


def until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"not in time: {what}"
        pause()


def states(database: Database, run_ids: list[str]) -> set[RunState]:
    return {run_of(database, run_id).state for run_id in run_ids}


def test_a_batch_ends_with_every_run_ended_and_the_last_one_closes_it(
    bench: Bench, models: ModelServer
) -> None:
    """The first dispatch is asked for; from then on runs that end pull the next ones."""
    run_ids = store_batch(bench.database, count=12, concurrency=3)
    send_dispatch(app)
    until(lambda: batch_row(bench.database).state == "finished", "the batch's end")
    assert states(bench.database, run_ids) == {RunState.FINISHED}
    # Coder, two reviewers, consensus, lead: five calls a run, none twice.
    assert models.requests.total() == 60
    for run_id in run_ids:
        assert bench.verdict(run_id)["outcome"] == "accepted"


def test_cancelling_breaks_off_the_calls_in_flight_and_spends_no_more(
    bench: Bench, models: ModelServer
) -> None:
    models.behave["alder-1"] = HANG
    run_ids = store_batch(bench.database, count=30)
    send_dispatch(app)
    assert models.hanging.wait(DEADLINE_SECONDS)
    with bench.database.begin() as connection:
        batch_control.cancel(connection, "batch_1", tenant_id="default")
    send_sweep(app, "batch_1")
    until(lambda: batch_row(bench.database).finished_at is not None, "the end of the sweep")
    asked = models.requests.total()
    assert states(bench.database, run_ids) == {RunState.CANCELLED}
    # Threads that hung are free again: a run of its own goes through.
    models.behave.clear()
    models.requests.clear()
    alone = bench.submit()
    assert bench.ended(alone).state is RunState.FINISHED
    assert models.requests.total() == 5
    assert asked <= 16 + 5  # the worker's threads, and not one run more after the cancel


def test_a_batch_without_money_waits_and_ends_once_it_has_some(bench: Bench, models: ModelServer) -> None:
    """A call is 0.256 at the worst: 0.3 dollars are good for one call at a time, and not for a whole run of five."""
    run_ids = store_batch(bench.database, count=3, budget_usd=Decimal("0.265"))
    send_dispatch(app)
    until(lambda: batch_row(bench.database).pause_cause == "budget", "the pause")
    assert RunState.FINISHED not in states(bench.database, run_ids)
    with bench.database.begin() as connection:
        batch_control.resume(connection, "batch_1", tenant_id="default", budget=Budget(usd=Decimal(50)))
    send_dispatch(app)

    def is_over() -> bool:
        rescue_lost_work.run()
        return bool(batch_row(bench.database).state == "finished")

    until(is_over, "the batch's end")
    assert {run_of(bench.database, run_id).outcome for run_id in run_ids} == {"accepted"}
    # Fifteen calls of half a cent.
    assert batch_row(bench.database).spent_usd == Decimal("0.075")


def test_a_sweep_whose_message_was_lost_is_taken_up_by_the_rescue(bench: Bench) -> None:
    run_ids = store_batch(bench.database, count=5)
    with bench.database.begin() as connection:
        batch_control.cancel(connection, "batch_1", tenant_id="default")
    rescue_lost_work.run()
    until(lambda: batch_row(bench.database).finished_at is not None, "the end of the sweep")
    assert states(bench.database, run_ids) == {RunState.CANCELLED}


def test_a_first_message_that_was_lost_is_found_by_the_rescue(bench: Bench) -> None:
    (run_id,) = store_batch(bench.database, count=1)
    with bench.database.begin() as connection:
        connection.exec_driver_sql("UPDATE runs SET dispatched_at = now() - interval '1 minute'")
    rescue_lost_work.run()
    assert bench.ended(run_id).state is RunState.FINISHED


@pytest.fixture
def quiet_broker(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[dict[str, Any]]]:
    """Sends into queues that no worker serves; what waits there, with the list it waits in."""
    monkeypatch.setattr(
        "workers.enqueue.queue_of", lambda task: Queue.LLM if task is TaskName.GATE else _Quiet
    )
    client = redis.Redis.from_url(redis_url)

    def waiting() -> list[dict[str, Any]]:
        found = []
        for name in client.scan_iter("quiet*"):
            for body in client.lrange(name, 0, -1):
                found.append(json.loads(body))
        return found

    return waiting


class _Quiet:
    value = "quiet"


def test_messages_of_a_batch_stand_behind_those_of_single_runs(
    worker: None, quiet_broker: Callable[[], list[dict[str, Any]]]
) -> None:
    for is_batch in (False, True):
        submit_run(app, "r", is_batch=is_batch)
        send_seat(app, "r", 1, Stage.LEAD, "lead", is_batch=is_batch)
        for stage in (Stage.CODER, Stage.PANEL):
            send(
                app,
                Enqueue(run_id="r", round=1, stage=stage, seats=("a", "b"), priority=0, is_batch=is_batch),
            )
        send(app, Close(run_id="r", priority=0, is_batch=is_batch))
    found = sorted((m["headers"]["task"], m["properties"]["priority"]) for m in quiet_broker())
    expected = []
    for task, count in (("advance", 1), ("coder", 2), ("finish", 1), ("lead", 1), ("review", 2)):
        for is_batch in (False, True):
            expected += [(task, message_priority(TaskName(task), is_batch=is_batch))] * count
    assert found == sorted(expected)


def test_every_message_of_a_batch_stands_behind_every_interactive_one() -> None:
    last = max(message_priority(task) for task in TaskName)
    first = min(message_priority(task, is_batch=True) for task in TaskName)
    assert last < first
    assert max(message_priority(task, is_batch=True) for task in TaskName) <= 9


def test_a_wide_team_in_a_batch_ends_too(bench: Bench, models: ModelServer) -> None:
    """More reviewers than the worker has threads for batches: the run goes alone, and it ends."""
    names = [f"r{number}" for number in range(20)]
    reviewers = {
        name: {"models": [f"local/{'birch' if number % 2 else 'cedar'}-1"], "timeout_seconds": 5}
        for number, name in enumerate(names)
    }
    run_ids = store_batch(bench.database, count=2, team=make_team(reviewers=reviewers))
    send_dispatch(app)
    until(lambda: batch_row(bench.database).state == "finished", "the batch's end")
    assert states(bench.database, run_ids) == {RunState.FINISHED}
