"""Runs as rows: what a test wants to be true of the database before it begins."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, func, text, update

from tests.factories import team_data
from workers.core.run import Outcome, SeatState, Stage
from workers.provenance import ledger
from workers.provenance.models import runs as runs_table
from workers.provenance.models import stages as stages_table
from workers.provenance.repository import runs, stages
from workers.provenance.repository.runs import NewRun, Run
from workers.provenance.repository.stages import Progress, SeatKey
from workers.provenance.session import Database

AT = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC)


def new_run(run_id: str = "run_1", **changes: Any) -> NewRun:
    values: dict[str, Any] = {"run_id": run_id, "team": team_data(), "spec": "Add two numbers."}
    return NewRun(**{**values, **changes})


def store_run(database: Database, run_id: str = "run_1", **changes: Any) -> Run:
    """A queued run; its ledger holds `run.created`."""
    with database.begin() as connection:
        return runs.create(connection, new_run(run_id, **changes), at=AT)[0]


def start_run(database: Database, run_id: str = "run_1") -> None:
    with database.begin() as connection:
        runs.start(connection, run_id)


def append(
    database: Database, kind: str, value: Mapping[str, Any] | None = None, run_id: str = "run_1"
) -> None:
    """One more event, committed."""
    with database.begin() as connection, ledger.writer(connection, run_id) as entries:
        entries.append(kind, value or {}, at=AT)


def finish(database: Database, run_id: str = "run_1", outcome: Outcome = Outcome.ACCEPTED) -> None:
    """End the run as the last stage does: event and state in one transaction."""
    with database.begin() as connection, ledger.writer(connection, run_id) as entries:
        runs.start(connection, run_id)
        verdict = entries.append("run.finished", {"outcome": outcome, "files": {}}, at=AT)
        runs.finish(connection, run_id, outcome=outcome, verdict_digest=verdict)


def tamper(database: Database, statement: str) -> None:
    """Change rows behind the ledger's back, as only a superuser can who switches its triggers off."""
    with database.begin() as connection:
        connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
        connection.exec_driver_sql(statement)


def drop_bodies(database: Database) -> None:
    """The bodies of all payloads go, in the one way in which they may."""
    with database.begin() as connection:
        connection.exec_driver_sql(
            "SELECT drop_payload_bodies(array_agg(digest), now(), 'a test') FROM payloads"
        )


def run_of(database: Database, run_id: str = "run_1") -> Run:
    with database.begin() as connection:
        return runs.get(connection, run_id)


def events_of(database: Database, run_id: str = "run_1") -> list[ledger.Event]:
    with database.begin() as connection:
        return ledger.read(connection, run_id)


def kinds_of(database: Database, run_id: str = "run_1") -> list[str]:
    return [event.kind for event in events_of(database, run_id)]


def seat_key(
    seat: str = "left", stage: Stage = Stage.PANEL, run_id: str = "run_1", round_: int = 1
) -> SeatKey:
    return SeatKey(run_id=run_id, round=round_, stage=stage, seat=seat)


def open_seats(database: Database, *keys: SeatKey) -> None:
    with database.begin() as connection:
        stages.open_seats(connection, keys)


def set_seat(database: Database, key: SeatKey, **values: Any) -> None:
    """Write columns of a stage row as they could not be reached without waiting."""
    with database.begin() as connection:
        connection.execute(update(stages_table).where(at(key)).values(**values))


def lose_worker(database: Database, key: SeatKey, owner: str = "dead") -> None:
    """The seat was claimed, and its lease ran out a second ago."""
    past = func.now() - dt.timedelta(seconds=1)
    set_seat(database, key, state=SeatState.RUNNING, owner=owner, lease_expires_at=past)


def seat_row(database: Database, key: SeatKey) -> Any:
    """Every column of a stage row."""
    with database.begin() as connection:
        return connection.execute(stages_table.select().where(at(key))).one()


def at(key: SeatKey) -> Any:
    columns = stages_table.c
    return (
        (columns.run_id == key.run_id)
        & (columns.round == key.round)
        & (columns.stage == key.stage)
        & (columns.seat == key.seat)
    )


def count(connection: Connection, table: str) -> int:
    return int(connection.execute(text(f"SELECT count(*) FROM {table}")).scalar_one())  # noqa: S608


def age_run(database: Database, seconds: float, run_id: str = "run_1") -> None:
    """Make the run and whatever ended in it that much older."""
    back = dt.timedelta(seconds=seconds)
    with database.begin() as connection:
        connection.execute(
            update(runs_table)
            .where(runs_table.c.run_id == run_id)
            .values(
                created_at=runs_table.c.created_at - back, dispatched_at=runs_table.c.dispatched_at - back
            )
        )
        connection.execute(
            update(stages_table)
            .where(stages_table.c.run_id == run_id)
            .values(finished_at=stages_table.c.finished_at - back)
        )


def ago(seconds: float) -> Any:
    """The database's time so many seconds back, as an expression."""
    return func.now() - dt.timedelta(seconds=seconds)


def claim(
    database: Database, owner: str = "me", key: SeatKey | None = None, lease_seconds: float = 30
) -> Progress | None:
    with database.begin() as connection:
        return stages.claim(connection, key or seat_key(), owner=owner, lease_seconds=lease_seconds)


def settle(database: Database, owner: str = "me", state: SeatState = SeatState.DONE, **values: Any) -> bool:
    with database.begin() as connection:
        return stages.settle(connection, seat_key(), owner=owner, state=state, **values)


def overdue(
    database: Database, pending_seconds: float = 60, limit: int = 100, **patience: Any
) -> list[tuple[SeatKey, int]]:
    with database.begin() as connection:
        return stages.take_overdue(connection, pending_seconds=pending_seconds, limit=limit, **patience)
