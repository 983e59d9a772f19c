"""What scorings found: reports in every form, streamed, and the leaderboard."""

from __future__ import annotations

import json
from collections.abc import Iterator
from enum import StrEnum
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse

from api.dependencies import Services, ServicesHere, TenantHere
from api.scoring_schemas import Leaderboard
from workers.core.scoring import ScoringState
from workers.errors import NotFoundError, StateError
from workers.provenance.repository import assessments, scorings
from workers.provenance.repository.assessments import ScoringRun
from workers.provenance.repository.scorings import Scoring

router = APIRouter(prefix="/v1", tags=["scorings"])

_ROWS_AT_ONCE = 500


class Form(StrEnum):
    JSON = "json"
    HTML = "html"
    CSV = "csv"
    PARQUET = "parquet"
    TABLE = "table"


_MEDIA = {
    Form.JSON: "application/json",
    Form.HTML: "text/html; charset=utf-8",
    Form.CSV: "text/csv; charset=utf-8",
    Form.PARQUET: "application/vnd.apache.parquet",
    Form.TABLE: "text/plain; charset=utf-8",
}


@router.get("/scorings/{scoring_id}/report", summary="The report of a finished scoring")
def report(
    scoring_id: str,
    services: ServicesHere,
    tenant: TenantHere,
    form: Annotated[Form, Query(alias="format")] = Form.JSON,
) -> StreamingResponse:
    """The same bytes as `consensus score` writes for the same files. A scoring that has not finished has none."""
    scoring = _finished(services, tenant, scoring_id)
    name = "json-head" if form is Form.JSON else form.value
    with services.database.begin() as connection:
        if assessments.report_piece(connection, scoring_id, name, 0) is None:
            raise NotFoundError(
                f"scoring {scoring_id} has no report as {form}: its worker lacks what writes it "
                "(pip install 'consensus[parquet]')"
            )
    body = _json(services, scoring) if form is Form.JSON else _stored(services, scoring_id, form.value)
    ending = "txt" if form is Form.TABLE else form.value
    disposition = "inline" if form in (Form.JSON, Form.HTML, Form.TABLE) else "attachment"
    headers = {"Content-Disposition": f'{disposition}; filename="{scoring_id}.{ending}"'}
    if form is Form.HTML:
        # What logs say is hostile; the page forbids itself the network, and so does this.
        headers["Content-Security-Policy"] = (
            "sandbox allow-scripts; default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
            "img-src data:"
        )
    return StreamingResponse(body, media_type=_MEDIA[form], headers=headers)


@router.get("/scorings/{scoring_id}/rows", summary="The runs of a finished scoring with all their digits")
def rows(scoring_id: str, services: ServicesHere, tenant: TenantHere) -> StreamingResponse:
    """JSON lines, one a run: its entry, its row in the cohort, score, tier, and its document in the report, the last
    line `{"skipped": […], "comparison": …}`. The command line makes its forms of it."""
    scoring = _finished(services, tenant, scoring_id)
    return StreamingResponse(_lines(services, scoring), media_type="application/x-ndjson")


@router.get("/leaderboard", summary="Models by pass rate and by quality")
def leaderboard(
    services: ServicesHere,
    tenant: TenantHere,
    scoring: Annotated[
        str | None, Query(max_length=100, description="default: the newest finished one")
    ] = None,
) -> Leaderboard:
    if scoring is not None:
        found = _finished(services, tenant, scoring)
    else:
        with services.database.begin() as connection:
            newest = scorings.newest_finished(connection, tenant_id=tenant)
        if newest is None:
            raise NotFoundError("no scoring has finished yet; start one with POST /v1/scorings")
        found = newest
    with services.database.begin() as connection:
        summary = scorings.texts(connection, found.scoring_id)["summary"]
    return Leaderboard(
        scoring_id=found.scoring_id,
        finished_at=found.finished_at,
        profile=found.profile,
        runs=summary["runs"],
        problems=summary["problems"],
        models=summary["models"],
        caution=summary["caution"],
    )


def _finished(services: Services, tenant: str, scoring_id: str) -> Scoring:
    """Raises: NotFoundError; StateError if there is nothing to report yet, or never will be."""
    with services.database.begin() as connection:
        scoring = scorings.get(connection, scoring_id, tenant_id=tenant)
    if scoring.state is not ScoringState.FINISHED:
        why = f": {scoring.error}" if scoring.error else ""
        raise StateError(f"scoring {scoring_id} is {scoring.state} and has no report{why}")
    return scoring


def _stored(services: Services, scoring_id: str, form: str) -> Iterator[bytes]:
    number = 0
    while True:
        # A transaction a piece: none is held while a slow reader takes its time.
        with services.database.begin() as connection:
            piece = assessments.report_piece(connection, scoring_id, form, number)
        if piece is None:
            return
        yield piece
        number += 1


def _runs(services: Services, scoring: Scoring) -> Iterator[ScoringRun]:
    after = -1
    while True:
        with services.database.begin() as connection:
            found = assessments.report_rows(
                connection,
                scoring.scoring_id,
                tenant_id=scoring.tenant_id,
                after=after,
                limit=_ROWS_AT_ONCE,
            )
        yield from (run for run in found if run.document is not None)
        if len(found) < _ROWS_AT_ONCE:
            return
        after = found[-1].place


def _json(services: Services, scoring: Scoring) -> Iterator[bytes]:
    yield from _stored(services, scoring.scoring_id, "json-head")
    separator = b""
    for run in _runs(services, scoring):
        yield separator + (run.document or b"")
        separator = b","
    yield from _stored(services, scoring.scoring_id, "json-tail")


def _lines(services: Services, scoring: Scoring) -> Iterator[bytes]:
    for run in _runs(services, scoring):
        line = {
            "entry": run.entry,
            "row": run.row,
            "score": run.score,
            "tier": run.tier,
            "document": (run.document or b"").decode("utf-8"),
        }
        yield json.dumps(line).encode("ascii") + b"\n"
    with services.database.begin() as connection:
        comparison = scorings.texts(connection, scoring.scoring_id)["comparison"]
    skipped = json.loads(b"".join(_stored(services, scoring.scoring_id, "skipped")))
    yield json.dumps({"skipped": skipped, "comparison": comparison}).encode("ascii") + b"\n"
