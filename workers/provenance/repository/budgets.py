"""Reservations: a call of a run with a budget is recorded only in the transaction that found room for it."""

from __future__ import annotations

import dataclasses
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, or_, select

from workers.core.budget import Account, Amount, Budget, Refusal, refusal
from workers.provenance.models import calls, runs


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Whatever has a budget of its own. Both statements take a `run_id`.

    `lock` gives the budget and the lead's share, and holds their row until the transaction ends; no row where
    there is no budget. `committed` gives what is spent and reserved, read after the lock.
    """

    name: str
    lock: Select[Any]
    committed: Select[Any]


_IS_OPEN = calls.c.state == "sent"


def _sum(column: Any, *, is_open: bool) -> Any:
    return func.coalesce(func.sum(column).filter(_IS_OPEN if is_open else ~_IS_OPEN), 0)


_RUN = Scope(
    name="run",
    lock=select(runs.c.budget_usd, runs.c.budget_tokens, runs.c.lead_share_usd, runs.c.lead_share_tokens)
    .where(
        runs.c.run_id == bindparam("run_id"),
        or_(runs.c.budget_usd.is_not(None), runs.c.budget_tokens.is_not(None)),
    )
    # Not the whole row: a new seat's reference to the run need not wait.
    .with_for_update(key_share=True),
    committed=select(
        _sum(calls.c.input_tokens, is_open=False).label("spent_input_tokens"),
        _sum(calls.c.output_tokens, is_open=False).label("spent_output_tokens"),
        _sum(calls.c.cost_usd, is_open=False).label("spent_usd"),
        _sum(calls.c.reserved_input_tokens, is_open=True).label("reserved_input_tokens"),
        _sum(calls.c.reserved_output_tokens, is_open=True).label("reserved_output_tokens"),
        _sum(calls.c.reserved_usd, is_open=True).label("reserved_usd"),
    ).where(calls.c.run_id == bindparam("run_id")),
)

#: What a run's calls are charged to, in the order in which the rows are locked.
SCOPES: tuple[Scope, ...] = (_RUN,)


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
        ),
        reserved=Amount(
            input_tokens=row.reserved_input_tokens,
            output_tokens=row.reserved_output_tokens,
            usd=row.reserved_usd,
        ),
        lead_share=Amount(input_tokens=limit.lead_share_tokens, usd=limit.lead_share_usd),
    )
