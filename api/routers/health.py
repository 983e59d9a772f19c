"""Whether the process lives, and whether it can work."""

from __future__ import annotations

from fastapi import APIRouter

from api.dependencies import ServicesHere
from workers.errors import UnavailableError
from workers.provenance.migrate import head

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="The process answers")
async def healthz() -> dict[str, str]:
    """Needs none of the threads that work: a process with all of them busy lives."""
    return {"status": "alive"}


@router.get("/readyz", summary="Database and broker answer")
def readyz(services: ServicesHere) -> dict[str, str]:
    """503 with a sentence when something is missing."""
    revision = services.database.schema_revision()
    if revision != head():
        raise UnavailableError(
            f"the database is at schema {revision or 'none'}, this code needs {head()}; run `consensus migrate`"
        )
    fault = services.broker_problem()
    if fault:
        raise UnavailableError(fault)
    return {"status": "ready", "schema": revision}
