"""Into scorings: their runs in lines, what their pages draw, and the nights of schedules."""

from __future__ import annotations

import re
from typing import Annotated

from fastapi import APIRouter, Query

from api.dependencies import InspectorHere, Services, ServicesHere, TenantHere
from api.inspection_schemas import ChartsOut, ListedRunOut, ListedRunPage, NightOut, NightPage
from api.plain_text import PlainText
from workers.core.scoring import ScoringState
from workers.errors import InputError, StateError
from workers.provenance.repository import scored_runs, scorings
from workers.provenance.repository.scored_runs import Filters, Order

router = APIRouter(prefix="/v1", tags=["scorings"])

_CURSOR = re.compile(r"(-?\d+(?:\.\d+)?(?:e-?\d+)?):(\d{1,9})")


@router.get("/scorings/{scoring_id}/runs", summary="The runs of a scoring in lines, filtered and sorted")
def list_runs(
    scoring_id: str,
    services: ServicesHere,
    tenant: TenantHere,
    cursor: Annotated[
        str | None, Query(max_length=60, description="`next_cursor` of the page before, in the same order")
    ] = None,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
    order: Annotated[Order, Query(description="as in the report, or by score")] = Order.PLACE,
    tier: Annotated[str | None, Query(max_length=40)] = None,
    model: Annotated[str | None, Query(max_length=500)] = None,
    problem: Annotated[str | None, Query(max_length=1000)] = None,
    mechanism: Annotated[str | None, Query(max_length=10)] = None,
    outcome: Annotated[str | None, Query(max_length=10)] = None,
) -> ListedRunPage:
    after = None
    if cursor is not None:
        if (match := _CURSOR.fullmatch(cursor)) is None:
            raise InputError(
                f"the cursor {cursor[:40]!r} is not the next_cursor of a page; leave it out for the first page"
            )
        after = float(match[1]), int(match[2])
    filters = Filters(tier=tier, model=model, problem=problem, mechanism=mechanism, outcome=outcome)
    with services.database.begin() as connection:
        scorings.get(connection, scoring_id, tenant_id=tenant)
        found = scored_runs.page(
            connection,
            scoring_id,
            tenant_id=tenant,
            filters=filters,
            order=order,
            after=after,
            limit=limit + 1,
        )
    listed = found[:limit]
    return ListedRunPage(
        runs=[ListedRunOut.of(scoring_id, run) for run in listed],
        next_cursor=f"{listed[-1].score!r}:{listed[-1].place}" if len(found) > limit else None,
    )


@router.get("/scorings/{scoring_id}/charts", summary="What the page of a finished scoring draws")
def charts(
    scoring_id: str, services: ServicesHere, inspector: InspectorHere, tenant: TenantHere
) -> ChartsOut:
    """Ranks, tiers by model, how score and signals are spread, and Lucky passes by mechanism."""
    must_have_finished(services, tenant, scoring_id)
    return ChartsOut.model_validate(inspector.charts(scoring_id, tenant_id=tenant))


def must_have_finished(services: Services, tenant: str, scoring_id: str) -> None:
    """Raises: NotFoundError; StateError if there is nothing to draw yet, or never will be."""
    with services.database.begin() as connection:
        scoring = scorings.get(connection, scoring_id, tenant_id=tenant)
    if scoring.state is not ScoringState.FINISHED:
        raise StateError(
            f"scoring {scoring_id} is {scoring.state}; its charts are drawn once it has finished"
        )


@router.get(
    "/nights", summary="The nights of schedules, newest first, each with what changed since the one before"
)
def nights(
    inspector: InspectorHere,
    tenant: TenantHere,
    schedule: Annotated[PlainText | None, Query(max_length=63)] = None,
    limit: Annotated[int, Query(ge=1, le=400)] = 60,
) -> NightPage:
    found = inspector.nights(schedule, tenant_id=tenant, limit=limit)
    return NightPage(nights=[NightOut.model_validate(night) for night in found])
