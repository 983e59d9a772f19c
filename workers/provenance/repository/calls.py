"""Queries about model calls. A row is there before its request is sent, so that a call whose worker died is
still known; a run's usage is the sum of its rows, whichever workers made the calls."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, delete, func, insert, select, update

from workers.core.reply import Completion, Usage
from workers.provenance import payload
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


def sent(connection: Connection, new: NewCall) -> None:
    """Write the row of a call that is about to be sent and count the attempt on its seat."""
    connection.execute(
        insert(calls).values(
            call_id=new.call_id,
            **dataclasses.asdict(new.key),
            pass_number=new.pass_number,
            link=new.link,
            provider=new.provider,
            model_asked=new.model,
            family=new.family,
            state="sent",
            request_digest=payload.store(connection, new.request),
        )
    )
    count_attempt(connection, new.key)


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
    """The reply arrived; `rung` says how it became JSON, None when it did not."""
    connection.execute(
        update(calls)
        .where(calls.c.call_id == call_id)
        .values(
            state="done",
            model_served=completion.model_served,
            reply_digest=payload.store(
                connection, {"text": completion.text, "reasoning": completion.reasoning}
            ),
            **_usage(completion.usage),
            rung=rung,
            finish_reason=completion.finish_reason,
            is_simulated=completion.is_simulated,
            ended_at=func.clock_timestamp(),
            duration_seconds=func.extract("epoch", func.clock_timestamp() - calls.c.sent_at),
        )
    )


def failed(connection: Connection, call_id: str, *, kind: str, message: str, usage: Usage | None) -> None:
    """The call ended without a reply."""
    connection.execute(
        update(calls)
        .where(calls.c.call_id == call_id)
        .values(
            state="failed",
            error_kind=kind,
            error=message[:2000],
            **_usage(usage or Usage()),
            ended_at=func.clock_timestamp(),
            duration_seconds=func.extract("epoch", func.clock_timestamp() - calls.c.sent_at),
        )
    )


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


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "usage_is_estimated": usage.is_estimated,
    }
