"""What the ledger keeps of every model call: written when the run ends, so that no row of a call can be changed,
added or removed afterwards without the chain telling."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy import ARRAY, Connection, Text, func, literal, select

from workers.core.run import RunState
from workers.provenance import ledger
from workers.provenance.digest import digest
from workers.provenance.models import calls

#: The events that bring records of calls: all of them at the run's end, and one that ended after it.
SEALED, ENDED_LATE = "calls.sealed", "call.ended_late"

#: Columns as they are; those of times, money and free text are put into words below. Reservations say nothing once a
#: call has ended.
_PLAIN = (
    "call_id",
    "round",
    "stage",
    "seat",
    "pass_number",
    "link",
    "attempt",
    "http_requests",
    "provider",
    "model_asked",
    "model_served",
    "family",
    "state",
    "request_digest",
    "reply_digest",
    "input_tokens",
    "output_tokens",
    "cached_input_tokens",
    "cache_write_input_tokens",
    "usage_is_estimated",
    "rung",
    "finish_reason",
    "error_kind",
    "is_simulated",
)


def record_of(row: Any) -> dict[str, Any]:
    """A call's row as plain data. Prompts, replies and errors stand in it by digest, so that they can be redacted."""
    return {
        **{name: getattr(row, name) for name in _PLAIN},
        "cost_usd": None if row.cost_usd is None else str(row.cost_usd),
        "error_digest": None if row.error is None else digest(row.error.encode()),
        "sent_at": ledger.stamp(row.sent_at),
        "ended_at": None if row.ended_at is None else ledger.stamp(row.ended_at),
    }


def of_runs(connection: Connection, run_ids: Sequence[str]) -> dict[str, list[dict[str, Any]]]:
    """The calls of runs in the order in which they were sent; runs without any are missing."""
    is_theirs = calls.c.run_id == func.any(literal(list(run_ids), ARRAY(Text)))
    found: dict[str, list[dict[str, Any]]] = {}
    for row in connection.execute(select(calls).where(is_theirs).order_by(calls.c.sent_at, calls.c.call_id)):
        found.setdefault(row.run_id, []).append(record_of(row))
    return found


def seal(connection: Connection, log: ledger.Writer, *, at: dt.datetime) -> None:
    """Write the records of the run's calls, all of which have ended, into its ledger."""
    records = of_runs(connection, [log.run_id]).get(log.run_id)
    if records:
        log.append(SEALED, {"calls": records}, at=at)


def ended_late(
    connection: Connection, run_id: str, call_id: str, end: Callable[[], bool], *, at: dt.datetime
) -> None:
    """End a call that was given up before; where its run is over, with an event that says how it is now."""
    with ledger.writer(connection, run_id) as log:
        if end() and log.state in {RunState.FINISHED, RunState.CANCELLED}:
            row = connection.execute(select(calls).where(calls.c.call_id == call_id)).one()
            log.append(ENDED_LATE, {"call": record_of(row)}, at=at)
