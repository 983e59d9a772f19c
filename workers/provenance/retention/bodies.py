"""Drops the bodies of payloads that only runs which ended long ago refer to.

It goes in short transactions and waits for nobody's locks. What a transaction that has not ended yet is about to
refer to cannot go: writing a payload shares one of `LOCKS` locks (migration 0009), dropping wants it alone. With
the lock in hand, a statement of its own sees whatever was written under it before, and whoever writes after it
finds the body gone and writes it anew."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from sqlalchemy import text

from workers.provenance.session import Database

#: As in the trigger of migration 0009.
LOCK_CLASS: Final = 1_348_821_284
LOCKS: Final = 64
#: What stands in `payloads.dropped_why`.
WHY: Final = "retention"

#: Runs looked at together, and bodies dropped in one transaction: so many take some tens of milliseconds.
RUNS_AT_ONCE: Final = 500
BODIES_AT_ONCE: Final = 500
#: How often a lock that others hold is asked for, a pause between two times; then its runs are left for the next time.
TRIES: Final = 200
PAUSE_SECONDS: Final = 0.05

_RUNS = text(
    """
    SELECT run_id, finished_at FROM runs
    WHERE finished_at IS NOT NULL AND pruned_at IS NULL AND finished_at < :before
        AND (CAST(:after AS timestamptz) IS NULL OR (finished_at, run_id) > (CAST(:after AS timestamptz), :after_id))
    ORDER BY finished_at, run_id
    LIMIT :most
    """
)

#: Of teams nothing goes: they are few, and shared by all runs of theirs. Verdicts are the payloads of `run.finished`;
#: `payload.redacted` says who took away what, and without it a record looks as if somebody had stolen from it.
_CANDIDATES = text(
    """
    SELECT digest, hashtext(digest) & 63 AS lock FROM (
        SELECT payload_digest AS digest FROM events
        WHERE run_id = ANY (:run_ids) AND kind NOT IN ('run.finished', 'payload.redacted')
        UNION SELECT request_digest FROM calls WHERE run_id = ANY (:run_ids)
        UNION SELECT reply_digest FROM calls WHERE run_id = ANY (:run_ids)
        UNION SELECT input_digest FROM runs WHERE run_id = ANY (:run_ids)
    ) AS referred JOIN payloads USING (digest)
    WHERE body IS NOT NULL
    """
)

_TRY_LOCK = text("SELECT pg_try_advisory_xact_lock(:class, :lock)")

#: Each question ends with the first that needs it. As joins the planner would read whole tables for them.
_FREE = text(
    """
    SELECT digest, size_bytes FROM payloads
    WHERE digest = ANY (:digests) AND body IS NOT NULL
        AND (
            SELECT 1 FROM events JOIN runs USING (run_id)
            WHERE payload_digest = digest
                AND (kind IN ('run.finished', 'payload.redacted') OR finished_at IS NULL OR finished_at >= :before)
            LIMIT 1
        ) IS NULL
        AND (
            SELECT 1 FROM calls JOIN runs USING (run_id)
            WHERE calls.request_digest = digest AND (finished_at IS NULL OR finished_at >= :before)
            LIMIT 1
        ) IS NULL
        AND (
            SELECT 1 FROM calls JOIN runs USING (run_id)
            WHERE calls.reply_digest = digest AND (finished_at IS NULL OR finished_at >= :before)
            LIMIT 1
        ) IS NULL
        AND (
            SELECT 1 FROM runs
            WHERE input_digest = digest AND (finished_at IS NULL OR finished_at >= :before)
            LIMIT 1
        ) IS NULL
    """
)

_DROP = text("SELECT drop_payload_bodies(:digests, now(), :why)")
_DONE = text("UPDATE runs SET pruned_at = now() WHERE run_id = ANY (:run_ids)")
_PAUSE = text("SELECT pg_sleep(:seconds)")


@dataclasses.dataclass(slots=True, kw_only=True)
class Dropped:
    """What went. `busy_runs`: left for the next time, because others were writing what may be theirs too."""

    runs: int = 0
    bodies: int = 0
    bytes: int = 0
    busy_runs: int = 0


def prune_runs(
    database: Database,
    *,
    before: dt.datetime,
    is_dry: bool = False,
    say: Callable[[Dropped], None] | None = None,
) -> Dropped:
    """Drop what only runs that ended before that moment refer to. is_dry: count it and change nothing.

    `say` is told what went so far after every few hundred runs. Stopped at any point, the next call goes on.
    Raises: UnavailableError."""
    total = Dropped()
    needed: set[str] = set()
    counted: set[str] = set()
    for run_ids in _windows(database, before):
        by_lock = _candidates(database, run_ids, without=needed | counted)
        if is_dry:
            counted |= _count(database, by_lock, before, needed, total)
        is_done = is_dry or _drop_all(database, by_lock, before, needed, total)
        if not is_done:
            total.busy_runs += len(run_ids)
            continue
        total.runs += len(run_ids)
        if not is_dry:
            with database.single() as connection:
                connection.execute(_DONE, {"run_ids": run_ids})
        if say is not None:
            say(total)
    return total


def _windows(database: Database, before: dt.datetime) -> Iterator[list[str]]:
    """The runs to be pruned, the oldest first, a few at a time."""
    after, after_id = None, ""
    while True:
        with database.single() as connection:
            values = {"before": before, "after": after, "after_id": after_id, "most": RUNS_AT_ONCE}
            rows = connection.execute(_RUNS, values).all()
        if not rows:
            return
        yield [row.run_id for row in rows]
        after, after_id = rows[-1].finished_at, rows[-1].run_id


def _candidates(database: Database, run_ids: Sequence[str], *, without: set[str]) -> dict[int, list[str]]:
    """The digests that these runs refer to and that have a body, by their lock."""
    found: dict[int, list[str]] = defaultdict(list)
    with database.single() as connection:
        for row in connection.execute(_CANDIDATES, {"run_ids": run_ids}):
            if row.digest not in without:
                found[row.lock].append(row.digest)
    return found


def _count(
    database: Database, by_lock: dict[int, list[str]], before: dt.datetime, needed: set[str], total: Dropped
) -> set[str]:
    """What would go, without any lock."""
    digests = [digest for of_lock in by_lock.values() for digest in of_lock]
    with database.single() as connection:
        free = connection.execute(_FREE, {"digests": digests, "before": before}).all()
    going = {row.digest for row in free}
    needed |= set(digests) - going
    total.bodies += len(free)
    total.bytes += sum(row.size_bytes for row in free)
    return going


def _drop_all(
    database: Database, by_lock: dict[int, list[str]], before: dt.datetime, needed: set[str], total: Dropped
) -> bool:
    """False when a lock was held by others for too long; what was not behind it is dropped all the same."""
    waiting = [
        (lock, digests[start : start + BODIES_AT_ONCE])
        for lock, digests in by_lock.items()
        for start in range(0, len(digests), BODIES_AT_ONCE)
    ]
    for _ in range(TRIES):
        waiting = [
            (lock, digests)
            for lock, digests in waiting
            if not _drop(database, lock, digests, before, needed, total)
        ]
        if not waiting:
            return True
        with database.single() as connection:
            connection.execute(_PAUSE, {"seconds": PAUSE_SECONDS})
    return False


def _drop(
    database: Database,
    lock: int,
    digests: Sequence[str],
    before: dt.datetime,
    needed: set[str],
    total: Dropped,
) -> bool:
    """False when somebody is writing payloads of this lock."""
    with database.begin() as connection:
        if not connection.scalar(_TRY_LOCK, {"class": LOCK_CLASS, "lock": lock}):
            return False
        # A statement of its own: its snapshot is younger than the lock.
        rows = connection.execute(_FREE, {"digests": digests, "before": before}).all()
        free = [row.digest for row in rows]
        if free:
            connection.execute(_DROP, {"digests": free, "why": WHY})
    needed |= set(digests) - set(free)
    total.bodies += len(free)
    total.bytes += sum(row.size_bytes for row in rows)
    return True


def gone(pruned_at: dt.datetime | None) -> str | None:
    """What is missing of a run, in a sentence; None where nothing is."""
    if pruned_at is None:
        return None
    return (
        f"the spec, code, prompts and replies of this run were dropped on {pruned_at.astimezone(dt.UTC):%Y-%m-%d} "
        "by `consensus prune`, unless other runs share them; the verdict, the ledger and all digests are kept"
    )
