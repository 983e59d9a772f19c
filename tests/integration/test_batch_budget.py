"""A batch's budget: never passed, however many runs ask at once, and nothing ends degraded for want of it.

A written token costs a tenth of a cent and a seat may write 256, so a call is 0.256 dollars at the worst and 0.005 in
fact (the model server bills 5)."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from tests.integration.conftest import price_of
from tests.integration.desk import Desk, chain_team, desk, providers_at
from tests.integration.model_server import ModelServer, error_500
from tests.integration.stored_batches import batch_row, store_batch
from tests.integration.stored_runs import kinds_of, run_of, seat_row, set_seat
from workers.core.budget import Amount, Budget
from workers.core.reply import CompletionRequest, Message
from workers.core.run import RunState, SeatState
from workers.provenance import ledger
from workers.provenance.repository import batch_control, budgets, calls, runs, stages
from workers.provenance.repository.calls import NewCall
from workers.provenance.repository.stages import HELD_UNTIL, SeatKey
from workers.provenance.session import Database
from workers.providers.base import AttemptsExhaustedError
from workers.providers.chain import parse_link
from workers.stages.context import RunCancelledError
from workers.stages.dispatch import sweep
from workers.stages.finish import finish_run
from workers.stages.recorded_call import RecordedCall
from workers.stages.rescue import rescue
from workers.wiring import now

WORST = Amount(output_tokens=256, usd=Decimal("0.256"))
TEAM = chain_team(["openai/gpt-5"])
REQUEST = CompletionRequest(model="gpt-5", messages=(Message(role="user", content="Go on."),), max_tokens=256)


@pytest.fixture
def opened(database: Database, redis_url: str, models: ModelServer) -> Iterator[Desk]:
    with desk(database, redis_url, providers_at(models)) as at:
        yield dataclasses.replace(at, context=dataclasses.replace(at.context, price_of=price_of))


def spent(database: Database) -> tuple[Decimal, int]:
    row = batch_row(database)
    return row.spent_usd, row.spent_tokens


def state(database: Database) -> tuple[str, str | None]:
    row = batch_row(database)
    return row.state, row.pause_cause


def new_call(call_id: str, key: SeatKey, worst: Amount = WORST) -> NewCall:
    asked = {"provider": "openai", "model": "gpt-5", "family": "gpt", "request": {}}
    return NewCall(call_id=call_id, key=key, link=0, worst=worst, **asked)  # type: ignore[arg-type]


def reserve(database: Database, key: SeatKey, call_id: str, wanted: Amount = WORST) -> Any:
    """Reserve and write the row in one transaction, as a stage does; the refusal, if there is one."""
    with database.begin() as connection:
        refusal = budgets.reserve(connection, key.run_id, wanted, is_lead=False)
        if refusal is None:
            assert calls.sent(connection, new_call(call_id, key, wanted), is_reserved=True)
        return refusal


def test_a_call_of_a_batch_with_a_budget_is_not_written_without_room(opened: Desk) -> None:
    database = opened.context.database
    (run_id,) = store_batch(database, count=1, budget_usd=Decimal(5), team=TEAM)
    key = opened.open(run_id)
    with database.begin() as connection:
        assert not calls.sent(connection, new_call("c", key))


def test_runs_that_ask_at_once_never_pass_the_budget_together(opened: Desk) -> None:
    """Room for four calls of 0.256 in 1.1 dollars; eight runs ask at the same moment."""
    database = opened.context.database
    run_ids = store_batch(database, count=8, budget_usd=Decimal("1.1"), team=TEAM)
    keys = [opened.open(run_id) for run_id in run_ids]
    gate, refusals = threading.Barrier(8), []

    def ask(key: SeatKey) -> None:
        gate.wait(10)
        refusals.append(reserve(database, key, f"call {key.run_id}"))

    threads = [threading.Thread(target=ask, args=(key,)) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = [refusal for refusal in refusals if refusal is not None]
    assert len(refused) == 4
    assert {(refusal.scope, refusal.unit, refusal.is_for_now) for refusal in refused} == {
        ("batch", "usd", True)
    }


def test_what_ended_runs_have_used_counts_and_is_not_counted_twice(opened: Desk) -> None:
    database = opened.context.database
    first, second, third = store_batch(database, count=3, budget_usd=Decimal(5), team=TEAM)
    opened.play(first)
    # Five calls of 5 tokens written and 7 read each (the model server's figures), a tenth of a cent a written token.
    assert run_of(database, first).state is RunState.FINISHED
    assert spent(database)[0] == Decimal("0.025")
    tokens = spent(database)[1]
    assert tokens > 25
    with database.begin() as connection:
        runs.cancel(connection, second, tenant_id="default", at=now())
    assert spent(database) == (Decimal("0.025"), tokens)
    key = opened.open(third)
    refusal = reserve(database, key, "c", Amount(usd=Decimal("4.976")))
    assert (refusal.account.spent.usd, refusal.is_for_now) == (Decimal("0.025"), False)
    assert refusal.account.spent.tokens == tokens
    assert reserve(database, key, "c", Amount(usd=Decimal("4.975"))) is None


def test_a_used_up_budget_pauses_the_batch_and_its_seats_wait_for_more(
    opened: Desk, models: ModelServer
) -> None:
    database = opened.context.database
    # One call's worst case fits, and after it (0.005) no other: 0.26 - 0.005 < 0.256.
    run_ids = store_batch(
        database, count=2, budget_usd=Decimal("0.26"), team=TEAM, webhook_url="https://example.org/hook"
    )
    opened.play(run_ids[0])

    assert models.requests.total() == 1
    assert state(database) == ("paused", "budget")
    for seat in ("left", "right"):
        row = seat_row(database, SeatKey(run_id=run_ids[0], round=1, stage="panel", seat=seat))  # type: ignore[arg-type]
        assert (row.state, row.not_before, row.deliveries) == (SeatState.PENDING, HELD_UNTIL, 0)
    assert kinds_of(database, run_ids[0])[-2:] == ["seat.held", "seat.held"]
    assert rescue(opened.context, pending_seconds=0, stalled_seconds=0, max_rescues=0).seats == ()
    with database.begin() as connection:
        assert connection.exec_driver_sql("SELECT event FROM webhook_deliveries").scalars().all() == [
            "batch.paused"
        ]
        batch_control.resume(connection, "batch_1", tenant_id="default", budget=Budget(usd=Decimal(5)))

    found = rescue(opened.context, pending_seconds=0, stalled_seconds=60, max_rescues=3)
    assert {key.seat for key in found.seats} == {"left", "right"}
    for key in found.seats:
        step = opened.work(key)
    assert step is not None
    opened.play(run_ids[1])
    assert run_of(database, run_ids[1]).outcome == "accepted"


def test_a_budget_in_tokens_holds_too(opened: Desk, models: ModelServer) -> None:
    database = opened.context.database
    (run_id,) = store_batch(database, count=1, budget_tokens=100, team=TEAM)
    opened.play(run_id)
    assert models.requests.total() == 0
    assert state(database) == ("paused", "budget")


def test_a_seat_whose_room_is_only_promised_to_others_comes_back_by_itself(opened: Desk) -> None:
    """0.5 dollars: the other's call holds 0.256 and will cost less."""
    database = opened.context.database
    first, second = store_batch(database, count=2, budget_usd=Decimal("0.5"), team=TEAM)
    keys = [opened.open(first), opened.open(second)]
    assert reserve(database, keys[0], "under way") is None

    opened.work(keys[1])

    assert state(database) == ("running", None)
    row = seat_row(database, keys[1])
    assert (row.state, row.deliveries, row.not_before < HELD_UNTIL) == (SeatState.PENDING, 0, True)
    with database.begin() as connection:
        calls.failed(connection, "under way", kind="overload", message="boom", usage=None)
    set_seat(database, keys[1], not_before=now())
    opened.work(keys[1])
    assert seat_row(database, keys[1]).state == SeatState.DONE


def test_a_budget_raised_between_the_refusal_and_the_pause_lets_the_seat_try_again(opened: Desk) -> None:
    database = opened.context.database
    store_batch(database, count=1, budget_usd=Decimal(2), team=TEAM)
    with database.begin() as connection:
        assert not batch_control.exhaust(connection, "batch_1", Budget(usd=Decimal(1)))
    assert state(database) == ("running", None)
    with database.begin() as connection:
        assert batch_control.exhaust(connection, "batch_1", Budget(usd=Decimal(2)))
    assert state(database) == ("paused", "budget")


def test_retries_are_paid_from_the_batchs_budget(opened: Desk, models: ModelServer) -> None:
    """0.6 dollars: the request and one repeat hold 0.512 together; a third would not fit. Both failed unbilled."""
    database = opened.context.database
    models.behave["gpt-5"] = error_500
    (run_id,) = store_batch(database, count=1, budget_usd=Decimal("0.6"), team=TEAM)
    opened.play(run_id)
    assert models.requests["gpt-5"] == 2
    assert run_of(database, run_id).outcome == "degraded"  # its models failed it, not its budget


def test_a_swept_run_is_charged_once(opened: Desk) -> None:
    database = opened.context.database
    (run_id,) = store_batch(database, count=1, budget_usd=Decimal(5), team=TEAM)
    key = opened.open(run_id)
    opened.work(key)
    assert spent(database) == (Decimal(0), 0)  # its run has not ended
    with database.begin() as connection:
        batch_control.cancel(connection, "batch_1", tenant_id="default")
    sweep(opened.context, "batch_1")
    assert spent(database)[0] == Decimal("0.005")
    sweep(opened.context, "batch_1")
    assert spent(database)[0] == Decimal("0.005")


def zombie(opened: Desk, **columns: Any) -> RecordedCall:
    """A call of a worker that was thought lost, still open when its run has nothing left but to end."""
    (run_id,) = store_batch(opened.context.database, count=1, team=TEAM, **columns)
    key = opened.open(run_id)
    link = parse_link("openai/gpt-5")
    call = RecordedCall.send(opened.context, key, link, REQUEST, number=0)
    with opened.context.database.begin() as connection, ledger.writer(connection, run_id):
        assert stages.give_up(connection, key, state=SeatState.FAILED, cause="lost_worker", detail="dead")
    return call


def test_the_end_of_a_run_and_a_lost_workers_repeat_never_wait_for_each_other(opened: Desk) -> None:
    """The repeat holds the batch and wants its call's row; the end took them the other way round."""
    call = zombie(opened, budget_usd=Decimal(5))
    database, run_id = opened.context.database, call.key.run_id
    with database.begin() as connection:
        assert budgets.reserve(connection, run_id, WORST, is_lead=False) is None
        ending = threading.Thread(target=finish_run, args=(opened.context, run_id))
        ending.start()
        until_waiting(database)
        assert calls.sent_again(connection, call.call_id, call.key, WORST)
    ending.join(10)
    assert run_of(database, run_id).state is RunState.FINISHED
    # The orphan's two requests at their worst.
    assert spent(database)[0] == 2 * call.worst.usd  # type: ignore[operator]


def until_waiting(database: Database) -> None:
    """Until some transaction waits for a row."""
    deadline = time.monotonic() + 10
    waiting = 0
    while not waiting:
        assert time.monotonic() < deadline
        with database.begin() as connection:
            waiting = connection.exec_driver_sql(
                "SELECT count(*) FROM pg_locks WHERE NOT granted"
            ).scalar_one()


@pytest.mark.parametrize("columns", [{"budget_usd": Decimal(5)}, {}])
def test_a_worker_that_was_thought_lost_asks_nothing_more_once_its_run_has_ended(
    columns: dict[str, Any], opened: Desk
) -> None:
    """No row would say what it cost: the run was charged to its batch when it ended."""
    call = zombie(opened, **columns)
    finish_run(opened.context, call.key.run_id)
    before = spent(opened.context.database)
    with pytest.raises(RunCancelledError, match="is over"):
        RecordedCall.send(opened.context, call.key, call.link, REQUEST, number=1)
    with pytest.raises(AttemptsExhaustedError, match="its call is over"):
        call.repeat()
    assert spent(opened.context.database) == before


def test_a_seat_between_two_calls_asks_nothing_more_of_a_cancelled_batch(opened: Desk) -> None:
    """The heartbeat breaks off calls; it never sees a seat that has none in flight."""
    database = opened.context.database
    (run_id,) = store_batch(database, count=1, team=TEAM)
    key = opened.open(run_id)
    with database.begin() as connection:
        assert stages.claim(connection, key, owner="me", lease_seconds=30) is not None
        batch_control.cancel(connection, "batch_1", tenant_id="default")
    with pytest.raises(RunCancelledError, match="is over"):
        RecordedCall.send(opened.context, key, parse_link("openai/gpt-5"), REQUEST, number=0)
