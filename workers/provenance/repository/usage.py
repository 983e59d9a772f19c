"""What a run and its seats have used: the sum of call rows, whichever workers made the calls."""

from __future__ import annotations

import dataclasses
import datetime as dt
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Row, and_, func, select

from workers.core.budget import Amount, Budget, overshoot
from workers.provenance.models import calls, runs
from workers.provenance.repository.stages import SeatKey


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SeatUsage:
    """One seat's calls to one model (as served, or as asked where nothing was)."""

    stage: str
    seat: str
    provider: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    has_estimates: bool
    cost_usd: Decimal | None
    seconds: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class OrphanedCall:
    """A call whose worker died: nobody knows what it cost, so its worst case is billed."""

    call_id: str
    stage: str
    seat: str
    provider: str
    model: str
    sent_at: dt.datetime
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RunUsage:
    """What a run's calls have used so far.

    `cost_usd` sums the calls whose price is known, None if there is none; `unpriced_calls` are the others that
    have ended. `reserved` is held back for calls under way.
    """

    calls: int
    failed_calls: int
    unpriced_calls: int
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    cache_write_input_tokens: int
    has_estimates: bool
    cost_usd: Decimal | None
    reserved: Amount
    orphaned: tuple[OrphanedCall, ...]
    seats: tuple[SeatUsage, ...]


_IS_OPEN = calls.c.state == "sent"
_MODEL = func.coalesce(calls.c.model_served, calls.c.model_asked)


def usage_of(connection: Connection, run_id: str) -> RunUsage:
    """The sum of a run's call rows."""
    rows = connection.execute(
        select(
            calls.c.stage,
            calls.c.seat,
            calls.c.provider,
            _MODEL.label("model"),
            func.count().label("calls"),
            func.count().filter(calls.c.state == "failed").label("failed"),
            func.count().filter(calls.c.state == "orphaned").label("orphaned"),
            func.count().filter(~_IS_OPEN, calls.c.cost_usd.is_(None)).label("unpriced"),
            func.sum(calls.c.input_tokens).label("input_tokens"),
            func.sum(calls.c.output_tokens).label("output_tokens"),
            func.sum(calls.c.cached_input_tokens).label("cached"),
            func.sum(calls.c.cache_write_input_tokens).label("written"),
            func.bool_or(calls.c.usage_is_estimated).label("has_estimates"),
            func.sum(calls.c.cost_usd).label("cost_usd"),
            _open_sum(calls.c.reserved_input_tokens).label("reserved_in"),
            _open_sum(calls.c.reserved_output_tokens).label("reserved_out"),
            _open_sum(calls.c.reserved_usd).label("reserved_usd"),
            func.coalesce(func.sum(calls.c.duration_seconds), 0.0).label("seconds"),
        )
        .where(calls.c.run_id == run_id)
        .group_by(calls.c.stage, calls.c.seat, calls.c.provider, _MODEL)
        .order_by(func.min(calls.c.sent_at), func.min(calls.c.call_id))
    ).all()
    return RunUsage(
        calls=sum(row.calls for row in rows),
        failed_calls=sum(row.failed for row in rows),
        unpriced_calls=sum(row.unpriced for row in rows),
        input_tokens=sum(row.input_tokens for row in rows),
        output_tokens=sum(row.output_tokens for row in rows),
        cached_input_tokens=sum(row.cached for row in rows),
        cache_write_input_tokens=sum(row.written for row in rows),
        has_estimates=any(row.has_estimates for row in rows),
        cost_usd=_total([row.cost_usd for row in rows]),
        reserved=Amount(
            input_tokens=sum(row.reserved_in for row in rows),
            output_tokens=sum(row.reserved_out for row in rows),
            usd=sum((row.reserved_usd for row in rows), Decimal(0)),
        ),
        orphaned=_orphaned(connection, run_id) if any(row.orphaned for row in rows) else (),
        seats=tuple(_seat(row) for row in rows),
    )


def _open_sum(column: Any) -> Any:
    return func.coalesce(func.sum(column).filter(_IS_OPEN), 0)


def _total(costs: list[Decimal | None]) -> Decimal | None:
    known = [cost for cost in costs if cost is not None]
    return sum(known, Decimal(0)) if known else None


def _seat(row: Row[Any]) -> SeatUsage:
    return SeatUsage(
        stage=row.stage,
        seat=row.seat,
        provider=row.provider,
        model=row.model,
        calls=row.calls,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        has_estimates=row.has_estimates,
        cost_usd=row.cost_usd,
        seconds=round(row.seconds, 3),
    )


def _orphaned(connection: Connection, run_id: str) -> tuple[OrphanedCall, ...]:
    rows = connection.execute(
        select(calls)
        .where(calls.c.run_id == run_id, calls.c.state == "orphaned")
        .order_by(calls.c.sent_at, calls.c.call_id)
    )
    return tuple(
        OrphanedCall(
            call_id=row.call_id,
            stage=row.stage,
            seat=row.seat,
            provider=row.provider,
            model=row.model_asked,
            sent_at=row.sent_at,
            input_tokens=row.input_tokens,
            output_tokens=row.output_tokens,
            cost_usd=row.cost_usd,
        )
        for row in rows
    )


def seat_spending(connection: Connection, key: SeatKey) -> dict[str, Any]:
    """What a seat's calls have used, as plain data for its event."""
    row = connection.execute(
        select(
            func.count().label("calls"),
            func.coalesce(func.sum(calls.c.input_tokens), 0).label("input_tokens"),
            func.coalesce(func.sum(calls.c.output_tokens), 0).label("output_tokens"),
            func.coalesce(func.bool_or(calls.c.usage_is_estimated), False).label("has_estimates"),
            func.sum(calls.c.cost_usd).label("cost_usd"),
        ).where(
            and_(
                calls.c.run_id == key.run_id,
                calls.c.round == key.round,
                calls.c.stage == key.stage,
                calls.c.seat == key.seat,
            )
        )
    ).one()
    return {
        "calls": row.calls,
        "input_tokens": row.input_tokens,
        "output_tokens": row.output_tokens,
        "has_estimates": row.has_estimates,
        "cost_usd": usd_number(row.cost_usd),
    }


def run_spending(connection: Connection, run_id: str) -> dict[str, Any]:
    """What a run that ends has used, beside its budget, as plain data for its last event."""
    limit = connection.execute(
        select(runs.c.budget_usd, runs.c.budget_tokens).where(runs.c.run_id == run_id)
    ).one()
    budget = Budget(usd=limit.budget_usd, tokens=limit.budget_tokens)
    used = usage_of(connection, run_id)
    above = overshoot(
        budget, Amount(input_tokens=used.input_tokens, output_tokens=used.output_tokens, usd=used.cost_usd)
    )
    return {
        "calls": used.calls,
        "unpriced_calls": used.unpriced_calls,
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "has_estimates": used.has_estimates,
        "cost_usd": usd_number(used.cost_usd),
        "budget_usd": usd_number(budget.usd),
        "budget_tokens": budget.tokens,
        "overshoot_usd": usd_number(above.usd),
        "overshoot_tokens": above.tokens,
        "orphaned": [orphan_data(call) for call in used.orphaned],
    }


def orphan_data(call: OrphanedCall) -> dict[str, Any]:
    """An orphaned call as plain data for JSON."""
    return {
        **dataclasses.asdict(call),
        "sent_at": call.sent_at.isoformat(),
        "cost_usd": usd_number(call.cost_usd),
    }


def usd_number(value: Decimal | None) -> float | None:
    """Money in JSON: a number with at most six decimal places."""
    return None if value is None else float(value)
