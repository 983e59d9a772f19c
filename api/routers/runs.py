"""Runs: create, list, show, cancel."""

from __future__ import annotations

import contextlib
from typing import Annotated

from fastapi import APIRouter, Query, Response
from fastapi.responses import JSONResponse
from sqlalchemy import Connection

from api.checked_run import check_request
from api.dependencies import CursorHere, KeyHere, ServicesHere, TenantHere, new_run_id, now
from api.estimates import estimate_of
from api.plain_text import PlainText
from api.run_request import RunRequest
from api.schemas import EstimateOut, RunDetail, RunPage, RunSummary, UsageOut, WebhookOut
from workers.core.run import Outcome, RunState
from workers.errors import NotFoundError
from workers.estimate import check_priced, estimate_data
from workers.provenance import payload
from workers.provenance.repository import batches, deliveries, runs, usage
from workers.provenance.retention.bodies import gone
from workers.teams import load_team

router = APIRouter(prefix="/v1/runs", tags=["runs"])


@router.post(
    "",
    status_code=202,
    summary="Submit one spec",
    response_model=RunSummary,
    responses={
        200: {
            "model": RunSummary | EstimateOut,
            "description": "The run that this Idempotency-Key made before, or the estimate of a dry run",
        }
    },
)
def create(
    body: RunRequest, response: Response, services: ServicesHere, tenant: TenantHere, key: KeyHere
) -> RunSummary | JSONResponse:
    """202 for a new run; 200 with the run that is there for a repeated Idempotency-Key.

    With `dry_run` nothing is sent or stored: 200 with what the run will cost."""
    checked = check_request(body)
    services.webhooks.check(body.webhook_url)
    team = load_team(body.team, services.team_folders).team
    budget = checked.budget
    estimated = estimate_of(team, checked.submitted, services) if budget.is_set or body.dry_run else None
    if estimated is not None:
        check_priced(estimated, budget)
        if body.dry_run:
            return JSONResponse(EstimateOut(**estimate_data(estimated, budget)).model_dump(mode="json"))
    new = checked.new_run(
        run_id=new_run_id(),
        team=team.as_data(),
        tenant_id=tenant,
        idempotency_key=key,
        lead_share=None if estimated is None else estimated.lead_share,
    )
    with services.database.begin() as connection:
        run, is_new = runs.create(connection, new, at=now())
    if is_new:
        services.submit(run.run_id)
    else:
        response.status_code = 200
    response.headers["Location"] = f"/v1/runs/{run.run_id}"
    return RunSummary.of(run)


@router.get("", summary="List runs, newest first")
def list_runs(
    services: ServicesHere,
    tenant: TenantHere,
    cursor: CursorHere,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    state: RunState | None = None,
    outcome: Outcome | None = None,
    team: Annotated[str | None, Query(max_length=100, pattern=r"^[a-z][a-z0-9-]*$")] = None,
    batch: Annotated[
        PlainText | None, Query(max_length=100, description="only the runs of this batch")
    ] = None,
) -> RunPage:
    with services.database.begin() as connection:
        if batch is not None:
            batches.get(connection, batch, tenant_id=tenant)
        found = runs.page(
            connection,
            tenant_id=tenant,
            before=cursor,
            limit=limit + 1,
            state=state,
            outcome=outcome,
            team=team,
            batch_id=batch,
        )
    shown = found[:limit]
    return RunPage(
        runs=[RunSummary.of(run) for run in shown],
        next_cursor=shown[-1].run_id if len(found) > limit else None,
    )


@router.get("/{run_id}", summary="Show one run")
def show(run_id: str, services: ServicesHere, tenant: TenantHere) -> RunDetail:
    with services.database.begin() as connection:
        return _detail(connection, runs.get(connection, run_id, tenant_id=tenant))


@router.post("/{run_id}/cancel", summary="Cancel a run")
def cancel(run_id: str, services: ServicesHere, tenant: TenantHere, key: KeyHere) -> RunDetail:
    """Ends the run at once and breaks off its model calls within seconds. A run that has ended stays as it
    ended, so repeating this is safe with or without an Idempotency-Key."""
    with services.database.begin() as connection:
        run, _ = runs.cancel(connection, run_id, tenant_id=tenant, at=now())
        return _detail(connection, run)


def _detail(connection: Connection, run: runs.Run) -> RunDetail:
    verdict = None
    if run.verdict_digest is not None:
        # A redacted verdict is gone; the run and its outcome are still there to be shown.
        with contextlib.suppress(NotFoundError):
            verdict = payload.load(connection, run.verdict_digest, run_id=run.run_id)
    used = UsageOut.of(usage.usage_of(connection, run.run_id))
    told = [WebhookOut.of(status) for status in deliveries.run_statuses(connection, run.run_id)]
    return RunDetail(
        **RunSummary.values_of(run),
        verdict=verdict,
        usage=used,
        webhook=told[0] if told else None,
        gone=gone(run.pruned_at),
    )
