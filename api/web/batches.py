"""Batches: the list, and one batch with its progress, failures and cost."""

from __future__ import annotations

from typing import Any, Literal

from fastapi import APIRouter, Response

from api.batch_detail import detail_of
from api.batch_schemas import BatchDetail
from api.dependencies import BatchCursorHere, ServicesHere, TenantHere
from api.routers import batches as api_batches
from api.web.rendering import PageRoute, render
from workers.core.batch import BatchState
from workers.provenance.repository import batches, run_titles, runs

router = APIRouter(prefix="/batches", route_class=PageRoute)

PAGE_BATCHES = 50
#: Runs that the page itself shows; the list of runs has them all.
SHOWN_RUNS = 12
#: Lines left out that are shown.
_SHOWN_LINES = 50

#: What a run can be, in the order of the bar, with the colour of its stretch.
PARTS = (
    ("accepted", "good"),
    ("rejected", "bad"),
    ("degraded", "warn"),
    ("cancelled", "muted"),
    ("running", "info"),
    ("waiting", "none"),
)
_ENDED = ("accepted", "rejected", "degraded", "cancelled")


@router.get("")
def list_page(
    services: ServicesHere,
    tenant: TenantHere,
    cursor: BatchCursorHere,
    state: BatchState | Literal[""] = "",
) -> Response:
    found = api_batches.list_batches(services, tenant, cursor, PAGE_BATCHES, state or None)
    return render(
        "batches.html",
        values={
            "page": found,
            "filters": {"state": state},
            "is_first": cursor is None,
            "states": list(BatchState),
        },
    )


@router.get("/{batch_id}")
def batch_page(batch_id: str, services: ServicesHere, tenant: TenantHere) -> Response:
    return render("batch.html", values=_values(batch_id, services, tenant))


@router.get("/{batch_id}/live")
def live_part(batch_id: str, services: ServicesHere, tenant: TenantHere) -> Response:
    """What of the page changes while the batch goes on."""
    return render("batch_live.html", values=_values(batch_id, services, tenant))


def _values(batch_id: str, services: ServicesHere, tenant: str) -> dict[str, Any]:
    with services.database.begin() as connection:
        found = batches.get(connection, batch_id, tenant_id=tenant)
        detail = detail_of(connection, found, services)
        shown = runs.page(connection, tenant_id=tenant, limit=SHOWN_RUNS, batch_id=batch_id)
        titles = run_titles.of_runs(connection, [run.run_id for run in shown])
    progress = detail.progress.model_dump()
    return {
        "batch": detail,
        "progress": progress,
        "total": sum(progress.values()),
        "ended": sum(progress[name] for name in _ENDED),
        "stretches": stretches(progress),
        "parts": PARTS,
        "skipped_lines": detail.skipped_lines[:_SHOWN_LINES],
        "runs": shown,
        "titles": titles,
        "actions": actions_of(detail),
    }


def stretches(progress: dict[str, int]) -> list[tuple[str, str, float, float]]:
    """The bar: (name, colour, where it begins, how long it is), in per cent."""
    total = sum(progress.values()) or 1
    found = []
    start = 0.0
    for name, colour in PARTS:
        width = 100 * progress[name] / total
        if width:
            found.append((name, colour, round(start, 3), round(width, 3)))
        start += width
    return found


def actions_of(batch: BatchDetail) -> tuple[str, ...]:
    """What may be done with it now. A batch whose budget is used up needs a larger one, which the page cannot guess."""
    if batch.state == BatchState.RUNNING:
        return ("pause", "cancel")
    if batch.state == BatchState.PAUSED:
        return ("cancel",) if batch.pause_cause == "budget" else ("resume", "cancel")
    return ()
