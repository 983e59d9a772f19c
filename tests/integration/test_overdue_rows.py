"""Which seats and runs a sweep finds, and that two sweeps find different ones."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import text

from tests.integration.stored_batches import put_into_batch, store_batch
from tests.integration.stored_runs import (
    AT,
    age_run,
    ago,
    claim,
    finish,
    open_seats,
    overdue,
    seat_key,
    seat_row,
    set_seat,
    settle,
    start_run,
    store_run,
)
from workers.core.run import SeatState, Stage
from workers.provenance.repository import runs, stages
from workers.provenance.repository.stages import SeatKey
from workers.provenance.session import Database

KEY = seat_key()


@pytest.mark.parametrize(
    ("values", "rescues"),
    [
        ({"state": SeatState.RUNNING, "lease_expires_at": ago(1)}, 1),
        ({"state": SeatState.RUNNING, "lease_expires_at": ago(1), "rescues": 2}, 3),
        ({"state": SeatState.PENDING, "enqueued_at": ago(61)}, 0),
        ({"state": SeatState.PENDING, "enqueued_at": ago(61), "rescues": 2}, 2),
        ({"state": SeatState.PENDING, "not_before": ago(1)}, 0),
    ],
)
def test_a_seat_is_overdue(seated: Database, values: dict[str, Any], rescues: int) -> None:
    set_seat(seated, KEY, owner="dead", **values)
    assert overdue(seated) == [(KEY, rescues)]
    row = seat_row(seated, KEY)
    assert (row.state, row.owner, row.lease_expires_at, row.not_before) == ("pending", None, None, None)
    assert row.rescues == rescues
    assert overdue(seated) == []


@pytest.mark.parametrize(
    "values",
    [
        {"state": SeatState.RUNNING, "lease_expires_at": ago(-5), "enqueued_at": ago(1000)},
        {"state": SeatState.PENDING, "enqueued_at": ago(59)},
        {"state": SeatState.PENDING, "enqueued_at": ago(1000), "not_before": ago(-5)},
        {"state": SeatState.DONE, "enqueued_at": ago(1000), "lease_expires_at": ago(1000)},
        {"state": SeatState.ABSTAINED, "enqueued_at": ago(1000), "lease_expires_at": ago(1000)},
        {"state": SeatState.FAILED, "enqueued_at": ago(1000), "not_before": ago(1000)},
        {"state": SeatState.CANCELLED, "enqueued_at": ago(1000), "not_before": ago(1000)},
    ],
)
def test_a_seat_is_not_overdue(seated: Database, values: dict[str, Any]) -> None:
    set_seat(seated, KEY, **values)
    before = seat_row(seated, KEY)
    assert overdue(seated) == []
    assert seat_row(seated, KEY) == before


def test_a_sweep_takes_the_oldest_first_and_no_more_than_it_may(seated: Database) -> None:
    keys = [seat_key(f"s{number}") for number in range(4)]
    open_seats(seated, *keys)
    for age, key in enumerate(keys):
        set_seat(seated, key, enqueued_at=ago(100 + age))
    assert [key for key, _ in overdue(seated, limit=3)] == [keys[3], keys[2], keys[1]]
    assert [key for key, _ in overdue(seated, limit=3)] == [keys[0]]


def of_batch(database: Database, *keys: SeatKey) -> None:
    """Seats of a run that belongs to a batch, opened."""
    store_batch(database)
    store_run(database, "run_2", spec="Another.")
    put_into_batch(database, "run_2", "batch_1", position=1)
    open_seats(database, *keys)


@pytest.mark.parametrize(
    ("in_line", "found"),
    [
        ({(Stage.PANEL, True)}, ["run_1"]),
        ({(Stage.PANEL, False)}, ["run_2"]),
        ({(Stage.CODER, True), (Stage.CODER, False)}, ["run_1", "run_2"]),
        ({(Stage.PANEL, True), (Stage.PANEL, False)}, []),
    ],
)
def test_only_messages_that_wait_behind_others_of_their_kind_are_waited_for(
    in_line: set[tuple[Stage, bool]], found: list[str], seated: Database
) -> None:
    batched = seat_key(run_id="run_2")
    of_batch(seated, batched)
    for key in (KEY, batched):
        set_seat(seated, key, enqueued_at=ago(61))
    taken = overdue(seated, late_seconds=600, in_line=in_line)
    assert [key.run_id for key, _ in taken] == found


def test_a_message_that_waited_too_long_even_for_a_line_counts_as_lost(seated: Database) -> None:
    set_seat(seated, KEY, enqueued_at=ago(601))
    assert overdue(seated, late_seconds=600, in_line={(Stage.PANEL, False)}) == [(KEY, 0)]


def test_a_run_of_its_own_is_rescued_before_batches_that_wait_longer(seated: Database) -> None:
    batched = [seat_key(f"s{number}", run_id="run_2") for number in range(3)]
    of_batch(seated, *batched)
    for key in batched:
        set_seat(seated, key, enqueued_at=ago(1000))
    set_seat(seated, KEY, enqueued_at=ago(61))
    assert [key for key, _ in overdue(seated, limit=2)] == [KEY, batched[0]]


def test_two_sweeps_at_once_take_different_seats_and_neither_waits(seated: Database) -> None:
    keys = [seat_key(f"s{number}") for number in range(4)]
    open_seats(seated, *keys)
    for age, key in enumerate(keys):
        set_seat(seated, key, enqueued_at=ago(100 + age))
    with seated.begin() as connection:
        first = stages.take_overdue(connection, pending_seconds=60, limit=2)
        with seated.begin() as other:
            other.execute(text("SET LOCAL lock_timeout = '1s'"))
            second = stages.take_overdue(other, pending_seconds=60, limit=4)
    assert {key for key, _ in first} | {key for key, _ in second} == set(keys)
    assert len(first) == len(second) == 2


def stalled(database: Database, idle_seconds: float = 20) -> list[str]:
    with database.begin() as connection:
        return stages.stalled_runs(connection, idle_seconds=idle_seconds, limit=10)


def test_an_open_run_without_an_open_seat_stalls_after_a_while(database: Database) -> None:
    store_run(database)
    assert stalled(database) == []
    age_run(database, 21)
    assert stalled(database) == ["run_1"]
    start_run(database)
    assert stalled(database) == ["run_1"]


def test_the_last_end_of_a_seat_is_what_a_stall_is_counted_from(seated: Database) -> None:
    claim(seated)
    settle(seated)
    open_seats(seated, seat_key("right"))
    set_seat(seated, seat_key("right"), state=SeatState.DONE, finished_at=ago(500))
    with seated.begin() as connection:
        connection.execute(text("UPDATE runs SET dispatched_at = now() - interval '1 hour'"))
    assert stalled(seated) == []
    age_run(seated, 21)
    assert stalled(seated) == ["run_1"]


def test_a_run_with_an_open_seat_or_an_end_is_not_stalled(database: Database) -> None:
    for run_id in ("run_1", "run_2", "run_3", "run_4"):
        store_run(database, run_id)
        age_run(database, 100, run_id)
    open_seats(database, seat_key(run_id="run_1"), seat_key(run_id="run_2"))
    set_seat(database, seat_key(run_id="run_2"), state=SeatState.RUNNING)
    finish(database, "run_3")
    with database.begin() as connection:
        runs.cancel(connection, "run_4", tenant_id="default", at=AT)
    assert stalled(database) == []


def test_stalled_runs_come_oldest_first_and_no_more_than_asked(database: Database) -> None:
    for number in range(3):
        store_run(database, f"run_{number}")
        age_run(database, 100 + number, f"run_{number}")
    with database.begin() as connection:
        assert stages.stalled_runs(connection, idle_seconds=20, limit=2) == ["run_2", "run_1"]
