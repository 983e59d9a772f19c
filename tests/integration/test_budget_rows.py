"""Reservations and bills as rows: under one lock, whoever asks, and settled at what a call cost."""

from __future__ import annotations

import threading
from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from tests.integration.stored_runs import (
    AT,
    finish,
    open_seats,
    run_of,
    seat_key,
    seat_row,
    store_run,
)
from tests.integration.test_call_rows import new_call, reply
from workers.core.budget import Amount, Budget, Refusal
from workers.core.run import Stage
from workers.errors import IdempotencyConflictError
from workers.provenance.models import calls as calls_table
from workers.provenance.repository import budgets, calls, runs
from workers.provenance.repository.stages import SeatKey
from workers.provenance.repository.usage import run_spending, seat_spending, usage_of
from workers.provenance.session import Database

LEFT, LEAD = seat_key("left"), seat_key("lead", Stage.LEAD)


def amount(usd: str, tokens: int = 0) -> Amount:
    return Amount(output_tokens=tokens, usd=Decimal(usd))


def store(
    database: Database, usd: str | None = "1", tokens: int | None = None, share: Amount | None = None
) -> None:
    """A run with a budget and two open seats, the lead's among them."""
    budget = Budget(usd=None if usd is None else Decimal(usd), tokens=tokens)
    store_run(database, budget=budget, lead_share=share or Amount())
    open_seats(database, LEFT, LEAD)


def send(database: Database, call_id: str, worst: Amount, key: SeatKey = LEFT) -> Refusal | None:
    """As a stage does: reserve and write in one transaction."""
    with database.begin() as connection:
        refused = budgets.reserve(connection, key.run_id, worst, is_lead=key.stage is Stage.LEAD)
        if refused is None:
            assert calls.sent(connection, new_call(call_id, key, worst=worst), is_reserved=True)
        return refused


def row_of(database: Database, call_id: str) -> Any:
    with database.begin() as connection:
        return connection.execute(calls_table.select().where(calls_table.c.call_id == call_id)).one()


def test_without_a_reservation_a_call_of_a_run_with_a_budget_is_not_written(database: Database) -> None:
    for number, budget in enumerate([Budget(usd=Decimal(1)), Budget(tokens=1)]):
        run_id = f"run_{number}"
        store_run(database, run_id, budget=budget)
        key = seat_key(run_id=run_id)
        open_seats(database, key)
        with database.single() as connection:
            assert calls.sent(connection, new_call("c1", key)) is False
        with database.begin() as connection:
            assert connection.execute(calls_table.select()).all() == []
        assert seat_row(database, key).attempts == 0


def test_a_run_without_a_budget_takes_every_call(database: Database) -> None:
    store(database, None)
    assert send(database, "c1", amount("900000", 2**30)) is None


def test_open_calls_count_at_their_worst_case_and_ended_ones_at_their_cost(database: Database) -> None:
    store(database)
    assert send(database, "c1", amount("0.6")) is None
    refused = send(database, "c2", amount("0.5"))
    assert refused is not None
    assert (refused.scope, refused.unit, refused.account.reserved.usd) == ("run", "usd", Decimal("0.6"))
    with database.single() as connection:
        calls.done(connection, "c1", reply(output_tokens=5), rung=1, cost_usd=Decimal("0.5"))
    # 0.5 spent and 0.5 asked is the whole of it.
    assert send(database, "c3", amount("0.5")) is None
    assert send(database, "c4", amount("0.000001")) is not None


def test_nobody_but_the_lead_gets_the_leads_share(database: Database) -> None:
    store(database, share=amount("0.7"))
    assert send(database, "c1", amount("0.3")) is None
    assert send(database, "c2", amount("0.000001")) is not None
    assert send(database, "c3", amount("0.7"), LEAD) is None


def test_a_budget_in_tokens_counts_both_sides(database: Database) -> None:
    store(database, None, 100, Amount(input_tokens=20, output_tokens=10, usd=None))
    assert send(database, "c1", Amount(input_tokens=40, output_tokens=30, usd=None)) is None
    refused = send(database, "c2", Amount(input_tokens=1, usd=None))
    assert refused is not None
    assert (refused.unit, refused.account.lead_share.tokens) == ("tokens", 30)
    with database.single() as connection:
        calls.done(connection, "c1", reply(input_tokens=40, output_tokens=10), rung=1)
    # 50 spent, 30 kept: 20 are left.
    assert send(database, "c3", Amount(input_tokens=20, usd=None)) is None


def test_twenty_at_once_never_pass_the_limit(database_url: str, database: Database) -> None:
    """Budget 1, share 0.3, calls of 0.1: exactly seven fit, whoever comes first."""
    store(database, share=amount("0.3"))
    pool = Database(database_url, pool_size=20)
    gate = threading.Barrier(20)
    answers: list[Refusal | None] = []

    def ask(number: int) -> None:
        gate.wait(timeout=10)
        answers.append(send(pool, f"c{number}", amount("0.1")))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    pool.close()
    assert (len(answers), answers.count(None)) == (20, 7)
    with database.begin() as connection:
        used = usage_of(connection, "run_1")
    assert (used.calls, used.reserved.usd) == (7, Decimal("0.7"))


def test_twenty_that_reserve_and_settle_in_turn_never_pass_the_limit(
    database_url: str, database: Database
) -> None:
    """Each call costs its whole worst case, so whatever the order, ten of 0.1 are all that one dollar buys."""
    store(database)
    pool = Database(database_url, pool_size=20)
    gate = threading.Barrier(20)
    sent: list[str] = []

    def work(number: int) -> None:
        gate.wait(timeout=10)
        for turn in range(3):
            call_id = f"c{number}-{turn}"
            if send(pool, call_id, amount("0.1")) is None:
                sent.append(call_id)
                with pool.single() as connection:
                    calls.done(connection, call_id, reply(), rung=1, cost_usd=Decimal("0.1"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    pool.close()
    with database.begin() as connection:
        used = usage_of(connection, "run_1")
    assert (len(sent), used.cost_usd) == (10, Decimal("1.000000"))


def test_a_repeat_holds_back_its_worst_case_besides(database: Database) -> None:
    store(database)
    assert send(database, "c1", Amount(input_tokens=3, output_tokens=4, usd=Decimal("0.4"))) is None
    with database.begin() as connection:
        more = Amount(input_tokens=3, output_tokens=4, usd=Decimal("0.4"))
        calls.sent_again(connection, "c1", LEFT, more)
    row = row_of(database, "c1")
    assert (row.http_requests, row.reserved_usd) == (2, Decimal("0.8"))
    assert (row.reserved_input_tokens, row.reserved_output_tokens) == (6, 8)
    assert send(database, "c2", amount("0.3")) is not None


def test_a_bill_keeps_every_kind_of_token(seated: Database) -> None:
    usage = {"input_tokens": 1237, "cached_input_tokens": 611, "cache_write_input_tokens": 313}
    with seated.begin() as connection:
        calls.sent(connection, new_call("c1"))
        calls.done(connection, "c1", reply(output_tokens=97, **usage), rung=1, cost_usd=Decimal("0.123456"))
        used = usage_of(connection, "run_1")
        spent = seat_spending(connection, seat_key())
    row = row_of(seated, "c1")
    assert (row.input_tokens, row.cached_input_tokens, row.cache_write_input_tokens) == (1237, 611, 313)
    assert (row.output_tokens, row.cost_usd) == (97, Decimal("0.123456"))
    assert (used.cached_input_tokens, used.cache_write_input_tokens, used.unpriced_calls) == (611, 313, 0)
    assert spent == {
        "calls": 1,
        "input_tokens": 1237,
        "output_tokens": 97,
        "has_estimates": False,
        "cost_usd": 0.123456,
    }


def test_a_lost_call_is_billed_at_its_worst_case_and_listed(seated: Database) -> None:
    worst = Amount(input_tokens=30, output_tokens=4096, usd=Decimal("0.25"))
    with seated.begin() as connection:
        calls.sent(connection, new_call("c1", worst=worst))
        calls.sent(connection, new_call("c2"))
        calls.done(connection, "c2", reply(input_tokens=10, output_tokens=1), rung=1, cost_usd=Decimal("0.1"))
        assert calls.orphan_seats(connection, [seat_key("right"), seat_key()]) == 1
        assert calls.orphan_seats(connection, [seat_key()]) == 0
        assert calls.orphan_seats(connection, []) == 0
        used = usage_of(connection, "run_1")
    (orphan,) = used.orphaned
    assert (orphan.call_id, orphan.seat, orphan.model) == ("c1", "left", "birch-1")
    assert (orphan.output_tokens, orphan.cost_usd) == (4096, Decimal("0.25"))
    assert (used.input_tokens, used.output_tokens, used.cost_usd) == (40, 4097, Decimal("0.35"))
    assert (used.has_estimates, used.reserved.tokens) == (True, 0)
    row = row_of(seated, "c1")
    assert (row.state, row.error_kind, row.usage_is_estimated) == ("orphaned", "lost_worker", True)


def test_a_lost_call_that_answers_after_all_is_billed_at_what_it_cost(seated: Database) -> None:
    with seated.begin() as connection:
        calls.sent(connection, new_call("c1", worst=Amount(output_tokens=4096, usd=Decimal("0.25"))))
        calls.orphan_run(connection, "run_1")
    answered = partial(calls.done, completion=reply(output_tokens=7), rung=1, cost_usd=Decimal("0.0004"))
    with seated.single() as connection:
        assert not answered(connection, "c1")
    with seated.begin() as connection:
        assert answered(connection, "c1", is_late=True)
        used = usage_of(connection, "run_1")
    assert (used.orphaned, used.output_tokens, used.has_estimates) == ((), 7, False)
    assert used.cost_usd == Decimal("0.0004")


def test_a_cancelled_run_leaves_no_call_open(seated: Database) -> None:
    with seated.begin() as connection:
        calls.sent(connection, new_call("c1", worst=Amount(output_tokens=9, usd=None)))
    with seated.begin() as connection:
        runs.cancel(connection, "run_1", tenant_id="default", at=AT)
        used = usage_of(connection, "run_1")
    assert [orphan.output_tokens for orphan in used.orphaned] == [9]
    assert (used.cost_usd, used.unpriced_calls) == (None, 1)


def test_other_runs_and_ended_calls_are_left_alone(seated: Database) -> None:
    store_run(seated, "run_2")
    other = seat_key(run_id="run_2")
    open_seats(seated, other)
    with seated.begin() as connection:
        calls.sent(connection, new_call("c1", other))
        calls.sent(connection, new_call("c2"))
        calls.failed(connection, "c2", kind="overload", message="no", usage=None)
        assert calls.orphan_run(connection, "run_1") == 0
        assert calls.orphan_seats(connection, [seat_key()]) == 0
    assert (row_of(seated, "c1").state, row_of(seated, "c2").state) == ("sent", "failed")


def test_the_end_of_a_run_says_what_it_spent_and_by_how_much_too_much(database: Database) -> None:
    store(database, "0.5", 100)
    assert send(database, "c1", amount("0.4", 90)) is None
    with database.single() as connection:
        usage = {"input_tokens": 60, "output_tokens": 70, "is_estimated": True}
        calls.done(connection, "c1", reply(**usage), rung=1, cost_usd=Decimal("0.75"))
    with database.begin() as connection:
        spent = run_spending(connection, "run_1")
    assert spent == {
        "calls": 1,
        "unpriced_calls": 0,
        "input_tokens": 60,
        "output_tokens": 70,
        "has_estimates": True,
        "cost_usd": 0.75,
        "budget_usd": 0.5,
        "budget_tokens": 100,
        "overshoot_usd": 0.25,
        "overshoot_tokens": 30,
        "orphaned": [],
    }


def test_a_budget_is_part_of_what_an_idempotency_key_stands_for(database: Database) -> None:
    first = store_run(database, idempotency_key="k", budget=Budget(usd=Decimal("0.50")))
    assert run_of(database).budget_usd == Decimal("0.5")
    assert store_run(database, "run_2", idempotency_key="k", budget=Budget(usd=Decimal("0.5"))) == first
    with pytest.raises(IdempotencyConflictError):
        store_run(database, "run_3", idempotency_key="k", budget=Budget(usd=Decimal("0.6")))


def test_ending_a_run_needs_no_calls(database: Database) -> None:
    store(database)
    finish(database)
    with database.begin() as connection:
        assert run_spending(connection, "run_1")["cost_usd"] is None
