"""What is going on in the installation at this moment, read from its rows: faults strike where it hurts."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, text

from workers.errors import UnavailableError
from workers.provenance.session import Database

_LOOK_SECONDS = 0.01


@dataclasses.dataclass(frozen=True, slots=True)
class Held:
    """A seat that a worker works on."""

    run_id: str
    stage: str
    seat: str
    owner: str


_HELD = "SELECT run_id, stage, seat, owner FROM stages WHERE state = 'running' AND owner IS NOT NULL"
_CALLING = f"""
    {_HELD} AND EXISTS (
        SELECT FROM calls
        WHERE calls.run_id = stages.run_id AND calls.round = stages.round AND calls.stage = stages.stage
          AND calls.seat = stages.seat AND calls.state = 'sent'
    )
"""
_ANSWERED = f"""
    {_HELD} AND run_id = :run_id AND NOT EXISTS (
        SELECT FROM calls
        WHERE calls.run_id = stages.run_id AND calls.round = stages.round AND calls.stage = stages.stage
          AND calls.seat = stages.seat AND calls.state = 'sent'
    )
"""
_JUST_OPENED = """
    SELECT panel.run_id, 'panel' AS stage, coder.seat, coder.owner
    FROM stages panel JOIN stages coder USING (run_id, round)
    WHERE panel.stage = 'panel' AND panel.state = 'pending' AND panel.enqueued_at > :since
      AND coder.stage = 'coder' AND coder.state = 'done'
    ORDER BY panel.enqueued_at DESC LIMIT 1
"""
_ENDED = """
    SELECT count(*) AS runs, count(*) FILTER (WHERE batch_id IS NULL) AS alone
    FROM runs WHERE state IN ('finished', 'cancelled')
"""
_BLOCKED = "SELECT count(*) FROM pg_stat_activity WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))"


class Watch:
    """Questions to the database. One that does not answer gives an empty answer."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def _rows(self, query: str, **values: Any) -> list[Any]:
        try:
            with self._database.begin() as connection:
                return list(connection.execute(text(query), values))
        except UnavailableError:
            return []

    def open_runs(self) -> set[str]:
        return {
            row.run_id for row in self._rows("SELECT run_id FROM runs WHERE state IN ('queued', 'running')")
        }

    def runs_of(self, batch_ids: list[str]) -> set[str]:
        query = "SELECT run_id FROM runs WHERE batch_id = ANY (:batch_ids)"
        return {row.run_id for row in self._rows(query, batch_ids=batch_ids)}

    def ended(self) -> int:
        """How many runs have ended, those of batches too."""
        rows = self._rows(_ENDED)
        return int(rows[0].runs) if rows else 0

    def open_batches(self) -> int:
        """How many batches have not ended; the dispatcher ends them, a moment after their last run."""
        rows = self._rows("SELECT count(*) FROM batches WHERE state IN ('running', 'paused')")
        return int(rows[0][0]) if rows else 1

    def ended_alone(self) -> int:
        """How many of them belong to no batch."""
        rows = self._rows(_ENDED)
        return int(rows[0].alone) if rows else 0

    def held(self) -> list[Held]:
        return [Held(*row) for row in self._rows(_HELD)]

    def calling(self) -> list[Held]:
        """Seats whose call is with the provider."""
        return [Held(*row) for row in self._rows(_CALLING)]

    def seats_of(self, run_ids: list[str]) -> list[str]:
        """Their seats as they stand, a line each: what a play that did not end leaves to look at."""
        query = """
            SELECT runs.state, clock_timestamp() AS now, to_jsonb(stages) - 'result' AS seat
            FROM runs LEFT JOIN stages USING (run_id) WHERE run_id = ANY (:run_ids) ORDER BY run_id, round, stage
        """
        return [str(row) for row in self._rows(query, run_ids=run_ids)]

    def clock(self) -> Any:
        rows = self._rows("SELECT clock_timestamp()")
        return rows[0][0] if rows else None

    def panel_just_opened(self, since: Any) -> Held | None:
        """The coder's seat whose worker has opened its panel, and has not sent all its messages yet."""
        rows = self._rows(_JUST_OPENED, since=since)
        return Held(*rows[0]) if rows else None

    def wait_for(self, look, seconds: float):  # type: ignore[no-untyped-def]
        """The first answer that is not empty, or the last one when the time is over."""
        deadline = time.monotonic() + seconds
        while True:
            found = look()
            if found or time.monotonic() > deadline:
                return found
            time.sleep(_LOOK_SECONDS)

    @contextlib.contextmanager
    def settling(self, run_id: str, seconds: float) -> Iterator[Held | None]:
        """Hold the run's lock until somebody waits for it: a worker that is about to settle a seat, which is given."""
        with contextlib.suppress(UnavailableError), self._database.begin() as connection:
            connection.execute(text("SELECT FROM runs WHERE run_id = :run_id FOR UPDATE"), {"run_id": run_id})
            yield self.wait_for(lambda: _waiting(connection, run_id), seconds)
            connection.rollback()
            return
        yield None


def _waiting(connection: Connection, run_id: str) -> Held | None:
    if not connection.execute(text(_BLOCKED)).scalar_one():
        return None
    rows = connection.execute(text(_ANSWERED), {"run_id": run_id}).all()
    return Held(*rows[0]) if rows else None
