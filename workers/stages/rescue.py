"""Finds what a lost worker, message or broker left behind and sets it going again (DESIGN §3)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Set
from functools import partial

import structlog

from workers.core.run import GIVE_UP, Next, Stage
from workers.errors import UnavailableError
from workers.provenance import ledger
from workers.provenance.repository import calls, stages
from workers.provenance.repository.stages import SeatKey
from workers.stages.broken import break_off
from workers.stages.context import Context
from workers.stages.seat import advance, open_next, record_give_up

log = structlog.get_logger(__name__)

#: At most this many of each kind in one sweep, so that a big outage heals in steps.
SWEEP_LIMIT = 200


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rescued:
    """What a sweep wants sent: seats whose message is due again, and steps that nobody took."""

    seats: tuple[SeatKey, ...]
    following: tuple[Next, ...]


def rescue(
    context: Context,
    *,
    pending_seconds: float,
    stalled_seconds: float,
    max_rescues: int,
    late_seconds: float = math.inf,
    in_line: Set[tuple[Stage, bool]] = frozenset(),
) -> Rescued:
    """One sweep. Seats whose workers died more than `max_rescues` times give up instead: a poison run ends.

    `in_line`: stages of runs of their own (False) and of batches (True) whose messages wait behind others; a message
    of theirs counts as lost after `late_seconds` only.
    """
    with context.database.begin() as connection:
        overdue = stages.take_overdue(
            connection,
            pending_seconds=pending_seconds,
            late_seconds=late_seconds,
            in_line=in_line,
            limit=SWEEP_LIMIT,
        )
        calls.orphan_seats(connection, [key for key, _ in overdue])
    seats = []
    following: list[Next] = []
    for key, rescues in overdue:
        if rescues > max_rescues:
            following.append(_healed(context, key.run_id, partial(_abandon, context, key, rescues)))
        else:
            log.warning("seat.rescued", run=key.run_id, stage=key.stage.value, seat=key.seat, rescues=rescues)
            seats.append(key)
    with context.database.begin() as connection:
        stalled = stages.stalled_runs(connection, idle_seconds=stalled_seconds, limit=SWEEP_LIMIT)
    following += [_healed(context, run_id, partial(advance, context, run_id)) for run_id in stalled]
    return Rescued(seats=tuple(seats), following=tuple(step for step in following if step is not None))


def _healed(context: Context, run_id: str, step: Callable[[], Next]) -> Next:
    """`step`, or the run broken off: one run that cannot be healed must not stop the healing of the others."""
    try:
        return step()
    except UnavailableError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, this run ends and the sweep goes on
        break_off(context, run_id, error)
        return None


def _abandon(context: Context, key: SeatKey, rescues: int) -> Next:
    detail = f"the worker was lost {rescues} times while working on this seat"
    with context.database.begin() as connection, ledger.writer(connection, key.run_id) as entries:
        if not stages.give_up(connection, key, state=GIVE_UP[key.stage], cause="lost_worker", detail=detail):
            return None
        record_give_up(context, connection, entries, key, cause="lost_worker", detail=detail)
        return open_next(context, connection, entries)
