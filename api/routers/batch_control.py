"""Batches: pause, resume, cancel."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated

from fastapi import APIRouter, Body
from pydantic import ConfigDict, Field

from api.batch_detail import detail_of
from api.batch_schemas import BatchDetail
from api.dependencies import KeyHere, ServicesHere, TenantHere
from api.errors import described
from api.known_fields import KnownFields
from workers.core.budget import MOST_BUDGET_TOKENS, MOST_USD, Budget
from workers.provenance.repository import batch_control, batches

router = APIRouter(prefix="/v1/batches", tags=["batches"])


class ResumeRequest(KnownFields):
    """A batch whose budget is used up goes on with a larger one only."""

    model_config = ConfigDict(extra="forbid")

    budget_usd: Decimal | None = Field(
        default=None, gt=0, le=MOST_USD, decimal_places=6, description="instead of the one it has; larger"
    )
    budget_tokens: int | None = Field(
        default=None, gt=0, le=MOST_BUDGET_TOKENS, description="instead of the one it has; larger"
    )

    @property
    def budget(self) -> Budget:
        return Budget(usd=self.budget_usd, tokens=self.budget_tokens)


_NOT_IN_THIS_STATE = described({409: "The batch is not in a state that allows this"})


@router.post("/{batch_id}/pause", summary="Pause a batch", responses=_NOT_IN_THIS_STATE)
def pause(batch_id: str, services: ServicesHere, tenant: TenantHere, key: KeyHere) -> BatchDetail:
    """Sends no further run; those under way go on to their end. Repeating it changes nothing."""
    with services.database.begin() as connection:
        batch_control.pause(connection, batch_id, tenant_id=tenant)
        return detail_of(connection, batches.get(connection, batch_id, tenant_id=tenant), services)


@router.post("/{batch_id}/resume", summary="Let a paused batch go on", responses=_NOT_IN_THIS_STATE)
def resume(
    batch_id: str,
    services: ServicesHere,
    tenant: TenantHere,
    key: KeyHere,
    body: Annotated[ResumeRequest | None, Body()] = None,
) -> BatchDetail:
    """Goes on at once, with a larger budget if one is given; a batch that was paused because its budget is used up
    needs one. Repeating it without a budget changes nothing."""
    with services.database.begin() as connection:
        budget = body.budget if body is not None else None
        batch_control.resume(connection, batch_id, tenant_id=tenant, budget=budget)
        found = detail_of(connection, batches.get(connection, batch_id, tenant_id=tenant), services)
    services.dispatch()
    return found


@router.post("/{batch_id}/cancel", summary="Cancel a batch")
def cancel(batch_id: str, services: ServicesHere, tenant: TenantHere, key: KeyHere) -> BatchDetail:
    """Final. Nothing more is sent or asked from now on, and calls in flight are broken off within seconds; its runs are
    closed one after the other, which takes a while for very many (`finished_at` is set when all are). A batch that has
    ended stays as it ended, so repeating this is safe with or without an Idempotency-Key."""
    with services.database.begin() as connection:
        is_new = batch_control.cancel(connection, batch_id, tenant_id=tenant)
        found = detail_of(connection, batches.get(connection, batch_id, tenant_id=tenant), services)
    if is_new:
        services.sweep(batch_id)
    return found
