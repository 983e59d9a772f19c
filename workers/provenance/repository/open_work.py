"""How much is open just now, and how long the oldest of it has waited: read from the indexes of what is open, so that
what has ended costs nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, text

#: Runs that wait in the database for the dispatcher have an index of their own.
_RUNS = text(
    """
    SELECT 'waiting' AS state, count(*) AS number, NULL AS oldest_seconds
    FROM runs WHERE state = 'queued' AND dispatched_at IS NULL
    UNION ALL
    SELECT state, count(*), extract(epoch FROM now() - min(dispatched_at))
    FROM runs WHERE state IN ('queued', 'running') AND dispatched_at IS NOT NULL
    GROUP BY state
    """
)
_SEATS = text(
    """
    SELECT stage, CASE WHEN not_before > now() THEN 'deferred' ELSE 'pending' END AS state, count(*) AS number,
           extract(epoch FROM now() - min(greatest(enqueued_at, not_before))) AS oldest_seconds
    FROM stages WHERE state = 'pending'
    GROUP BY 1, 2
    UNION ALL
    SELECT stage, state, count(*), NULL
    FROM stages WHERE state = 'running'
    GROUP BY 1, 2
    """
)
_BATCHES = text("SELECT state, count(*) AS number FROM batches WHERE finished_at IS NULL GROUP BY state")
_SCORINGS = text(
    "SELECT state, count(*) AS number FROM scorings WHERE state IN ('queued', 'running') GROUP BY state"
)
_PARTS = text(
    """
    SELECT stage, state, count(*) AS number,
           extract(epoch FROM now() - min(enqueued_at) FILTER (WHERE state = 'pending')) AS oldest_seconds
    FROM scoring_parts WHERE state IN ('pending', 'running')
    GROUP BY 1, 2
    """
)


def open_runs(connection: Connection) -> Sequence[Row[Any]]:
    """(state, number, oldest_seconds): `waiting` for the dispatcher, then `queued` and `running`, whose age counts from
    the first message."""
    return connection.execute(_RUNS).all()


def open_seats(connection: Connection) -> Sequence[Row[Any]]:
    """(stage, state, number, oldest_seconds): `pending` with its age, `deferred` until a time that is to come,
    `running`."""
    return connection.execute(_SEATS).all()


def open_batches(connection: Connection) -> Sequence[Row[Any]]:
    """(state, number)."""
    return connection.execute(_BATCHES).all()


def open_scorings(connection: Connection) -> Sequence[Row[Any]]:
    """(state, number)."""
    return connection.execute(_SCORINGS).all()


def open_parts(connection: Connection) -> Sequence[Row[Any]]:
    """(stage, state, number, oldest_seconds) of parts of scorings."""
    return connection.execute(_PARTS).all()
