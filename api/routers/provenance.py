"""A run's ledger, whole and verified."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from sqlalchemy import Connection

from api.dependencies import ServicesHere, TenantHere
from api.schemas import EventOut, ProvenanceOut
from workers.errors import NotFoundError
from workers.provenance import ledger, payload
from workers.provenance.digest import GENESIS
from workers.provenance.repository import runs
from workers.provenance.retention.bodies import gone

router = APIRouter(prefix="/v1/runs", tags=["provenance"])


@router.get("/{run_id}/provenance", summary="Show and verify a run's ledger")
def show(run_id: str, services: ServicesHere, tenant: TenantHere) -> ProvenanceOut:
    with services.database.begin() as connection:
        run = runs.get(connection, run_id, tenant_id=tenant)
        # As far as that head: a run at work may have written more since it was read.
        entries = ledger.read(connection, run_id, limit=run.ledger_seq)
        team = _team(connection, run.team_digest)
    fault = ledger.verify(entries, run_id=run_id, head=run.ledger_head, genesis=GENESIS)
    return ProvenanceOut(
        run_id=run_id,
        team=team,
        head=run.ledger_head,
        verified=fault is None,
        problem=fault,
        gone=gone(run.pruned_at),
        events=[EventOut.of(entry) for entry in entries],
    )


def _team(connection: Connection, digest: str) -> dict[str, Any] | None:
    try:
        team = payload.load(connection, digest)
    except NotFoundError:
        return None
    return team if isinstance(team, dict) else None
