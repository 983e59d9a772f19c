"""Pause, resume and cancel change one row; what follows from it is done by whoever looks at that row."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from decimal import Decimal

import pytest

from tests.integration.desk import Desk, chain_team, desk, providers_at
from tests.integration.model_server import HANG, ModelServer
from tests.integration.stored_batches import batch_row, put_into_batch, set_batch, store_batch
from tests.integration.stored_records import exported, signer
from tests.integration.stored_runs import (
    claim,
    events_of,
    finish,
    kinds_of,
    lose_worker,
    open_seats,
    run_of,
    seat_key,
    seat_row,
    start_run,
    store_run,
)
from workers.core.batch import BatchState
from workers.core.budget import Budget
from workers.core.run import RunState, SeatState, Stage
from workers.errors import NotFoundError, StateError
from workers.provenance import ledger
from workers.provenance.check import examine
from workers.provenance.digest import GENESIS
from workers.provenance.repository import batch_control, runs, stages
from workers.provenance.repository.stages import SeatKey
from workers.provenance.session import Database
from workers.stages import dispatch
from workers.stages.rescue import rescue
from workers.stages.seat import advance


@pytest.fixture
def opened(database: Database, redis_url: str, models: ModelServer) -> Iterator[Desk]:
    with desk(database, redis_url, providers_at(models)) as at:
        yield at


def pause(database: Database, batch_id: str = "batch_1") -> None:
    with database.begin() as connection:
        batch_control.pause(connection, batch_id, tenant_id="default")


def resume(database: Database, budget: Budget | None = None) -> None:
    with database.begin() as connection:
        batch_control.resume(connection, "batch_1", tenant_id="default", budget=budget)


def cancel(database: Database) -> bool:
    with database.begin() as connection:
        return batch_control.cancel(connection, "batch_1", tenant_id="default")


def state(database: Database) -> tuple[str, str | None]:
    row = batch_row(database)
    return row.state, row.pause_cause


def told(database: Database) -> list[str]:
    with database.begin() as connection:
        rows = connection.exec_driver_sql("SELECT event FROM webhook_deliveries ORDER BY event")
        return list(rows.scalars())


def test_pausing_and_resuming_twice_is_all_one(database: Database) -> None:
    store_batch(database, count=1, webhook_url="https://example.org/hook")
    for _ in range(2):
        pause(database)
        assert state(database) == ("paused", "user")
    for _ in range(2):
        resume(database)
        assert state(database) == ("running", None)
    assert told(database) == ["batch.paused"]


@pytest.mark.parametrize("ended", [BatchState.CANCELLED, BatchState.FINISHED])
def test_a_batch_that_has_ended_is_neither_paused_nor_resumed_nor_cancelled(
    ended: BatchState, database: Database
) -> None:
    store_batch(database, state=ended)
    with pytest.raises(StateError, match=f"batch batch_1 is {ended}"):
        pause(database)
    with pytest.raises(StateError, match=f"batch batch_1 is {ended}"):
        resume(database)
    assert not cancel(database)
    assert state(database) == (ended, None)


@pytest.mark.parametrize("name", ["batch_2", "batch\x00", "run_1"])
def test_an_unknown_batch_is_named(name: str, database: Database) -> None:
    store_batch(database)
    with pytest.raises(NotFoundError, match="there is no batch"):
        pause(database, name)


def test_another_tenants_batch_is_not_there(database: Database) -> None:
    store_batch(database)
    with pytest.raises(NotFoundError), database.begin() as connection:
        batch_control.cancel(connection, "batch_1", tenant_id="other")


def test_a_batch_without_money_goes_on_with_more_of_it_only(database: Database) -> None:
    store_batch(database, budget_usd=Decimal(5), budget_tokens=9000)
    set_batch(database, state=BatchState.PAUSED, pause_cause="budget")
    with pytest.raises(StateError, match="has used up its budget of 5 USD and 9,000 tokens"):
        resume(database)
    for budget in (Budget(usd=Decimal(5)), Budget(tokens=8999)):
        with pytest.raises(StateError, match="give more than that"):
            resume(database, budget)
    assert state(database) == ("paused", "budget")
    resume(database, Budget(usd=Decimal("7.5")))
    assert state(database) == ("running", None)
    assert (batch_row(database).budget_usd, batch_row(database).budget_tokens) == (Decimal("7.5"), 9000)


def test_a_running_batchs_budget_can_be_raised(database: Database) -> None:
    store_batch(database, budget_usd=Decimal(5))
    resume(database, Budget(usd=Decimal(6)))
    assert (state(database), batch_row(database).budget_usd) == (("running", None), Decimal(6))


def test_a_batch_that_had_no_budget_gets_none_later(database: Database) -> None:
    store_batch(database)
    pause(database)
    with pytest.raises(StateError, match="was submitted without a budget"):
        resume(database, Budget(usd=Decimal(6)))


def test_resuming_wakes_the_seats_that_were_held(database: Database) -> None:
    held, other = seat_key("coder", Stage.CODER, "batch_1_001"), seat_key("coder", Stage.CODER, "other")
    store_batch(database, count=1, budget_usd=Decimal(5))
    store_run(database, "other")
    for key in (held, other):
        start_run(database, key.run_id)
        open_seats(database, key)
        assert claim(database, key=key) is not None
        with database.begin() as connection:
            assert stages.defer(connection, key, owner="me", wait_seconds=None, is_counted=False)
    set_batch(database, state=BatchState.PAUSED, pause_cause="budget")
    assert due(database) == []
    resume(database, Budget(usd=Decimal(6)))
    assert due(database) == [held]
    assert seat_row(database, held).deliveries == 0


def due(database: Database) -> list[SeatKey]:
    with database.begin() as connection:
        found = stages.take_overdue(connection, pending_seconds=60, limit=10)
        connection.rollback()
    return [key for key, _ in found]


def test_a_paused_batchs_runs_under_way_go_on_to_their_end(opened: Desk, models: ModelServer) -> None:
    database = opened.context.database
    (run_id,) = store_batch(database, count=1, team=chain_team(["openai/gpt-5"]))
    pause(database)
    opened.play(run_id)
    assert run_of(database, run_id).state is RunState.FINISHED
    with database.begin() as connection:
        assert batch_control.finish_ended(connection) == ["batch_1"]


def test_cancelling_stops_everything_before_any_run_says_so(opened: Desk, models: ModelServer) -> None:
    database = opened.context.database
    run_id, waiting = store_batch(database, count=2, team=chain_team(["openai/gpt-5"]))
    key = opened.open(run_id)
    assert cancel(database)
    assert run_of(database, run_id).state is RunState.RUNNING  # the sweep has not come yet
    assert opened.work(key) is None
    assert models.requests.total() == 0
    assert seat_row(database, key).state == SeatState.PENDING
    with database.begin() as connection:
        assert runs.cancelled_among(connection, [run_id, waiting]) == {run_id, waiting}
        assert batch_control.unswept(connection) == ["batch_1"]


def test_calls_in_flight_are_broken_off_by_the_next_heartbeat(opened: Desk, models: ModelServer) -> None:
    database = opened.context.database
    (run_id,) = store_batch(database, count=1, team=chain_team(["openai/gpt-5"]))
    key = opened.open(run_id)
    models.behave["gpt-5"] = HANG
    worker = threading.Thread(target=opened.work, args=(key,))
    worker.start()
    assert models.hanging.wait(10)
    cancel(database)
    with database.begin() as connection:
        stopped = runs.cancelled_among(connection, opened.gateway.runs_in_flight())
    assert stopped == {run_id}
    opened.gateway.cancel(run_id)
    worker.join(10)
    assert not worker.is_alive()
    assert opened.gateway.runs_in_flight() == []


def test_the_sweep_ends_rows_ledgers_seats_and_calls_in_chunks(
    opened: Desk, models: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dispatch, "SWEEP_CHUNK", 3)
    database = opened.context.database
    database.sign_with(signer())
    run_ids = store_batch(database, count=8, team=chain_team(["openai/gpt-5"]), budget_tokens=10**6)
    finish(database, run_ids[0])
    key = opened.open(run_ids[1])
    opened.work(key)
    lose_worker(database, seat_key("left", run_id=run_ids[1]))
    cancel(database)
    spent_before = batch_row(database).spent_tokens

    assert dispatch.sweep(opened.context, "batch_1") == 7

    assert run_of(database, run_ids[0]).state is RunState.FINISHED
    for run_id in run_ids[1:]:
        run = run_of(database, run_id)
        assert (run.state, run.finished_at is not None) == (RunState.CANCELLED, True)
        entries = events_of(database, run_id)
        assert entries[-1].kind == "run.cancelled"
        assert ledger.verify(entries, run_id=run_id, head=run.ledger_head, genesis=GENESIS) is None
        report = examine(exported(database, run_id), trusted=signer().trusted)
        assert (report.problems, report.signed_by) == ((), (signer().key_id,))
    assert kinds_of(database, run_ids[1])[-2:] == ["calls.sealed", "run.cancelled"]
    assert seat_row(database, seat_key("left", run_id=run_ids[1])).state == "cancelled"
    assert seat_row(database, key).state == "done"
    row = batch_row(database)
    assert (row.state, row.finished_at is not None) == ("cancelled", True)
    assert row.spent_tokens > spent_before  # the coder's call
    assert dispatch.sweep(opened.context, "batch_1") == 0
    assert kinds_of(database, run_ids[1]).count("run.cancelled") == 1


def test_a_sweep_that_died_is_taken_up_where_it_stopped(opened: Desk) -> None:
    database = opened.context.database
    run_ids = store_batch(database, count=5)
    cancel(database)
    with database.begin() as connection:
        assert batch_control.sweep(connection, "batch_1", at=opened.context.now(), most=2) == 2
    with database.begin() as connection:
        assert batch_control.unswept(connection) == ["batch_1"]
    assert dispatch.sweep(opened.context, "batch_1") == 3
    with database.begin() as connection:
        assert batch_control.unswept(connection) == []
    assert {run_of(database, run_id).state for run_id in run_ids} == {RunState.CANCELLED}


def test_two_sweeps_at_once_end_each_run_once(opened: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatch, "SWEEP_CHUNK", 4)
    database = opened.context.database
    run_ids = store_batch(database, count=30)
    cancel(database)
    counts: list[int] = []
    threads = [
        threading.Thread(target=lambda: counts.append(dispatch.sweep(opened.context, "batch_1")))
        for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(counts) == 30
    assert {tuple(kinds_of(database, run_id)) for run_id in run_ids} == {("run.created", "run.cancelled")}


def test_a_run_that_somebody_holds_is_swept_when_it_is_let_go(opened: Desk) -> None:
    """And the batch is not closed before."""
    database = opened.context.database
    held, other = store_batch(database, count=2)
    cancel(database)
    with database.begin() as connection, ledger.writer(connection, held):
        assert dispatch.sweep(opened.context, "batch_1") == 1
        assert batch_row(database).finished_at is None
    assert dispatch.sweep(opened.context, "batch_1") == 1
    assert batch_row(database).finished_at is not None
    assert run_of(database, other).state is RunState.CANCELLED


def test_webhooks_of_swept_runs_and_of_the_batch_are_noted_once(opened: Desk) -> None:
    database = opened.context.database
    run_ids = store_batch(database, count=3, webhook_url="https://example.org/batch")
    put_into_batch(database, run_ids[0], "batch_1", webhook_url="https://example.org/run")
    assert cancel(database)
    assert not cancel(database)
    dispatch.sweep(opened.context, "batch_1")
    assert told(database) == ["batch.cancelled", "run.cancelled"]


def test_a_cancelled_batch_is_never_rescued(opened: Desk) -> None:
    database = opened.context.database
    (run_id,) = store_batch(database, count=1)
    advance(opened.context, run_id)
    lose_worker(database, seat_key("coder", Stage.CODER, run_id))
    cancel(database)
    dispatch.sweep(opened.context, "batch_1")
    found = rescue(opened.context, pending_seconds=0, stalled_seconds=0, max_rescues=3)
    assert (found.seats, found.following) == ((), ())


def test_only_cancelled_batches_are_swept(opened: Desk) -> None:
    database = opened.context.database
    run_ids = store_batch(database, count=2)
    assert dispatch.sweep(opened.context, "batch_1") == 0
    assert {run_of(database, run_id).state for run_id in run_ids} == {RunState.QUEUED}
