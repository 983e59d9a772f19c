"""A run's ledger, whole and verified."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response
from sqlalchemy import Connection

from api.dependencies import ServicesHere, TenantHere
from api.schemas import EventOut, ProvenanceOut
from workers.errors import NotFoundError
from workers.provenance import heads, ledger, payload
from workers.provenance.check import heads_fault
from workers.provenance.digest import GENESIS
from workers.provenance.export import MOST_EVENTS, document_of, file_of, snapshot
from workers.provenance.repository import runs
from workers.provenance.retention.bodies import gone

router = APIRouter(prefix="/v1/runs", tags=["provenance"])


@router.get("/{run_id}/provenance", summary="Show and verify a run's ledger")
def show(run_id: str, services: ServicesHere, tenant: TenantHere) -> ProvenanceOut:
    with services.database.begin() as connection:
        snapshot(connection)
        run = runs.get(connection, run_id, tenant_id=tenant)
        entries = ledger.read(connection, run_id, limit=MOST_EVENTS)
        team = _team(connection, run.team_digest, run_id)
        recorded = heads.of_run(connection, run_id)
    fault = ledger.verify(entries, run_id=run_id, head=run.ledger_head, genesis=GENESIS)
    fault = fault or heads_fault(entries, recorded)
    return ProvenanceOut(
        run_id=run_id,
        team=team,
        head=run.ledger_head,
        verified=fault is None,
        problem=fault,
        signed_by=sorted({head.signature.key_id for head in recorded if head.signature is not None}),
        gone=gone(run.pruned_at),
        events=[EventOut.of(entry) for entry in entries],
    )


@router.get(
    "/{run_id}/provenance/export",
    summary="A run's whole record as one file",
    response_class=Response,
    responses={
        200: {
            "description": "One canonical JSON object, sealed: `consensus provenance verify FILE` needs no database",
            "content": {"application/json": {"schema": {"type": "object"}}},
        }
    },
)
def export(run_id: str, services: ServicesHere, tenant: TenantHere) -> Response:
    """The ledger, every call, the bodies of prompts and replies, heads and signatures; for files, not for programs
    that want a part of it."""
    with services.database.begin() as connection:
        snapshot(connection)
        run = runs.get(connection, run_id, tenant_id=tenant)
        document = document_of(connection, run, signer=services.signer)
    return Response(
        file_of(document),
        media_type="application/json",
        headers={"Content-Disposition": f'attachment; filename="{run.run_id}.provenance.json"'},
    )


def _team(connection: Connection, digest: str, run_id: str) -> dict[str, Any] | None:
    try:
        team = payload.load(connection, digest, run_id=run_id)
    except NotFoundError:
        return None
    return team if isinstance(team, dict) else None
