"""Queries about model calls. A row is there before its request is sent, so that a call whose worker died is
still known; a run's usage is the sum of its rows, whichever workers made the calls."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, delete, func, select, text, update

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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunUsage:
    """What a run's calls have used so far, by seat: `(stage, seat, model served or asked)` → counts."""

    calls: int
    failed_calls: int
    input_tokens: int
    output_tokens: int
    has_estimates: bool
    cost_usd: Decimal | None
    seats: tuple[SeatUsage, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SeatUsage:
    stage: str
    seat: str
    provider: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    seconds: float


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
    WITH body AS (
        INSERT INTO payloads (digest, body, size_bytes)
        VALUES (:request_digest, CAST(:body AS bytea), octet_length(CAST(:body AS bytea)))
        ON CONFLICT DO NOTHING
    ), call AS (
        INSERT INTO calls (
            call_id, run_id, round, stage, seat, pass_number, link, provider, model_asked, family, state,
            request_digest
        )
        VALUES (
            :call_id, :run_id, :round, :stage, :seat, :pass_number, :link, :provider, :model, :family, 'sent',
            :request_digest
        )
    )
    UPDATE stages SET attempts = attempts + 1
    WHERE run_id = :run_id AND round = :round AND stage = :stage AND seat = :seat
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
        cached_input_tokens = :cached_input_tokens, usage_is_estimated = :is_estimated,
        rung = :rung, finish_reason = :finish_reason, is_simulated = :is_simulated,
        error_kind = :error_kind, error = :error,
        ended_at = clock_timestamp(), duration_seconds = extract(epoch FROM clock_timestamp() - sent_at)
    WHERE call_id = :call_id
    """
)


def sent(connection: Connection, new: NewCall) -> None:
    """Write the row of a call that is about to be sent and count the attempt on its seat: one statement."""
    body = canonical(new.request)
    connection.execute(
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
        },
    )


def sent_again(connection: Connection, call_id: str, key: SeatKey) -> None:
    """The HTTP layer is about to repeat the call's request."""
    connection.execute(
        update(calls).where(calls.c.call_id == call_id).values(http_requests=calls.c.http_requests + 1)
    )
    count_attempt(connection, key)


def not_sent(connection: Connection, call_id: str, key: SeatKey) -> None:
    """The governor granted no slot: nothing was sent, so the attempt is given back."""
    connection.execute(delete(calls).where(calls.c.call_id == call_id))
    refund_attempt(connection, key)


def done(connection: Connection, call_id: str, completion: Completion, *, rung: int | None) -> None:
    """The reply arrived; `rung` says how it became JSON, None when it did not. One statement."""
    body = canonical({"text": completion.text, "reasoning": completion.reasoning})
    connection.execute(
        _ENDED,
        {
            **_NO_ERROR,
            **_counts(completion.usage),
            "call_id": call_id,
            "state": "done",
            "model_served": keepable(completion.model_served),
            "reply_digest": digest(body),
            "body": body,
            "rung": rung,
            "finish_reason": completion.finish_reason,
            "is_simulated": completion.is_simulated,
        },
    )


def failed(connection: Connection, call_id: str, *, kind: str, message: str, usage: Usage | None) -> None:
    """The call ended without a reply. One statement."""
    connection.execute(
        _ENDED,
        {
            **_NO_REPLY,
            **_counts(usage or Usage()),
            "call_id": call_id,
            "state": "failed",
            "error_kind": kind,
            "error": keepable(message[:2000]),
        },
    )


#: More tokens than this were never billed, and an integer column holds no more.
_MOST_TOKENS = 2**31 - 1


def _counts(usage: Usage) -> dict[str, int | bool]:
    """Token counts as the provider gave them, kept within what a column holds."""
    return {
        name: value if isinstance(value, bool) else min(max(value, 0), _MOST_TOKENS)
        for name, value in dataclasses.asdict(usage).items()
    }


def usage_of(connection: Connection, run_id: str) -> RunUsage:
    """The sum of a run's call rows."""
    model = func.coalesce(calls.c.model_served, calls.c.model_asked)
    rows = connection.execute(
        select(
            calls.c.stage,
            calls.c.seat,
            calls.c.provider,
            model.label("model"),
            func.count().label("calls"),
            func.count().filter(calls.c.state == "failed").label("failed"),
            func.sum(calls.c.input_tokens).label("input_tokens"),
            func.sum(calls.c.output_tokens).label("output_tokens"),
            func.bool_or(calls.c.usage_is_estimated).label("has_estimates"),
            func.sum(calls.c.cost_usd).label("cost_usd"),
            func.coalesce(func.sum(calls.c.duration_seconds), 0.0).label("seconds"),
        )
        .where(calls.c.run_id == run_id)
        .group_by(calls.c.stage, calls.c.seat, calls.c.provider, model)
        .order_by(func.min(calls.c.sent_at))
    ).all()
    costs = [row.cost_usd for row in rows if row.cost_usd is not None]
    return RunUsage(
        calls=sum(row.calls for row in rows),
        failed_calls=sum(row.failed for row in rows),
        input_tokens=sum(row.input_tokens for row in rows),
        output_tokens=sum(row.output_tokens for row in rows),
        has_estimates=any(row.has_estimates for row in rows),
        cost_usd=sum(costs, Decimal(0)) if costs else None,
        seats=tuple(
            SeatUsage(
                stage=row.stage,
                seat=row.seat,
                provider=row.provider,
                model=row.model,
                calls=row.calls,
                input_tokens=row.input_tokens,
                output_tokens=row.output_tokens,
                seconds=round(row.seconds, 3),
            )
            for row in rows
        ),
    )
