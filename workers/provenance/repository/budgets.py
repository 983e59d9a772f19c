"""Reservations: a call of a run with a budget is recorded only in the transaction that found room for it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, literal, or_, select, text

from workers.core.budget import Account, Amount, Budget, Refusal, refusal
from workers.core.run import RunState
from workers.provenance.models import batches, calls, runs


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Whatever has a budget of its own. Both statements take a `run_id`.

    `lock` gives the budget, the lead's share and what was spent by what has ended, and holds their row until the
    transaction ends; no row where there is no budget. `committed` gives what the rest has spent and reserved, read
    after the lock.
    """

    name: str
    lock: Select[Any]
    committed: Select[Any]


_IS_OPEN = calls.c.state == "sent"


def _sum(column: Any, *, is_open: bool) -> Any:
    return func.coalesce(func.sum(column).filter(_IS_OPEN if is_open else ~_IS_OPEN), 0)


_COMMITTED = select(
    _sum(calls.c.input_tokens, is_open=False).label("spent_input_tokens"),
    _sum(calls.c.output_tokens, is_open=False).label("spent_output_tokens"),
    _sum(calls.c.cost_usd, is_open=False).label("spent_usd"),
    _sum(calls.c.reserved_input_tokens, is_open=True).label("reserved_input_tokens"),
    _sum(calls.c.reserved_output_tokens, is_open=True).label("reserved_output_tokens"),
    _sum(calls.c.reserved_usd, is_open=True).label("reserved_usd"),
)
_NOTHING_USD = literal(Decimal(0))

_RUN = Scope(
    name="run",
    lock=select(
        runs.c.budget_usd,
        runs.c.budget_tokens,
        runs.c.lead_share_usd,
        runs.c.lead_share_tokens,
        _NOTHING_USD.label("ended_usd"),
        literal(0).label("ended_tokens"),
    )
    .where(
        runs.c.run_id == bindparam("run_id"),
        or_(runs.c.budget_usd.is_not(None), runs.c.budget_tokens.is_not(None)),
    )
    # Not the whole row: a new seat's reference to the run need not wait.
    .with_for_update(key_share=True),
    committed=_COMMITTED.where(calls.c.run_id == bindparam("run_id")),
)

#: Who calls this scope's budget theirs: a seat that it refuses waits instead of giving up.
BATCH = "batch"

_OF_RUN = select(runs.c.batch_id).where(runs.c.run_id == bindparam("run_id")).scalar_subquery()
_siblings = runs.alias("siblings")

#: No share is kept for the lead: when the budget is used up the runs under way wait, and none of them ends for it.
_BATCH = Scope(
    name=BATCH,
    lock=select(
        batches.c.budget_usd,
        batches.c.budget_tokens,
        _NOTHING_USD.label("lead_share_usd"),
        literal(0).label("lead_share_tokens"),
        batches.c.spent_usd.label("ended_usd"),
        batches.c.spent_tokens.label("ended_tokens"),
    )
    .where(
        batches.c.batch_id == _OF_RUN,
        or_(batches.c.budget_usd.is_not(None), batches.c.budget_tokens.is_not(None)),
    )
    .with_for_update(key_share=True),
    # Runs that have not started have no calls, and those that have ended are in the batch's row.
    committed=_COMMITTED.join_from(calls, _siblings, _siblings.c.run_id == calls.c.run_id).where(
        _siblings.c.batch_id == _OF_RUN, _siblings.c.state == RunState.RUNNING
    ),
)

#: What a run's calls are charged to, in the order in which the rows are locked: run, batch, and stages after both.
SCOPES: tuple[Scope, ...] = (_RUN, _BATCH)

_CHARGE = text(
    """
    UPDATE batches
    SET spent_usd = spent_usd + used.usd, spent_tokens = spent_tokens + used.tokens
    FROM (
        SELECT runs.batch_id, coalesce(sum(calls.cost_usd), 0) AS usd,
            sum(calls.input_tokens::bigint + calls.output_tokens) AS tokens
        FROM runs JOIN calls USING (run_id)
        WHERE runs.run_id = ANY(:run_ids) AND runs.batch_id IS NOT NULL
        GROUP BY runs.batch_id
    ) AS used
    WHERE batches.batch_id = used.batch_id
        -- Nobody asks what a batch without a budget has spent, and its runs need not wait for each other.
        AND (batches.budget_usd IS NOT NULL OR batches.budget_tokens IS NOT NULL)
    """
)


def hold_batch(connection: Connection, batch_id: str | None) -> None:
    """Whoever is about to end seats or calls of a run and then `charge_batch` takes its batch's row first, as `reserve`
    does; the other way round, two of them could wait for each other, and a call that was just being reserved would be
    charged to nobody. A batch without a budget is not held."""
    if batch_id is not None:
        connection.execute(
            select(batches.c.batch_id)
            .where(
                batches.c.batch_id == batch_id,
                or_(batches.c.budget_usd.is_not(None), batches.c.budget_tokens.is_not(None)),
            )
            .with_for_update(key_share=True)
        )


def charge_batch(connection: Connection, run_ids: Sequence[str]) -> None:
    """These runs end in this transaction, and no call of theirs is open any more: from now on what they have used
    stands in their batch's row."""
    connection.execute(_CHARGE, {"run_ids": list(run_ids)})


def reserve(connection: Connection, run_id: str, wanted: Amount, *, is_lead: bool) -> Refusal | None:
    """Why a call of at most `wanted` may not be sent, None if it may.

    The caller records the call (or its repeat) in the same transaction; until that ends, nobody else's call is
    weighed against the same budget.
    """
    for scope in SCOPES:
        account = _account(connection, scope, run_id)
        refused = None if account is None else refusal(account, wanted, is_lead=is_lead)
        if refused is not None:
            return refused
    return None


def _account(connection: Connection, scope: Scope, run_id: str) -> Account | None:
    limit = connection.execute(scope.lock, {"run_id": run_id}).one_or_none()
    if limit is None:
        return None
    # A statement of its own: one that waited for the lock would still see the calls from before it waited.
    row = connection.execute(scope.committed, {"run_id": run_id}).one()
    return Account(
        scope=scope.name,
        budget=Budget(usd=limit.budget_usd, tokens=limit.budget_tokens),
        spent=Amount(
            input_tokens=row.spent_input_tokens, output_tokens=row.spent_output_tokens, usd=row.spent_usd
        )
        + Amount(input_tokens=limit.ended_tokens, usd=limit.ended_usd),
        reserved=Amount(
            input_tokens=row.reserved_input_tokens,
            output_tokens=row.reserved_output_tokens,
            usd=row.reserved_usd,
        ),
        lead_share=Amount(input_tokens=limit.lead_share_tokens, usd=limit.lead_share_usd),
    )
