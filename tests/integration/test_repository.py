"""Stage rows and runs as queries: who may write what, and when."""

from __future__ import annotations

import datetime as dt
import threading

import pytest
from sqlalchemy import text

from tests.integration.stored_runs import (
    AT,
    ago,
    claim,
    drop_bodies,
    events_of,
    finish,
    lose_worker,
    new_run,
    open_seats,
    overdue,
    run_of,
    seat_key,
    seat_row,
    set_seat,
    settle,
    start_run,
    store_run,
)
from workers.core.run import RunState, Seated, SeatState, Stage
from workers.errors import IdempotencyConflictError, NotFoundError
from workers.provenance import payload
from workers.provenance.repository import runs, stages
from workers.provenance.repository.stages import Progress
from workers.provenance.session import Database

KEY = seat_key()


def test_seats_are_opened_once(database: Database) -> None:
    store_run(database)
    keys = [seat_key("right"), seat_key("left")]
    with database.begin() as connection:
        assert stages.open_seats(connection, keys) == sorted(keys)
        assert stages.open_seats(connection, [*keys, seat_key("third")]) == [seat_key("third")]
        assert stages.open_seats(connection, []) == []
        rows = stages.seated(connection, "run_1", 1)
    assert {row.seat for row in rows} == {"left", "right", "third"}
    assert Seated(stage=Stage.PANEL, seat="left", state=SeatState.PENDING) in rows


def test_a_claim_gives_the_progress_made_so_far(seated: Database) -> None:
    set_seat(seated, KEY, link=2, attempts=3, not_before=ago(1))
    assert claim(seated) == Progress(link=2, attempts=3, deliveries=1)
    row = seat_row(seated, KEY)
    assert (row.state, row.owner, row.not_before) == ("running", "me", None)
    assert row.started_at is not None


def test_a_lease_lasts_as_long_as_asked(seated: Database) -> None:
    claim(seated, lease_seconds=123)
    row = seat_row(seated, KEY)
    assert row.lease_expires_at - row.started_at == dt.timedelta(seconds=123)


def test_of_eight_claims_at_once_one_wins(seated: Database) -> None:
    won: list[str] = []
    gate = threading.Barrier(8)

    def try_to(owner: str) -> None:
        gate.wait(timeout=10)
        if claim(seated, owner) is not None:
            won.append(owner)

    threads = [threading.Thread(target=try_to, args=(f"w{number}",)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert won == [seat_row(seated, KEY).owner]
    assert seat_row(seated, KEY).deliveries == 1


def test_a_live_lease_keeps_everybody_out_even_its_owner(seated: Database) -> None:
    claim(seated)
    assert claim(seated, "other") is None
    assert claim(seated, "me") is None


def test_an_expired_lease_can_be_claimed_and_keeps_its_first_start(seated: Database) -> None:
    claim(seated)
    started_at = seat_row(seated, KEY).started_at
    lose_worker(seated, KEY, owner="me")
    assert claim(seated, "other") == Progress(link=0, attempts=0, deliveries=2)
    row = seat_row(seated, KEY)
    assert (row.owner, row.started_at) == ("other", started_at)


@pytest.mark.parametrize(
    "state", [SeatState.DONE, SeatState.ABSTAINED, SeatState.FAILED, SeatState.CANCELLED]
)
def test_what_has_ended_cannot_be_claimed(seated: Database, state: SeatState) -> None:
    set_seat(seated, KEY, state=state, lease_expires_at=ago(100))
    assert claim(seated) is None
    assert seat_row(seated, KEY).deliveries == 0


def test_a_seat_that_is_not_there_cannot_be_claimed(seated: Database) -> None:
    for key in (seat_key("nobody"), seat_key(round_=2), seat_key(stage=Stage.LEAD), seat_key(run_id="run_2")):
        assert claim(seated, key=key) is None


def test_the_holder_settles_once(seated: Database) -> None:
    claim(seated)
    with seated.begin() as connection:
        result = payload.store(connection, {"findings": []})
    assert settle(seated, result_digest=result)
    assert not settle(seated, state=SeatState.FAILED)
    row = seat_row(seated, KEY)
    assert (row.state, row.result_digest, row.lease_expires_at) == ("done", result, None)
    with seated.begin() as connection:
        (read,) = stages.rows_of(connection, "run_1", 1)
    assert (read.result, read.state) == ({"findings": []}, SeatState.DONE)


def test_whoever_lost_the_lease_may_not_settle(seated: Database) -> None:
    claim(seated)
    lose_worker(seated, KEY, owner="me")
    claim(seated, "other")
    assert not settle(seated, "me", state=SeatState.FAILED)
    assert settle(seated, "other")
    assert seat_row(seated, KEY).state == "done"


def test_after_a_rescue_or_a_cancel_the_old_holder_may_not_settle(seated: Database) -> None:
    claim(seated)
    lose_worker(seated, KEY, owner="me")
    assert overdue(seated) == [(KEY, 1)]
    assert not settle(seated, "me")
    claim(seated, "me")
    with seated.begin() as connection:
        runs.cancel(connection, "run_1", tenant_id="default", at=AT)
    assert not settle(seated, "me")
    assert seat_row(seated, KEY).state == "cancelled"


def test_a_cause_is_kept_with_its_sentence_whatever_bytes_a_provider_put_into_it(seated: Database) -> None:
    claim(seated)
    assert settle(seated, state=SeatState.ABSTAINED, cause="refused", detail="a\x00b\ud800c")
    row = seat_row(seated, KEY)
    assert (row.state, row.cause, row.detail) == ("abstained", "refused", "a\ufffdb\ufffdc")


def test_giving_up_on_a_seat_takes_any_sentence_too(seated: Database) -> None:
    with seated.begin() as connection:
        assert stages.give_up(connection, KEY, state=SeatState.ABSTAINED, cause="lost_worker", detail="\x00")
        assert not stages.give_up(connection, KEY, state=SeatState.FAILED, cause="x", detail="y")
    assert (seat_row(seated, KEY).state, seat_row(seated, KEY).detail) == ("abstained", "\ufffd")


def test_a_deferred_seat_waits_for_its_time_and_keeps_its_count(seated: Database) -> None:
    claim(seated)
    set_seat(seated, KEY, attempts=2, enqueued_at=ago(1000))
    with seated.begin() as connection:
        assert not stages.defer(connection, KEY, owner="other", wait_seconds=50)
        assert stages.defer(connection, KEY, owner="me", wait_seconds=50)
        wait = connection.scalar(text("SELECT not_before - now() FROM stages"))
    assert wait == dt.timedelta(seconds=50)
    row = seat_row(seated, KEY)
    assert (row.state, row.owner, row.attempts) == ("pending", None, 2)
    assert overdue(seated) == []
    set_seat(seated, KEY, not_before=ago(1))
    assert overdue(seated) == [(KEY, 0)]
    row = seat_row(seated, KEY)
    assert (row.not_before, row.rescues) == (None, 0)
    assert overdue(seated) == []  # its message is under way again


def test_a_heartbeat_prolongs_the_seats_at_work_and_no_others(seated: Database) -> None:
    """A seat whose thread was lost must run out, though its process works on for others of the same run."""
    others = {name: seat_key(name) for name in ("orphan", "foreign", "done")}
    open_seats(seated, *others.values())
    for key in (KEY, *others.values()):
        claim(seated, key=key)
        lose_worker(seated, key, owner="me")
    set_seat(seated, others["foreign"], owner="somebody else")
    set_seat(seated, others["done"], state=SeatState.DONE)
    with seated.begin() as connection:
        stages.heartbeat(connection, [], owner="me", lease_seconds=30)
        keys = [KEY, others["foreign"], others["done"], seat_key("unknown")]
        stages.heartbeat(connection, keys, owner="me", lease_seconds=30)
        fresh = (
            connection.execute(text("SELECT seat FROM stages WHERE lease_expires_at > now()")).scalars().all()
        )
    assert fresh == ["left"]


def test_only_cancelled_runs_are_told_as_cancelled(database: Database) -> None:
    for run_id in ("run_1", "run_2", "run_3"):
        store_run(database, run_id)
    with database.begin() as connection:
        runs.cancel(connection, "run_2", tenant_id="default", at=AT)
    finish(database, "run_3")
    with database.begin() as connection:
        assert runs.cancelled_among(connection, ["run_1", "run_2", "run_3", "run_4"]) == {"run_2"}
        assert runs.cancelled_among(connection, []) == set()


def test_a_run_starts_once_and_a_cancelled_one_never(database: Database) -> None:
    store_run(database)
    start_run(database)
    started = run_of(database)
    start_run(database)
    assert run_of(database) == started
    assert started.state is RunState.RUNNING
    store_run(database, "run_2")
    with database.begin() as connection:
        assert runs.cancel(connection, "run_2", tenant_id="default", at=AT)[1] is True
        assert runs.cancel(connection, "run_2", tenant_id="default", at=AT)[1] is False
    start_run(database, "run_2")
    assert run_of(database, "run_2").state is RunState.CANCELLED


def test_an_idempotency_key_belongs_to_its_tenant(database: Database) -> None:
    first = store_run(database, "run_1", idempotency_key="k")
    with database.begin() as connection:
        same, is_new = runs.create(connection, new_run("run_2", idempotency_key="k"), at=AT)
        assert (same, is_new) == (first, False)
        other, is_new = runs.create(
            connection, new_run("run_3", idempotency_key="k", tenant_id="other"), at=AT
        )
        assert (other.run_id, is_new) == ("run_3", True)
        with pytest.raises(IdempotencyConflictError, match="run_1"):
            runs.create(connection, new_run("run_4", idempotency_key="k", spec="else"), at=AT)
    assert len(events_of(database, "run_1")) == 1


def test_an_order_gives_the_material_back_to_the_letter(database: Database) -> None:
    files = {"a.py": "x = '\u00e9\u2028'\r\n\t", "b/c.txt": ""}
    store_run(database, spec="caf\u00e9 \U0001f600", files=files)
    with database.begin() as connection:
        order = runs.order_of(connection, "run_1")
        assert order.material == {"spec": "caf\u00e9 \U0001f600", "files": files, "tests": {}}
        with pytest.raises(NotFoundError):
            runs.order_of(connection, "run_none")
    drop_bodies(database)
    with database.begin() as connection:
        with pytest.raises(NotFoundError, match="redacted"):
            runs.order_of(connection, "run_1")
        with pytest.raises(NotFoundError, match="redacted"):
            payload.load(connection, order.team_digest)
