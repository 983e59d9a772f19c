"""Takes the next runs of batches out of the database, one dispatcher at a time.

Runs wait as rows, not as messages: ten thousand of them cost the broker nothing, and a batch is paused or cancelled
by changing one row. Conditions of indexes are written out, since a bound value would not match them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from sqlalchemy import Connection, text

from workers.provenance.repository.stages import HELD_UNTIL

#: Of the advisory lock that one dispatcher holds until its transaction ends ("disp" in ASCII).
_LOCK_KEY = 0x64697370


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OpenBatch:
    """A batch that has runs to send or under way. `under_way`: how many, by the digest of their team.

    `next_team`: that of the run which is next, None when none waits. `waiting` is counted up to a limit only.
    `served_order`: when it was last sent a run, seconds; 0 for never.
    """

    batch_id: str
    priority: int
    concurrency: int | None
    served_order: float
    under_way: Mapping[str, int]
    next_team: str | None
    waiting: int


_OPEN = text(
    """
    WITH under_way AS MATERIALIZED (
        SELECT batch_id, team_digest, count(*) AS count
        FROM runs
        WHERE state IN ('queued', 'running') AND dispatched_at IS NOT NULL AND batch_id IS NOT NULL
        GROUP BY batch_id, team_digest
    )
    SELECT
        batch_id, priority, concurrency,
        coalesce(extract(epoch FROM dispatched_at), 0)::float AS served_order,
        coalesce(
            (SELECT jsonb_object_agg(team_digest, count) FROM under_way WHERE batch_id = batches.batch_id),
            '{}'
        ) AS under_way,
        following.team_digest AS next_team,
        CASE WHEN following.team_digest IS NULL THEN 0 ELSE (
            SELECT count(*) FROM (
                SELECT FROM runs
                WHERE runs.batch_id = batches.batch_id AND state = 'queued' AND dispatched_at IS NULL
                LIMIT :most
            ) AS waiting
        ) END AS waiting
    FROM batches
    LEFT JOIN LATERAL (
        SELECT team_digest FROM runs
        WHERE runs.batch_id = batches.batch_id AND batches.state = 'running'
            AND runs.state = 'queued' AND runs.dispatched_at IS NULL
        ORDER BY runs.priority, runs.position
        LIMIT 1
    ) AS following ON true
    -- Runs of a batch whose budget is used up hold seats and nothing else, perhaps for days: they count for nobody.
    WHERE finished_at IS NULL AND (state = 'running' OR state = 'paused' AND pause_cause = 'user')
    """
)

#: Never waits for the row, which runs that end or reserve money may hold: it is a note of whose turn it was.
_NOTE = text(
    """
    UPDATE batches SET dispatched_at = now(), started_at = coalesce(started_at, now())
    WHERE batch_id IN (
        SELECT batch_id FROM batches WHERE batch_id = :batch_id FOR NO KEY UPDATE SKIP LOCKED
    )
    """
)

_TAKE = text(
    """
    -- Materialised, or the planner may run it once for each run and take its limit as often.
    WITH following AS MATERIALIZED (
        SELECT run_id, priority, position FROM runs
        WHERE batch_id = :batch_id AND state = 'queued' AND dispatched_at IS NULL
            AND EXISTS (SELECT FROM batches WHERE batch_id = :batch_id AND state = 'running')
        ORDER BY priority, position
        LIMIT :count
        FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE runs SET dispatched_at = now()
    FROM following
    WHERE runs.run_id = following.run_id
    RETURNING runs.run_id, following.priority, following.position
    """
)


def is_alone(connection: Connection) -> bool:
    """Whether this transaction is the only one that dispatches; until it ends, nobody else will be."""
    return bool(connection.scalar(text("SELECT pg_try_advisory_xact_lock(:key)"), {"key": _LOCK_KEY}))


def open_batches(connection: Connection, *, most: int) -> list[OpenBatch]:
    """Every batch that the dispatcher has to think of; `most`: up to how many waiting runs are counted."""
    return [
        OpenBatch(
            batch_id=row.batch_id,
            priority=row.priority,
            concurrency=row.concurrency,
            served_order=row.served_order,
            under_way=row.under_way,
            next_team=row.next_team,
            waiting=row.waiting,
        )
        for row in connection.execute(_OPEN, {"most": most})
    ]


_DEFERRED = text(
    """
    SELECT runs.batch_id, count(*) AS count,
        batches.budget_usd IS NOT NULL OR batches.budget_tokens IS NOT NULL AS has_budget
    FROM stages JOIN runs USING (run_id) JOIN batches USING (batch_id)
    WHERE stages.state = 'pending' AND stages.not_before > now() AND stages.not_before < :held
    GROUP BY runs.batch_id, has_budget
    """
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Deferred:
    """How many seats of a batch gave their place back for a while: for a slot, or for room in its budget if it has
    one."""

    batch_id: str
    count: int
    has_budget: bool


def deferred_seats(connection: Connection) -> list[Deferred]:
    """Of every batch that has some."""
    rows = connection.execute(_DEFERRED, {"held": HELD_UNTIL})
    return [Deferred(**row._mapping) for row in rows]


def take(connection: Connection, batch_id: str, count: int) -> list[str]:
    """The batch's next runs, by priority and line, now counted as sent; none if it was paused or cancelled."""
    rows = connection.execute(_TAKE, {"batch_id": batch_id, "count": count}).all()
    if rows:
        connection.execute(_NOTE, {"batch_id": batch_id})
    return [row.run_id for row in sorted(rows, key=lambda row: (row.priority, row.position))]
