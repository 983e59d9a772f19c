"""How the runs of a batch ended, as a file that is written while it is sent: flat memory, partial results too."""

from __future__ import annotations

from collections.abc import Iterator

from fastapi import APIRouter
from fastapi.responses import StreamingResponse

from api.batch_lines import written
from api.dependencies import Services, ServicesHere, TenantHere
from api.routers.results import MEDIA_TYPES, Format
from workers.provenance.repository import batch_results, batches
from workers.provenance.repository.batch_results import BatchRun, Reviewed

router = APIRouter(prefix="/v1/batches", tags=["results"])


@router.get(
    "/{batch_id}/results",
    summary="How a batch's runs ended, as JSON lines, CSV or SARIF",
    response_class=StreamingResponse,
    responses={
        200: {
            "description": "A line a run, in the order of the lines submitted; runs that have not ended too",
            "content": {
                "application/jsonl": {"schema": {"type": "string"}},
                "text/csv": {"schema": {"type": "string"}},
                "application/sarif+json": {"schema": {"type": "object"}},
            },
        },
    },
)
def results(
    batch_id: str, services: ServicesHere, tenant: TenantHere, format: Format = Format.JSONL
) -> StreamingResponse:
    """Streamed: each page of runs is read when the one before has been taken, and shows them as they are then.

    JSON lines and CSV have a line for every run, whether it has ended or not; SARIF has the claims of those with a
    verdict. A connection that breaks off shows by the missing end of the chunked body."""
    with services.database.begin() as connection:
        batches.get(connection, batch_id, tenant_id=tenant)
    return StreamingResponse(
        written(
            format,
            batch_id,
            _pages(services, batch_id),
            lambda run_id: _review(services, run_id),
        ),
        media_type=MEDIA_TYPES[format],
        headers={"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"},
    )


def _pages(services: Services, batch_id: str) -> Iterator[list[BatchRun]]:
    after = 0
    while True:
        with services.database.begin() as connection:
            page = batch_results.page(connection, batch_id, after=after)
        if not page:
            return
        after = page[-1].position
        yield page


def _review(services: Services, run_id: str) -> Reviewed:
    with services.database.single() as connection:
        return batch_results.reviewed(connection, run_id)
