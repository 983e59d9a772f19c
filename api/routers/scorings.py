"""Scorings: start, list, show, cancel; their problems and assessments."""

from __future__ import annotations

import io
import secrets
from typing import Annotated

import orjson
from fastapi import APIRouter, Query, Response

from api.dependencies import MOST_ROWS, KeyHere, ScoringCursorHere, Services, ServicesHere, TenantHere, now
from api.plain_text import PlainText
from api.scoring_schemas import (
    AssessmentPage,
    LabelsIn,
    ProblemOut,
    ProblemPage,
    ScoringDetail,
    ScoringPage,
    ScoringRequest,
    ScoringSummary,
)
from workers.agentlens.formats import format_names, read_labels
from workers.core.identity import make_id
from workers.core.scoring import ScoringStage, ScoringState
from workers.errors import InputError, TrajectoryError
from workers.provenance.repository import assessments, blobs, scoring_parts, scorings, trajectory_files
from workers.provenance.repository.scorings import NewScoring
from workers.provenance.repository.trajectory_files import Selection

router = APIRouter(prefix="/v1/scorings", tags=["scorings"])


@router.post(
    "",
    status_code=202,
    summary="Score trajectories",
    responses={
        200: {"model": ScoringSummary, "description": "The scoring that this Idempotency-Key made before"}
    },
)
def create(
    body: ScoringRequest, response: Response, services: ServicesHere, tenant: TenantHere, key: KeyHere
) -> ScoringSummary:
    """Which files are scored is settled now: what is uploaded later is in the next scoring."""
    if body.format is not None and body.format not in format_names():
        raise InputError(f"format {body.format}: unknown; expected one of {', '.join(format_names())}")
    data = None if body.labels is None else _readable(body.labels)
    selection = Selection(
        upload_set=body.upload_set, since=body.since, ids=None if body.ids is None else tuple(body.ids)
    )
    with services.database.begin() as connection:
        files = trajectory_files.select_files(connection, selection, tenant_id=tenant)
        labels = None if data is None else blobs.store(connection, io.BytesIO(data), tenant_id=tenant).digest
        new = NewScoring(
            scoring_id=make_id("scoring", now(), secrets.token_bytes(10)),
            settings=body.settings,
            manifest_digest=trajectory_files.store_manifest(connection, files, tenant_id=tenant),
            labels_digest=labels,
            labels_name=None if body.labels is None else body.labels.name,
            format_name=body.format,
            unopened=[(item.path, item.error) for item in body.unopened],
            tenant_id=tenant,
            idempotency_key=key,
        )
        scoring, is_new = scorings.create(connection, new)
    if is_new:
        services.send_part(scorings.first_part(scoring.scoring_id))
    else:
        response.status_code = 200
    response.headers["Location"] = f"/v1/scorings/{scoring.scoring_id}"
    return ScoringSummary.of(scoring)


def _readable(labels: LabelsIn) -> bytes:
    """The labels' bytes, which are read once now: a scoring that has taken an hour should not end with their fault.

    Raises: InputError."""
    try:
        data = labels.content.encode()
    except UnicodeEncodeError as error:
        raise InputError(
            f"labels.content: character {error.start} is a lone surrogate, which no UTF-8 text has; send it as UTF-8"
        ) from None
    try:
        read_labels(labels.name, data)
    except TrajectoryError as error:
        raise InputError(f"labels.content: {error}") from None
    return data


@router.get("", summary="List scorings, newest first")
def list_scorings(
    services: ServicesHere,
    tenant: TenantHere,
    cursor: ScoringCursorHere,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    state: ScoringState | None = None,
    schedule: Annotated[PlainText | None, Query(max_length=63)] = None,
) -> ScoringPage:
    with services.database.begin() as connection:
        found = scorings.page(
            connection, tenant_id=tenant, before=cursor, limit=limit + 1, state=state, schedule=schedule
        )
    listed = found[:limit]
    return ScoringPage(
        scorings=[ScoringSummary.of(scoring) for scoring in listed],
        next_cursor=listed[-1].scoring_id if len(found) > limit else None,
    )


@router.get("/{scoring_id}", summary="Show one scoring")
def show(scoring_id: str, services: ServicesHere, tenant: TenantHere) -> ScoringDetail:
    return _detail(services, tenant, scoring_id)


@router.post("/{scoring_id}/cancel", summary="Cancel a scoring")
def cancel(scoring_id: str, services: ServicesHere, tenant: TenantHere, key: KeyHere) -> ScoringDetail:
    """Ends it at once; its workers leave off within seconds. One that has ended stays as it ended."""
    with services.database.begin() as connection:
        scorings.cancel(connection, scoring_id, tenant_id=tenant)
    return _detail(services, tenant, scoring_id)


def _detail(services: Services, tenant: str, scoring_id: str) -> ScoringDetail:
    with services.database.begin() as connection:
        scoring = scorings.get(connection, scoring_id, tenant_id=tenant)
        progress = scorings.progress(connection, scoring_id)
        comparison = scorings.texts(connection, scoring_id)["comparison"]
    return ScoringDetail.of_all(scoring, progress, comparison)


@router.get("/{scoring_id}/problems", summary="How far each problem of a scoring is")
def problems(
    scoring_id: str,
    services: ServicesHere,
    tenant: TenantHere,
    cursor: Annotated[int, Query(ge=0, le=MOST_ROWS, description="`next_cursor` of the page before")] = 0,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> ProblemPage:
    with services.database.begin() as connection:
        scorings.get(connection, scoring_id, tenant_id=tenant)
        parts = scoring_parts.of_stage(connection, scoring_id, ScoringStage.SCORE)
    listed = parts[cursor : cursor + limit]
    return ProblemPage(
        problems=[
            ProblemOut(
                problem=part.label,
                state=part.state,
                runs=part.run_count,
                computed=part.computed_count,
                error=part.detail,
            )
            for part in listed
        ],
        next_cursor=str(cursor + limit) if len(parts) > cursor + limit else None,
    )


@router.get("/{scoring_id}/assessments", summary="The assessments of a scoring, in the order of the report")
def list_assessments(
    scoring_id: str,
    services: ServicesHere,
    tenant: TenantHere,
    cursor: Annotated[int, Query(ge=-1, le=MOST_ROWS, description="`next_cursor` of the page before")] = -1,
    limit: Annotated[int, Query(ge=1, le=500)] = 100,
) -> AssessmentPage:
    with services.database.begin() as connection:
        scorings.get(connection, scoring_id, tenant_id=tenant)
        found = assessments.report_rows(
            connection, scoring_id, tenant_id=tenant, after=cursor, limit=limit + 1
        )
    listed = found[:limit]
    return AssessmentPage(
        assessments=[orjson.loads(run.document) for run in listed if run.document is not None],
        next_cursor=str(listed[-1].place) if len(found) > limit else None,
    )
