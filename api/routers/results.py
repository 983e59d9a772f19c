"""A run's results in a file format: SARIF for code hosts, JSON lines or CSV for everybody else."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
from enum import StrEnum
from typing import Any

import orjson
from fastapi import APIRouter, Response
from sqlalchemy import Connection

from api.dependencies import ServicesHere, TenantHere
from workers.core.alarm import Alarm
from workers.errors import StateError
from workers.provenance import payload
from workers.provenance.repository import batch_results, runs
from workers.sarif.results import Result, RunFacts, results_of
from workers.sarif.tables import to_csv, to_jsonl
from workers.sarif.write import to_sarif

router = APIRouter(prefix="/v1/runs", tags=["results"])


class Format(StrEnum):
    SARIF = "sarif"
    JSONL = "jsonl"
    CSV = "csv"


MEDIA_TYPES = {
    Format.SARIF: "application/sarif+json",
    Format.JSONL: "application/jsonl; charset=utf-8",
    Format.CSV: "text/csv; charset=utf-8",
}


@router.get(
    "/{run_id}/results",
    summary="A run's claims as SARIF, JSON lines or CSV",
    response_class=Response,
    responses={
        200: {
            "description": "The claims of the verdict, killed and dismissed ones too",
            "content": {
                "application/sarif+json": {"schema": {"type": "object"}},
                "application/jsonl": {"schema": {"type": "string"}},
                "text/csv": {"schema": {"type": "string"}},
            },
        },
    },
)
def results(
    run_id: str, services: ServicesHere, tenant: TenantHere, format: Format = Format.JSONL
) -> Response:
    with services.database.begin() as connection:
        run = runs.get(connection, run_id, tenant_id=tenant)
        if run.verdict_digest is None:
            state = "was cancelled" if run.has_ended else "has not ended"
            raise StateError(f"run {run_id} {state}; results come with a verdict")
        verdict = payload.load(connection, run.verdict_digest, run_id=run_id)
        found = _results(connection, run, verdict)
    if format is Format.SARIF:
        log = to_sarif(found, [(facts_of(run), verdict)], version=importlib.metadata.version("consensus"))
        body = orjson.dumps(log, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    else:
        body = (to_csv if format is Format.CSV else to_jsonl)(found).encode()
    return Response(body, media_type=MEDIA_TYPES[format])


def _results(connection: Connection, run: runs.Run, verdict: dict[str, Any]) -> tuple[Result, ...]:
    """The verdict's claims with what the ledger of the last round knows of them; redacted events are passed over."""
    seen = batch_results.reviewed(connection, run.run_id)
    return results_of(
        facts_of(run),
        verdict,
        candidate=seen.files,
        findings=seen.findings,
        alarms=map(Alarm.of, seen.alarms),
        proofs=seen.proofs,
    )


def facts_of(run: runs.Run | batch_results.BatchRun) -> RunFacts:
    """What the formats tell of a run. One without an outcome is told by its state."""
    return RunFacts(
        run_id=run.run_id,
        team=run.team,
        outcome=run.outcome or run.state,
        is_simulated=run.is_simulated,
        started_at=utc(run.started_at),
        finished_at=utc(run.finished_at),
    )


def utc(at: dt.datetime | None) -> str | None:
    """ISO 8601 in UTC with microseconds."""
    return None if at is None else at.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
