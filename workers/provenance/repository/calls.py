"""Queries about model calls. A row is there before its request is sent, so that a call whose worker died is
still known, and billed by estimate; what a run has used is in `usage.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import ARRAY, Connection, Text, delete, func, literal, text, tuple_, update

from workers.core.budget import MOST_TOKENS, Amount
from workers.core.reply import Completion, Usage
from workers.provenance.digest import canonical, digest, keepable
from workers.provenance.models import calls
from workers.provenance.repository.stages import SeatKey, count_attempt, refund_attempt


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewCall:
    """A call about to be sent."""

    call_id: str
    key: SeatKey
    link: int
    provider: str
    model: str
    family: str
    request: Any
    pass_number: int = 1
    #: What one request of it can cost at most.
    worst: Amount = dataclasses.field(default_factory=Amount)


_NO_ERROR = {"error_kind": None, "error": None}
_NO_REPLY = {
    "model_served": None,
    "reply_digest": None,
    "body": None,
    "rung": None,
    "finish_reason": None,
    "is_simulated": False,
}

_SENT = text(
    """
    WITH run AS (
        SELECT run_id FROM runs
        WHERE run_id = :run_id AND state IN ('queued', 'running') AND NOT EXISTS (
            SELECT FROM batches WHERE batches.batch_id = runs.batch_id AND batches.state = 'cancelled'
        ) AND (
            :is_reserved
            OR budget_usd IS NULL AND budget_tokens IS NULL AND NOT EXISTS (
                SELECT FROM batches
                WHERE batches.batch_id = runs.batch_id
                    AND (batches.budget_usd IS NOT NULL OR batches.budget_tokens IS NOT NULL)
            )
        )
    ), body AS (
        INSERT INTO payloads (digest, body, size_bytes)
        SELECT :request_digest, CAST(:body AS bytea), octet_length(CAST(:body AS bytea)) FROM run
        ON CONFLICT DO NOTHING
    ), seat AS (
        UPDATE stages SET attempts = attempts + 1
        FROM run
        WHERE stages.run_id = run.run_id AND round = :round AND stage = :stage AND seat = :seat
        RETURNING run.run_id, stages.attempts
    ), call AS (
        INSERT INTO calls (
            call_id, run_id, round, stage, seat, pass_number, link, attempt, provider, model_asked, family, state,
            request_digest, reserved_input_tokens, reserved_output_tokens, reserved_usd
        )
        SELECT
            :call_id, run_id, :round, :stage, :seat, :pass_number, :link, attempts, :provider, :model, :family,
            'sent', :request_digest, :reserved_input_tokens, :reserved_output_tokens, :reserved_usd
        FROM seat
    )
    SELECT run_id FROM seat
    """
)

_ENDED = text(
    """
    WITH body AS (
        INSERT INTO payloads (digest, body, size_bytes)
        SELECT digest, body, octet_length(body)
        -- Cast, because a failed call has neither, and PostgreSQL gives a bare NULL whatever type it meets first.
        FROM (VALUES (CAST(:reply_digest AS text), CAST(:body AS bytea))) AS given (digest, body)
        WHERE digest IS NOT NULL
        ON CONFLICT DO NOTHING
    )
    UPDATE calls
    SET state = :state, model_served = :model_served, reply_digest = CAST(:reply_digest AS text),
        input_tokens = :input_tokens, output_tokens = :output_tokens,
        cached_input_tokens = :cached_input_tokens, cache_write_input_tokens = :cache_write_input_tokens,
        usage_is_estimated = :is_estimated, cost_usd = :cost_usd,
        rung = :rung, finish_reason = :finish_reason, is_simulated = :is_simulated,
        error_kind = :error_kind, error = :error,
        ended_at = clock_timestamp(), duration_seconds = extract(epoch FROM clock_timestamp() - sent_at)
    WHERE call_id = :call_id AND (
        :is_late OR state = 'sent' AND EXISTS (
            SELECT FROM runs WHERE runs.run_id = calls.run_id AND runs.state IN ('queued', 'running')
        )
    )
    RETURNING run_id
    """
)


def sent(connection: Connection, new: NewCall, *, is_reserved: bool = False) -> bool:
    """Write the row of a call that is about to be sent and count the attempt on its seat: one statement.

    False, and nothing is written, when the run or its batch has a budget and no room was reserved (`budgets.reserve`),
    and when the run has ended or its batch was cancelled: whatever a worker that was thought lost would still ask is in
    nobody's account.
    """
    body = canonical(new.request)
    row = connection.execute(
        _SENT,
        {
            **dataclasses.asdict(new.key),
            "call_id": new.call_id,
            "pass_number": new.pass_number,
            "link": new.link,
            "provider": new.provider,
            "model": new.model,
            "family": new.family,
            "request_digest": digest(body),
            "body": body,
            "reserved_input_tokens": min(new.worst.input_tokens, MOST_TOKENS),
            "reserved_output_tokens": min(new.worst.output_tokens, MOST_TOKENS),
            "reserved_usd": new.worst.usd,
            "is_reserved": is_reserved,
        },
    ).one_or_none()
    return row is not None


def sent_again(connection: Connection, call_id: str, key: SeatKey, more: Amount | None = None) -> bool:
    """The HTTP layer is about to repeat the call's request, which can cost `more`. False for a call that is over: its
    worker was thought lost, or its run has ended."""
    more = more or Amount()
    columns = calls.c
    # The seat's row first, as everyone locks them.
    count_attempt(connection, key)
    written = connection.execute(
        update(calls)
        .where(columns.call_id == call_id, columns.state == "sent")
        .values(
            http_requests=columns.http_requests + 1,
            reserved_input_tokens=func.least(columns.reserved_input_tokens + more.input_tokens, MOST_TOKENS),
            reserved_output_tokens=func.least(
                columns.reserved_output_tokens + more.output_tokens, MOST_TOKENS
            ),
            reserved_usd=columns.reserved_usd if more.usd is None else columns.reserved_usd + more.usd,
        )
    )
    return written.rowcount == 1


def not_sent(connection: Connection, call_id: str, key: SeatKey) -> bool:
    """The governor granted no slot: nothing was sent, so the attempt is given back. False for a call that has been
    given up meanwhile: it stays on record, and is to be ended as failed."""
    refund_attempt(connection, key)
    gone = connection.execute(delete(calls).where(calls.c.call_id == call_id, calls.c.state == "sent"))
    return gone.rowcount == 1


def done(
    connection: Connection,
    call_id: str,
    completion: Completion,
    *,
    rung: int | None,
    cost_usd: Decimal | None = None,
    is_late: bool = False,
) -> bool:
    """The reply arrived; `rung` says how it became JSON, None when it did not. One statement.

    False, and nothing is written, when the call was given up as orphaned or its run is over, unless `is_late`
    (`call_records.ended_late`): it is billed at what it cost all the same.
    """
    calls_asked = [dataclasses.asdict(call) for call in completion.tool_calls]
    body = canonical(
        {
            "text": completion.text,
            "reasoning": completion.reasoning,
            **({"tool_calls": calls_asked} if calls_asked else {}),
        }
    )
    row = connection.execute(
        _ENDED,
        {
            **_NO_ERROR,
            **_counts(completion.usage),
            "call_id": call_id,
            "cost_usd": cost_usd,
            "state": "done",
            "model_served": keepable(completion.model_served),
            "reply_digest": digest(body),
            "body": body,
            "rung": rung,
            "finish_reason": completion.finish_reason,
            "is_simulated": completion.is_simulated,
            "is_late": is_late,
        },
    ).one_or_none()
    return row is not None


def failed(
    connection: Connection,
    call_id: str,
    *,
    kind: str,
    message: str,
    usage: Usage | None,
    cost_usd: Decimal | None = None,
    is_late: bool = False,
) -> bool:
    """The call ended without a reply. One statement. False as in `done`."""
    row = connection.execute(
        _ENDED,
        {
            **_NO_REPLY,
            **_counts(usage or Usage()),
            "call_id": call_id,
            "cost_usd": cost_usd,
            "state": "failed",
            "error_kind": kind,
            "error": keepable(message[:2000]),
            "is_late": is_late,
        },
    ).one_or_none()
    return row is not None


def _counts(usage: Usage) -> dict[str, int | bool]:
    """Token counts as the provider gave them, kept within what a column holds."""
    return {
        name: value if isinstance(value, bool) else min(max(value, 0), MOST_TOKENS)
        for name, value in dataclasses.asdict(usage).items()
    }


#: What becomes of an open call that nobody will hear of again: it is billed at its worst case.
_ORPHANED = {
    "state": "orphaned",
    "input_tokens": calls.c.reserved_input_tokens,
    "output_tokens": calls.c.reserved_output_tokens,
    "cost_usd": calls.c.reserved_usd,
    "usage_is_estimated": True,
    "error_kind": "lost_worker",
    "error": "its worker was lost before a reply was on record",
    "ended_at": func.clock_timestamp(),
}


def orphan_seats(connection: Connection, keys: Iterable[SeatKey]) -> int:
    """The seats' workers were lost: their open calls become orphans. How many there were."""
    lost = [dataclasses.astuple(key) for key in sorted(keys)]
    if not lost:
        return 0
    seat = tuple_(calls.c.run_id, calls.c.round, calls.c.stage, calls.c.seat)
    statement = update(calls).where(seat.in_(lost), calls.c.state == "sent").values(_ORPHANED)
    return connection.execute(statement).rowcount


def orphan_run(connection: Connection, run_id: str) -> int:
    """The run is about to end: whatever is still open in it becomes an orphan. How many there were."""
    return orphan_runs(connection, [run_id])


def orphan_runs(connection: Connection, run_ids: Sequence[str]) -> int:
    """`orphan_run` for many."""
    is_theirs = calls.c.run_id == func.any(literal(list(run_ids), ARRAY(Text)))
    statement = update(calls).where(is_theirs, calls.c.state == "sent").values(_ORPHANED)
    return connection.execute(statement).rowcount
