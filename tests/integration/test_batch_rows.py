"""Batches as rows: their runs are those that `runs.create` would have written, and their progress adds up."""

from __future__ import annotations

import datetime as dt
import threading
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from sqlalchemy import func, select, update

from tests.factories import team_data
from tests.integration.stored_runs import (
    AT,
    count,
    events_of,
    finish,
    new_run,
    open_seats,
    run_of,
    seat_key,
    set_seat,
    start_run,
    store_run,
)
from tests.integration.test_call_rows import new_call, reply
from workers.core.batch import BatchState, Progress
from workers.core.budget import Amount, Budget
from workers.core.run import Outcome, RunState, SeatState, Stage
from workers.errors import DeadlockError, IdempotencyConflictError
from workers.provenance import ledger
from workers.provenance.digest import GENESIS, canonical, digest
from workers.provenance.models import events, payloads
from workers.provenance.models import runs as runs_table
from workers.provenance.repository import batches, bulk_runs, calls
from workers.provenance.repository.batches import Batch, Failure, NewBatch
from workers.provenance.repository.bulk_runs import PreparedRun, prepare
from workers.provenance.session import Database

TEAM_DIGEST = digest(canonical(team_data()))


def prepared(position: int, *, lead_share: Amount | None = None, **changes: Any) -> PreparedRun:
    given = {"spec": f"Write function {position}.", **changes}
    new = new_run(f"run_{position}", lead_share=lead_share or Amount(), **given)
    return prepare(new, position=position, team_digest=TEAM_DIGEST, lead_share=lead_share)


def store_batch(
    database: Database, *runs: PreparedRun, batch_id: str = "batch_1", **changes: Any
) -> tuple[Batch, bool]:
    values = {"request_digest": "d", "run_count": len(runs), "teams": [team_data()], **changes}
    with database.begin() as connection:
        return batches.create(connection, NewBatch(batch_id=batch_id, **values), runs, at=AT)


FULL = {
    "spec": "Schreib größer(a, b).",
    "files": {"b.py": "y = 2\n", "a.py": "x = 1\n"},
    "tests": {"t.py": "assert True\n"},
    "review": {"left_out": [], "parts": {}, "removed": {}},
    "metadata": {"z": [1, None, {"deep": "é"}], "a": 0.1},
    "external_id": "mine/1",
    "priority": 7,
    "budget": Budget(usd=Decimal("1.25"), tokens=90_000),
}


@pytest.mark.parametrize(
    "changes", [{}, FULL, {"budget": Budget(tokens=5)}, {"budget": Budget(usd=Decimal(3))}]
)
def test_a_run_of_a_batch_is_the_row_and_the_event_that_a_single_run_is(
    database: Database, changes: dict[str, Any]
) -> None:
    share = Amount(input_tokens=100, output_tokens=11, usd=Decimal("0.5")) if "budget" in changes else None
    given = {"spec": "Add two numbers.", **changes}
    # Nothing of the id is in what is compared.
    store_run(database, "run_alone", lead_share=share or Amount(), **given)
    store_batch(database, PreparedRun.of_record(prepared(1, lead_share=share, **given).as_record()))

    own = {"run_id", "batch_id", "position", "dispatched_at", "created_at", "ledger_head"}
    with database.begin() as connection:
        rows = {row.run_id: row._mapping for row in connection.execute(select(runs_table))}
        bodies = {row.digest: row.body for row in connection.execute(select(payloads))}
    alone, one = rows["run_alone"], rows["run_1"]
    assert {name: value for name, value in one.items() if name not in own} == {
        name: value for name, value in alone.items() if name not in own
    }
    assert (one["batch_id"], one["position"], one["dispatched_at"]) == ("batch_1", 1, None)
    (created,), (entry,) = events_of(database, "run_alone"), events_of(database, "run_1")
    assert (entry.seq, entry.kind, entry.at, entry.payload) == (1, "run.created", AT, created.payload)
    assert ledger.verify([entry], run_id="run_1", head=one["ledger_head"], genesis=GENESIS) is None
    assert all(digest(body) == key for key, body in bodies.items())


def test_the_ledger_of_a_batchs_run_goes_on_like_any_other(database: Database) -> None:
    store_batch(database, prepared(1), prepared(2))
    finish(database, "run_2")
    entries = events_of(database, "run_2")
    assert [(entry.seq, entry.kind) for entry in entries] == [(1, "run.created"), (2, "run.finished")]
    run = run_of(database, "run_2")
    assert ledger.verify(entries, run_id="run_2", head=run.ledger_head, genesis=GENESIS) is None


def test_chunks_end_at_their_number_of_runs_and_at_their_bytes(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_runs, "CHUNK_BYTES", 1000)
    monkeypatch.setattr(bulk_runs, "CHUNK_RUNS", 3)
    sizes = [10, 10, 10, 10, 600, 600, 5000, 10]
    runs = [prepared(n, spec=str(n) * size) for n, size in enumerate(sizes, start=1)]
    # Three at most; 10 and 600 fit into a thousand together, two of 600 do not, and 5000 goes alone.
    assert [len(chunk) for chunk in bulk_runs._chunks(runs)] == [3, 2, 1, 1, 1]
    store_batch(database, *runs)
    with database.begin() as connection:
        positions = connection.execute(
            select(runs_table.c.position).order_by(runs_table.c.position)
        ).scalars()
        assert list(positions) == list(range(1, 9))
        assert count(connection, "events") == 8


def test_memory_holds_one_chunk_of_a_batch(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bulk_runs, "CHUNK_RUNS", 4)
    read = 0

    def runs() -> Iterator[PreparedRun]:
        nonlocal read
        for position in range(1, 21):
            read += 1
            yield prepared(position)

    seen: list[tuple[int, int]] = []
    with database.begin() as connection:
        written = bulk_runs._insert

        def counted(connection: Any, chunk: Any, **values: Any) -> None:
            seen.append((read, len(chunk)))
            written(connection, chunk, **values)

        monkeypatch.setattr(bulk_runs, "_insert", counted)
        batches.create(
            connection,
            NewBatch(batch_id="batch_1", request_digest="d", run_count=20, teams=[team_data()]),
            runs(),
            at=AT,
        )
    # One is read ahead, to see that a chunk is full.
    assert seen == [(5, 4), (9, 4), (13, 4), (17, 4), (20, 4)]


def test_a_batch_that_breaks_off_while_it_is_written_leaves_nothing(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_runs, "CHUNK_RUNS", 2)

    def runs() -> Iterator[PreparedRun]:
        yield from (prepared(1), prepared(2), prepared(3))
        raise ConnectionError("the API was killed")

    with pytest.raises(ConnectionError), database.begin() as connection:
        batches.create(
            connection, NewBatch(batch_id="batch_1", request_digest="d", teams=[team_data()]), runs(), at=AT
        )
    with database.begin() as connection:
        assert [count(connection, table) for table in ("batches", "runs", "events", "payloads")] == [0] * 4


def test_the_same_key_gives_the_batch_that_is_there_and_reads_no_run(database: Database) -> None:
    first, is_new = store_batch(database, prepared(1), idempotency_key="k")
    assert is_new

    def none() -> Iterator[PreparedRun]:
        raise AssertionError("nothing is to be read")
        yield

    repeated = NewBatch(batch_id="batch_2", request_digest="d", idempotency_key="k")
    with database.begin() as connection:
        assert batches.find_repeat(connection, repeated) == first
        assert batches.create(connection, repeated, none(), at=AT) == (first, False)
    with pytest.raises(IdempotencyConflictError, match="was used for batch batch_1 with other lines"):
        store_batch(database, prepared(2), batch_id="batch_3", request_digest="e", idempotency_key="k")
    with database.begin() as connection:
        assert count(connection, "batches") == 1


def test_of_two_batches_that_wait_for_each_other_one_is_told_to_try_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_runs, "CHUNK_RUNS", 1)
    store_batch(database, prepared(99), batch_id="batch_0")  # the tenant and the team are there
    both = threading.Barrier(2)
    ends: list[str] = []

    def submit(base: int, first: str, second: str) -> None:
        def runs() -> Iterator[PreparedRun]:
            yield prepared(base + 1, spec=first)
            yield prepared(base + 2, spec=second)
            # A chunk is written when the run after it has been read: the first is, the second is not.
            both.wait(timeout=10)
            yield prepared(base + 3)

        new = NewBatch(batch_id=f"batch_{base}", request_digest="d", teams=[team_data()])
        try:
            with database.begin() as connection:
                batches.create(connection, new, runs(), at=AT)
            ends.append("stored")
        except DeadlockError as error:
            ends.append(str(error))

    threads = [
        threading.Thread(target=submit, args=(100, "one", "two")),
        threading.Thread(target=submit, args=(200, "two", "one")),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    assert sorted(ends) == ["stored", "two transactions waited for each other; try again"]


def test_every_run_of_a_batch_is_counted_in_one_place(database: Database) -> None:
    store_batch(database, *(prepared(n) for n in range(1, 9)))
    store_run(database, "run_alone")
    with database.begin() as connection:
        connection.execute(
            update(runs_table)
            .where(runs_table.c.position >= 2, runs_table.c.position <= 7)
            .values(dispatched_at=func.now())
        )
    start_run(database, "run_3")
    for number, outcome in ((4, Outcome.ACCEPTED), (5, Outcome.REJECTED), (6, Outcome.DEGRADED)):
        finish(database, f"run_{number}", outcome)
    with database.begin() as connection:
        for position in (7, 8):
            connection.execute(
                update(runs_table).where(runs_table.c.position == position).values(state=RunState.CANCELLED)
            )
        # The accepted one ended before the time over which the rate is taken.
        connection.execute(
            update(runs_table)
            .where(runs_table.c.position == 4)
            .values(finished_at=func.now() - dt.timedelta(seconds=301))
        )
    with database.begin() as connection:
        found = batches.progress(connection, "batch_1")
    assert found.progress == Progress(waiting=1, running=2, accepted=1, rejected=1, degraded=1, cancelled=2)
    assert found.finished_lately == 2


def test_failures_are_counted_by_run_and_cause_in_degraded_runs_alone(database: Database) -> None:
    store_batch(database, *(prepared(n) for n in range(1, 4)))
    failed = [
        (1, "left", Stage.PANEL, SeatState.ABSTAINED, "timeout"),
        (1, "right", Stage.PANEL, SeatState.ABSTAINED, "timeout"),
        (2, "left", Stage.PANEL, SeatState.ABSTAINED, "timeout"),
        (2, "lead", Stage.LEAD, SeatState.FAILED, "auth"),
        (2, "coder", Stage.CODER, SeatState.DONE, None),
        (3, "left", Stage.PANEL, SeatState.ABSTAINED, "timeout"),
    ]
    for number, seat, stage, state, cause in failed:
        key = seat_key(seat, stage, f"run_{number}")
        open_seats(database, key)
        set_seat(database, key, state=state, cause=cause)
    for number, outcome in ((1, Outcome.DEGRADED), (2, Outcome.DEGRADED), (3, Outcome.ACCEPTED)):
        finish(database, f"run_{number}", outcome)
    with database.begin() as connection:
        found = batches.failures(connection, "batch_1")
    assert found == [
        Failure(stage="panel", cause="timeout", runs=2),
        Failure(stage="lead", cause="auth", runs=1),
    ]


def test_the_spending_of_a_batch_is_the_sum_over_its_runs_alone(database: Database) -> None:
    store_batch(database, prepared(1), prepared(2))
    store_run(database, "run_alone")
    for run_id, call_id in (("run_1", "c1"), ("run_1", "c2"), ("run_2", "c3"), ("run_alone", "c4")):
        key = seat_key("left", run_id=run_id)
        open_seats(database, key)
        with database.begin() as connection:
            calls.sent(connection, new_call(call_id, key))
            calls.done(
                connection,
                call_id,
                reply(input_tokens=100, output_tokens=10),
                rung=None,
                cost_usd=None if call_id == "c2" else Decimal("0.25"),
            )
    with database.begin() as connection:
        spent = batches.spending(connection, "batch_1")
    assert (spent.calls, spent.unpriced_calls, spent.input_tokens, spent.output_tokens) == (3, 1, 300, 30)
    assert spent.cost_usd == Decimal("0.5")


def test_a_new_batch_is_running_and_has_not_started(database: Database) -> None:
    batch, _ = store_batch(database, prepared(1))
    assert (batch.state, batch.started_at, batch.finished_at) == (BatchState.RUNNING, None, None)
    with database.begin() as connection:
        assert batches.get(connection, "batch_1") == batch
        assert connection.execute(select(func.count()).select_from(events)).scalar_one() == 1
