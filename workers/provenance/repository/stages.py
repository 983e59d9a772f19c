"""Queries about stage rows: one a seat, stage and round. A row is written once by whoever holds its lease."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import math
from collections.abc import Iterable, Sequence, Set
from typing import Any

from sqlalchemy import (
    Connection,
    Interval,
    and_,
    bindparam,
    exists,
    func,
    or_,
    select,
    text,
    tuple_,
    update,
)
from sqlalchemy.dialects.postgresql import insert

from workers.core.batch import BatchState
from workers.core.run import RunState, Seated, SeatState, Stage
from workers.provenance.digest import keepable
from workers.provenance.models import batches, payloads, runs, stages

#: The time of seats that wait for a word, not for a time. Python has no `infinity`.
HELD_UNTIL = dt.datetime(9999, 1, 1, tzinfo=dt.UTC)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, order=True)
class SeatKey:
    """Which seat's work: the unique key of a stage row."""

    run_id: str
    round: int
    stage: Stage
    seat: str

    def __str__(self) -> str:
        return f"{self.run_id}/{self.round}/{self.stage}/{self.seat}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a claimed seat had come before: its place in the chain and the requests sent on that link."""

    link: int
    attempts: int
    deliveries: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SeatRow:
    """A stage row as results are read."""

    key: SeatKey
    state: SeatState
    cause: str | None
    detail: str | None
    result: Any
    rescues: int
    started_at: dt.datetime | None
    finished_at: dt.datetime | None


def _is(key: SeatKey) -> Any:
    return and_(
        stages.c.run_id == key.run_id,
        stages.c.round == key.round,
        stages.c.stage == key.stage,
        stages.c.seat == key.seat,
    )


def open_seats(connection: Connection, keys: Sequence[SeatKey]) -> list[SeatKey]:
    """Insert pending rows; the keys that were not there yet. Only those are to be enqueued."""
    if not keys:
        return []
    rows = connection.execute(
        insert(stages)
        .values([{**dataclasses.asdict(key), "state": SeatState.PENDING} for key in keys])
        .on_conflict_do_nothing()
        .returning(stages.c.run_id, stages.c.round, stages.c.stage, stages.c.seat)
    )
    return sorted(_key(row) for row in rows)


_AT_KEY = and_(
    stages.c.run_id == bindparam("key_run_id"),
    stages.c.round == bindparam("key_round"),
    stages.c.stage == bindparam("key_stage"),
    stages.c.seat == bindparam("key_seat"),
)

#: Its rows say so only when the sweep has come to them.
_IS_OF_CANCELLED_BATCH = exists().where(
    runs.c.run_id == stages.c.run_id,
    batches.c.batch_id == runs.c.batch_id,
    batches.c.state == BatchState.CANCELLED,
)

_CLAIM = (
    update(stages)
    .where(
        _AT_KEY,
        or_(
            stages.c.state == SeatState.PENDING,
            and_(stages.c.state == SeatState.RUNNING, stages.c.lease_expires_at < func.now()),
        ),
        ~_IS_OF_CANCELLED_BATCH,
    )
    .values(
        state=SeatState.RUNNING,
        owner=bindparam("new_owner"),
        lease_expires_at=func.now() + bindparam("lease", type_=Interval()),
        not_before=None,
        deliveries=stages.c.deliveries + 1,
        started_at=func.coalesce(stages.c.started_at, func.now()),
    )
    .returning(stages.c.link, stages.c.attempts, stages.c.deliveries)
)

_SETTLE = (
    update(stages)
    .where(_AT_KEY, stages.c.state == SeatState.RUNNING, stages.c.owner == bindparam("held_by"))
    .values(
        state=bindparam("end"),
        result_digest=bindparam("result"),
        cause=bindparam("why"),
        detail=bindparam("sentence"),
        finished_at=func.now(),
        lease_expires_at=None,
    )
    .returning(stages.c.seat)
)

_SEATED = select(stages.c.stage, stages.c.seat, stages.c.state).where(
    stages.c.run_id == bindparam("run_id"), stages.c.round == bindparam("round")
)


def _at(key: SeatKey) -> dict[str, Any]:
    return {"key_run_id": key.run_id, "key_round": key.round, "key_stage": key.stage, "key_seat": key.seat}


def claim(connection: Connection, key: SeatKey, *, owner: str, lease_seconds: float) -> Progress | None:
    """Take the seat's work for `owner`, or None when it is done, cancelled, held by a live owner or unknown."""
    row = connection.execute(
        _CLAIM, {**_at(key), "new_owner": owner, "lease": dt.timedelta(seconds=lease_seconds)}
    ).one_or_none()
    if row is None:
        return None
    return Progress(link=row.link, attempts=row.attempts, deliveries=row.deliveries)


def settle(
    connection: Connection,
    key: SeatKey,
    *,
    owner: str,
    state: SeatState,
    result_digest: str | None = None,
    cause: str | None = None,
    detail: str | None = None,
) -> bool:
    """Write the seat's end. False when `owner` no longer holds it: someone else wrote, or the run was cancelled."""
    sentence = None if detail is None else keepable(detail)
    values = {"end": state, "result": result_digest, "why": cause, "sentence": sentence, "held_by": owner}
    return connection.execute(_SETTLE, {**_at(key), **values}).one_or_none() is not None


def defer(
    connection: Connection,
    key: SeatKey,
    *,
    owner: str,
    wait_seconds: float | None,
    is_counted: bool = True,
) -> bool:
    """Give the work back until later: the rescue enqueues it again then. Attempts stay counted, deliveries only if
    `is_counted`. `wait_seconds` None: until somebody resumes its batch (`resume_held`)."""
    until = HELD_UNTIL if wait_seconds is None else func.now() + dt.timedelta(seconds=wait_seconds)
    return _changed(
        connection,
        update(stages)
        .where(_is(key), stages.c.state == SeatState.RUNNING, stages.c.owner == owner)
        .values(
            state=SeatState.PENDING,
            owner=None,
            lease_expires_at=None,
            not_before=until,
            deliveries=stages.c.deliveries - (0 if is_counted else 1),
        ),
    )


def resume_held(connection: Connection, batch_id: str) -> int:
    """The batch goes on: its held seats are due at once. How many there were."""
    of_batch = select(runs.c.run_id).where(runs.c.batch_id == batch_id, runs.c.state == RunState.RUNNING)
    statement = (
        update(stages)
        .where(
            stages.c.run_id.in_(of_batch),
            stages.c.state == SeatState.PENDING,
            stages.c.not_before == HELD_UNTIL,
        )
        .values(not_before=func.now())
    )
    return connection.execute(statement).rowcount


def give_up(connection: Connection, key: SeatKey, *, state: SeatState, cause: str, detail: str) -> bool:
    """End a seat that nobody holds (its worker died too often). False if it has ended meanwhile."""
    return _changed(
        connection,
        update(stages)
        .where(_is(key), stages.c.state.in_([SeatState.PENDING, SeatState.RUNNING]))
        .values(
            state=state, cause=cause, detail=keepable(detail), finished_at=func.now(), lease_expires_at=None
        ),
    )


def close_open(connection: Connection, run_id: str, *, cause: str, detail: str) -> None:
    """End every seat of a run that is still open: the run is being broken off."""
    connection.execute(
        update(stages)
        .where(stages.c.run_id == run_id, stages.c.state.in_([SeatState.PENDING, SeatState.RUNNING]))
        .values(
            state=SeatState.FAILED, cause=cause, detail=detail, finished_at=func.now(), lease_expires_at=None
        )
    )


def advance_link(connection: Connection, key: SeatKey, *, link: int) -> None:
    """Remember that the seat moved on to another model; its requests are counted from zero."""
    connection.execute(update(stages).where(_is(key)).values(link=link, attempts=0))


def count_attempt(connection: Connection, key: SeatKey) -> None:
    """One more request is about to be sent on the seat's current link."""
    connection.execute(update(stages).where(_is(key)).values(attempts=stages.c.attempts + 1))


def refund_attempt(connection: Connection, key: SeatKey) -> None:
    """The request was not sent after all."""
    connection.execute(
        update(stages).where(_is(key)).values(attempts=func.greatest(stages.c.attempts - 1, 0))
    )


def heartbeat(connection: Connection, keys: Iterable[SeatKey], *, owner: str, lease_seconds: float) -> None:
    """Prolong the leases of the seats at work in this process."""
    held = [dataclasses.astuple(key) for key in sorted(keys)]
    if held:
        connection.execute(
            update(stages)
            .where(
                tuple_(stages.c.run_id, stages.c.round, stages.c.stage, stages.c.seat).in_(held),
                stages.c.owner == owner,
                stages.c.state == SeatState.RUNNING,
            )
            .values(lease_expires_at=func.now() + dt.timedelta(seconds=lease_seconds))
        )


def seated(connection: Connection, run_id: str, round_: int) -> list[Seated]:
    """The rows of one round as the next step sees them."""
    rows = connection.execute(_SEATED, {"run_id": run_id, "round": round_})
    return [Seated(stage=Stage(row.stage), seat=row.seat, state=SeatState(row.state)) for row in rows]


_ROWS = (
    select(stages, payloads.c.body)
    .outerjoin(payloads, payloads.c.digest == stages.c.result_digest)
    .where(stages.c.run_id == bindparam("run_id"), stages.c.round == bindparam("round"))
)


def rows_of(connection: Connection, run_id: str, round_: int) -> list[SeatRow]:
    """Every stage row of one round, with its result."""
    rows = connection.execute(_ROWS, {"run_id": run_id, "round": round_})
    return [
        SeatRow(
            key=_key(row),
            state=SeatState(row.state),
            cause=row.cause,
            detail=row.detail,
            result=None if row.body is None else json.loads(row.body),
            rescues=row.rescues,
            started_at=row.started_at,
            finished_at=row.finished_at,
        )
        for row in rows
    ]


def take_overdue(
    connection: Connection,
    *,
    pending_seconds: float,
    limit: int,
    late_seconds: float = math.inf,
    in_line: Set[tuple[Stage, bool]] = frozenset(),
) -> list[tuple[SeatKey, int]]:
    """Seats whose message or worker seems lost, put back to pending: (seat, rescues so far).

    A running seat is overdue when its lease has run out; a pending one when its time has come and its
    message was sent more than `pending_seconds` ago, or `late_seconds` if its stage, and whether its run is of a
    batch, is `in_line`. Those of runs of their own come first. Two rescues at once take different rows.
    """
    is_batch = runs.c.batch_id.is_not(None)
    waits = tuple_(stages.c.stage, is_batch).in_(sorted((stage.value, batch) for stage, batch in in_line))
    is_lost = and_(stages.c.enqueued_at < _before(pending_seconds), ~waits)
    if late_seconds < math.inf:
        is_lost = or_(is_lost, stages.c.enqueued_at < _before(late_seconds))
    due = or_(stages.c.not_before.is_(None), stages.c.not_before <= func.now())
    overdue = or_(
        and_(stages.c.state == SeatState.RUNNING, stages.c.lease_expires_at < func.now()),
        and_(
            stages.c.state == SeatState.PENDING,
            due,
            or_(stages.c.not_before.is_not(None), is_lost),
        ),
    )
    chosen = connection.execute(
        select(
            stages.c.run_id, stages.c.round, stages.c.stage, stages.c.seat, stages.c.rescues, stages.c.state
        )
        .join(runs, runs.c.run_id == stages.c.run_id)
        .where(overdue)
        .order_by(is_batch, stages.c.enqueued_at, stages.c.run_id, stages.c.seat)
        .limit(limit)
        .with_for_update(of=stages, skip_locked=True)
    ).all()
    taken = []
    for row in chosen:
        lost_worker = row.state == SeatState.RUNNING
        connection.execute(
            update(stages)
            .where(_is(_key(row)))
            .values(
                state=SeatState.PENDING,
                owner=None,
                lease_expires_at=None,
                not_before=None,
                enqueued_at=func.now(),
                rescues=stages.c.rescues + int(lost_worker),
            )
        )
        taken.append((_key(row), row.rescues + int(lost_worker)))
    return taken


def _before(seconds: float) -> Any:
    return func.now() - dt.timedelta(seconds=seconds)


#: Written out, as the condition of the index `ix_runs_open`: a bound value would not match it.
_IS_UNDER_WAY = text("runs.state IN ('queued', 'running') AND runs.dispatched_at IS NOT NULL")


def stalled_runs(connection: Connection, *, idle_seconds: float, limit: int) -> list[str]:
    """Open runs without an open seat for some time: whoever should have opened the next stage died, or its first
    message was lost. Runs that wait for the dispatcher have never been sent one."""
    open_seat = exists().where(
        stages.c.run_id == runs.c.run_id, stages.c.state.in_([SeatState.PENDING, SeatState.RUNNING])
    )
    last_end = (
        select(func.coalesce(func.max(stages.c.finished_at), runs.c.dispatched_at))
        .where(stages.c.run_id == runs.c.run_id)
        .correlate(runs)
        .scalar_subquery()
    )
    rows = connection.execute(
        select(runs.c.run_id)
        .where(
            _IS_UNDER_WAY,
            ~open_seat,
            last_end < func.now() - dt.timedelta(seconds=idle_seconds),
        )
        .order_by(runs.c.created_at)
        .limit(limit)
    )
    return [row.run_id for row in rows]


def _changed(connection: Connection, statement: Any) -> bool:
    return connection.execute(statement.returning(stages.c.seat)).one_or_none() is not None


def _key(row: Any) -> SeatKey:
    return SeatKey(run_id=row.run_id, round=row.round, stage=Stage(row.stage), seat=row.seat)
