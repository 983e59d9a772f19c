"""What the dispatcher takes out of the database: fairly, once, and only what may go."""

from __future__ import annotations

import dataclasses
import datetime as dt
import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import func, insert, update

from tests.factories import make_team
from tests.integration.desk import desk
from tests.integration.stored_batches import batch_row, put_into_batch, set_batch, store_batch
from tests.integration.stored_runs import (
    age_run,
    finish,
    run_of,
    seat_key,
    set_seat,
    start_run,
    store_run,
)
from workers.core.batch import BatchState
from workers.core.run import Close, Enqueue, RunState, Stage
from workers.core.shares import Room
from workers.provenance.models import provider_states
from workers.provenance.models import runs as runs_table
from workers.provenance.repository import batch_control, budgets, dispatch, stages
from workers.provenance.session import Database
from workers.stages.context import Context
from workers.stages.dispatch import Window, run_ended, tick
from workers.stages.finish import finish_run
from workers.stages.seat import advance

OWN = frozenset({("openai", "digest")})


@pytest.fixture
def context(database: Database, redis_url: str) -> Iterator[Context]:
    with desk(database, redis_url, {}) as opened:
        yield opened.context


def window(runs: int = 10, seats: int = 10_000) -> Window:
    return Window(room=Room(runs=runs, seats=seats), own_accounts=OWN)


def sent_of(taken: tuple[str, ...], batch_id: str) -> list[str]:
    return [run_id for run_id in taken if run_id.startswith(f"{batch_id}_")]


def dispatched(database: Database) -> int:
    with database.begin() as connection:
        return int(connection.scalar(func.count(runs_table.c.dispatched_at).select()) or 0)


def test_a_window_of_runs_goes_out_by_priority_and_line(context: Context, database: Database) -> None:
    run_ids = store_batch(database, count=5)
    put_into_batch(database, run_ids[0], "batch_1", priority=3)

    assert tick(context, window(3)) == tuple(run_ids[1:4])
    assert tick(context, window(3)) == ()  # the window is full
    assert batch_row(database).started_at is not None

    finish(database, run_ids[1])
    finish(database, run_ids[2])
    assert tick(context, window(3)) == (run_ids[4], run_ids[0])


def test_two_batches_share_the_window_equally_whatever_their_sizes(
    context: Context, database: Database
) -> None:
    store_batch(database, "huge", count=20)
    store_batch(database, "small", count=6)
    taken = tick(context, window(10))
    assert (len(sent_of(taken, "huge")), len(sent_of(taken, "small"))) == (5, 5)


def test_the_batch_with_the_lower_number_goes_first_and_keeps_to_its_concurrency(
    context: Context, database: Database
) -> None:
    store_batch(database, "later", count=20, priority=5)
    store_batch(database, "first", count=20, priority=1, concurrency=4)
    taken = tick(context, window(10))
    assert (len(sent_of(taken, "first")), len(sent_of(taken, "later"))) == (4, 6)


def test_batches_take_turns_where_there_is_room_for_one_run_only(
    context: Context, database: Database
) -> None:
    for name in ("a", "b", "c"):
        store_batch(database, name, count=3)
    order = []
    for _ in range(6):
        (run_id,) = tick(context, window(1))
        order.append(run_id[0])
        finish(database, run_id)
    assert order == ["a", "b", "c", "a", "b", "c"]


def test_wide_panels_fill_the_seats_before_the_window(context: Context, database: Database) -> None:
    """Two reviewers a run: nine seats have room for four runs."""
    store_batch(database, count=20)
    assert len(tick(context, window(10, seats=9))) == 4
    assert tick(context, window(10, seats=9)) == ()
    assert len(tick(context, window(10, seats=10))) == 1


@pytest.mark.parametrize(
    "state",
    [
        {"state": BatchState.PAUSED, "pause_cause": "user"},
        {"state": BatchState.PAUSED, "pause_cause": "budget"},
        {"state": BatchState.CANCELLED},
    ],
)
def test_a_batch_that_does_not_run_is_sent_nothing(
    state: dict[str, str], context: Context, database: Database
) -> None:
    store_batch(database, count=3, **state)
    assert tick(context, window()) == ()
    assert dispatched(database) == 0


def test_runs_of_a_paused_batch_hold_their_places_those_without_money_do_not(
    context: Context, database: Database
) -> None:
    store_batch(database, "paused", count=4)
    assert len(tick(context, window(4))) == 4
    store_batch(database, "next", count=8)
    set_batch(database, "paused", state=BatchState.PAUSED, pause_cause="user")
    assert tick(context, window(4)) == ()
    set_batch(database, "paused", pause_cause="budget")
    assert len(tick(context, window(4))) == 4


def test_only_one_dispatches_at_a_time(context: Context, database: Database) -> None:
    store_batch(database, count=5)
    with database.begin() as connection:
        assert dispatch.is_alone(connection)
        assert tick(context, window()) == ()
        assert dispatched(database) == 0
    assert len(tick(context, window())) == 5


def test_many_at_once_send_each_run_once(context: Context, database: Database) -> None:
    store_batch(database, count=40)
    taken: list[str] = []
    threads = [threading.Thread(target=lambda: taken.extend(tick(context, window(40)))) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    taken.extend(tick(context, window(40)))
    assert len(taken) == len(set(taken)) == 40


def test_the_dispatcher_waits_for_nobody_who_holds_the_batchs_row(
    context: Context, database: Database
) -> None:
    """Runs that end together, or reserve money, hold it nearly all the time."""
    run_ids = store_batch(database, count=3)
    with database.begin() as connection:
        budgets.hold_batch(connection, "batch_1")
        assert tick(context, window()) == tuple(run_ids)


def test_a_batch_paused_between_the_plan_and_the_taking_is_sent_nothing(database: Database) -> None:
    store_batch(database, count=3)
    with database.begin() as connection:
        assert [batch.waiting for batch in dispatch.open_batches(connection, most=2)] == [2]
        batch_control.pause(connection, "batch_1", tenant_id="default")
        assert dispatch.take(connection, "batch_1", 3) == []


def account_is(database: Database, state: str, left_seconds: float) -> None:
    until = func.now() + dt.timedelta(seconds=left_seconds)
    with database.begin() as connection:
        connection.execute(provider_states.delete())
        connection.execute(
            insert(provider_states).values(provider="openai", key_digest="digest", state=state, until=until)
        )


@pytest.mark.parametrize("kind", ["quota", "auth", "overload"])
def test_nothing_is_sent_while_every_provider_is_away_and_then_one_run_tries(
    kind: str, context: Context, database: Database
) -> None:
    run_ids = store_batch(database, count=5)
    account_is(database, kind, 600)
    assert tick(context, window()) == ()
    account_is(database, kind, -1)
    assert tick(context, window()) == (run_ids[0],)
    assert tick(context, window()) == ()  # the one that tries has not come back
    account_is(database, "good", 0)
    assert tick(context, window()) == tuple(run_ids[1:])


def test_no_further_run_is_sent_while_many_seats_come_and_go_without_having_asked(
    context: Context, database: Database
) -> None:
    """One seat in sixteen may: of 32 seats two."""
    run_ids = store_batch(database, count=6)
    tick(context, window(3))
    keys = [seat_key("coder", Stage.CODER, run_id) for run_id in run_ids[:3]]
    for key in keys:
        advance(context, key.run_id)
    for key in keys[:2]:
        set_seat(database, key, not_before=func.now() + dt.timedelta(seconds=30))
    assert len(tick(context, window(4, seats=32))) == 1
    set_seat(database, keys[2], not_before=func.now() + dt.timedelta(seconds=30))
    assert tick(context, window(5, seats=32)) == ()
    # One that waits for a larger budget is not in any line.
    set_seat(database, keys[2], not_before=stages.HELD_UNTIL)
    assert len(tick(context, window(5, seats=32))) == 1


def test_one_provider_that_answers_is_enough(context: Context, database: Database) -> None:
    store_batch(database, count=2)
    account_is(database, "quota", 600)
    both = dataclasses.replace(window(), own_accounts=OWN | {("mistral", "other")})
    assert len(tick(context, both)) == 2


def test_a_run_that_ends_makes_room_at_once_and_the_last_one_closes_the_batch(
    context: Context, database: Database
) -> None:
    first, second = store_batch(database, count=2)
    assert tick(context, window(1)) == (first,)
    finish(database, first)
    assert run_ended(context, first, window(1)) == (second,)
    assert batch_row(database).state == BatchState.RUNNING
    finish(database, second)
    assert run_ended(context, second, window(1)) == ()
    row = batch_row(database)
    assert (row.state, row.finished_at is not None) == (BatchState.FINISHED, True)


def test_a_run_of_its_own_tops_up_nothing(context: Context, database: Database) -> None:
    store_batch(database, count=2)
    store_run(database, "alone")
    finish(database, "alone")
    assert run_ended(context, "alone", window()) == ()
    assert dispatched(database) == 1  # the run of its own


def test_a_batch_is_finished_exactly_once_whoever_sees_it_first(context: Context, database: Database) -> None:
    (run_id,) = store_batch(database, count=1, webhook_url="https://example.org/hook")
    finish(database, run_id)
    closed: list[str] = []

    def close() -> None:
        with database.begin() as connection:
            closed.extend(batch_control.finish_ended(connection, "batch_1"))

    threads = [threading.Thread(target=close) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert closed == ["batch_1"]
    with database.begin() as connection:
        told = connection.exec_driver_sql("SELECT event FROM webhook_deliveries").scalars().all()
    assert told == ["batch.finished"]


def test_waiting_runs_are_not_stalled_and_a_lost_first_message_is(
    context: Context, database: Database
) -> None:
    run_ids = store_batch(database, count=2)
    for run_id in run_ids:
        age_run(database, 3600, run_id)
    with database.begin() as connection:
        assert stages.stalled_runs(connection, idle_seconds=20, limit=10) == []
    assert tick(context, window(1)) == (run_ids[0],)
    with database.begin() as connection:
        # It was made an hour ago and sent just now.
        assert stages.stalled_runs(connection, idle_seconds=20, limit=10) == []
        connection.execute(
            update(runs_table)
            .where(runs_table.c.dispatched_at.is_not(None))
            .values(dispatched_at=func.now() - dt.timedelta(seconds=21))
        )
        assert stages.stalled_runs(connection, idle_seconds=20, limit=10) == [run_ids[0]]


def test_what_a_run_of_a_batch_sends_says_so(context: Context, database: Database) -> None:
    (run_id,) = store_batch(database, count=1)
    tick(context, window())
    step = advance(context, run_id)
    assert isinstance(step, Enqueue)
    assert step.is_batch
    store_run(database, "alone")
    alone = advance(context, "alone")
    assert isinstance(alone, Enqueue)
    assert not alone.is_batch
    with database.begin() as connection:
        connection.exec_driver_sql("UPDATE stages SET state = 'failed'")
    step = advance(context, run_id)
    assert step == Close(run_id=run_id, priority=0, is_batch=True)
    assert finish_run(context, run_id) is not None
    assert run_of(database, run_id).state is RunState.FINISHED


def test_a_wider_team_takes_more_seats(context: Context, database: Database) -> None:
    reviewers = {name: {"models": [f"local/{name}-1"]} for name in ("birch", "cedar", "elm", "fir")}
    store_batch(database, count=4, team=make_team(reviewers=reviewers))
    assert len(tick(context, window(10, seats=11))) == 2  # four seats a run


def test_a_run_that_was_started_counts_as_under_way(context: Context, database: Database) -> None:
    run_ids = store_batch(database, count=3)
    assert tick(context, window(2)) == tuple(run_ids[:2])
    start_run(database, run_ids[0])
    assert tick(context, window(2)) == ()


def deferred_seat(context: Context, database: Database, run_id: str) -> None:
    """The run's coder has given its place back for five seconds."""
    with database.begin() as connection:
        stages.open_seats(connection, [seat_key("coder", Stage.CODER, run_id)])
    set_seat(
        database,
        seat_key("coder", Stage.CODER, run_id),
        not_before=func.now() + dt.timedelta(seconds=5),
    )


@pytest.mark.parametrize(("budget", "sent"), [({"budget_tokens": 10_000}, 3), ({}, 0)])
def test_a_batch_that_waits_for_room_in_its_own_budget_keeps_no_other_waiting(
    budget: dict[str, int], sent: int, context: Context, database: Database
) -> None:
    """Without a budget its seat waits for a provider, and everybody's would."""
    (first, *_) = store_batch(database, "poor", count=20, **budget)
    assert tick(context, window(1)) == (first,)
    deferred_seat(context, database, first)
    store_batch(database, "rich", count=20)
    taken = tick(context, window(4, seats=15))
    assert (len(sent_of(taken, "poor")), len(sent_of(taken, "rich"))) == (0, sent)
