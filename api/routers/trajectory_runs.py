"""Into trajectories: an uploaded file's records, a run step by step, an observation whole, two runs side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Path, Query
from fastapi.responses import StreamingResponse

from api.dependencies import InspectorHere, ServicesHere, TenantHere
from api.inspection_schemas import (
    ComparisonOut,
    FileOut,
    OverviewOut,
    PieceOut,
    RecordOut,
    RowOut,
    RunOut,
    StandingOut,
    StepOut,
    StepPage,
)
from api.scoring_schemas import TrajectoryOut
from workers.errors import NotFoundError
from workers.inspection.address import RunAddress
from workers.provenance.repository import trajectory_files

if TYPE_CHECKING:
    from workers.inspection.opened import OpenedRun

router = APIRouter(prefix="/v1/trajectories", tags=["trajectories"])

STEPS_AT_ONCE = 50
_MOST_STEPS = 200
_MOST_ROWS = 500
_MOST_CHARS = 200_000
RunHere = Annotated[
    str,
    Path(
        max_length=60,
        description="`traj_….2`: the third record of an uploaded file; `scoring_….7`: place 7 of a scoring",
    ),
]


@router.get("/compare", summary="Two runs side by side")
def compare(
    inspector: InspectorHere,
    tenant: TenantHere,
    a: Annotated[str, Query(max_length=60)],
    b: Annotated[str, Query(max_length=60)],
    first: Annotated[int, Query(alias="from", ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=_MOST_ROWS)] = 100,
) -> ComparisonOut:
    """Rows in order: what one does alone, what the other does alone, then the step that they share."""
    left, right = RunAddress.parse(a), RunAddress.parse(b)
    found = inspector.aligned(left, right, tenant_id=tenant)
    return ComparisonOut(
        a=str(left),
        b=str(right),
        rows=[RowOut.model_validate(row) for row in found.rows[first : first + limit]],
        total=len(found.rows),
        next_from=first + limit if len(found.rows) > first + limit else None,
        shared=found.shared,
        shared_a=found.shared_left,
        shared_b=found.shared_right,
        edit_agreement=found.edit_agreement,
        is_same=found.is_same,
    )


@router.get("/{file_id}/file", summary="An uploaded file and what is known of its records")
def show_file(file_id: str, services: ServicesHere, inspector: InspectorHere, tenant: TenantHere) -> FileOut:
    with services.database.begin() as connection:
        file = trajectory_files.get(connection, file_id, tenant_id=tenant)
    records, standings = inspector.records(file_id, tenant_id=tenant)
    listed = None
    if records is not None:
        listed = [
            RecordOut(
                run=f"{file_id}.{record.position}",
                trajectory_id=record.trajectory_id,
                problem=record.problem,
                model=record.model,
                outcome=record.outcome,
                error=record.error,
                standings=[
                    StandingOut.of(standing)
                    for standing in standings
                    if standing.run_digest == str(record.position)
                ],
            )
            for record in records
        ]
    return FileOut(**TrajectoryOut.of(file).model_dump(), records=listed)


@router.get("/{run_id}", summary="Show one run, without its texts")
def show(run_id: RunHere, inspector: InspectorHere, tenant: TenantHere) -> RunOut:
    """With its assessment if it is named by its place in a scoring, or if a finished scoring holds it."""
    address = inspector.newest(RunAddress.parse(run_id), tenant_id=tenant)
    return described(inspector.open(address, tenant_id=tenant))


def described(opened: OpenedRun) -> RunOut:
    """A run as it is shown. Loads the scorer, as whoever opened the run has."""
    from workers.inspection.steps import overview

    trajectory = opened.run.trajectory
    return RunOut(
        run=str(opened.address),
        file_id=opened.file_id,
        scoring_id=opened.scoring_id,
        trajectory_id=trajectory.trajectory_id,
        path=trajectory.path,
        format=trajectory.format,
        problem=trajectory.problem,
        model=trajectory.model,
        outcome=trajectory.outcome,
        overview=OverviewOut.model_validate(overview(opened)),
        assessment=None if opened.document is None else dict(opened.document),
        warnings=list(trajectory.warnings) if opened.document is None else opened.document["warnings"],
        note=opened.note,
    )


@router.get("/{run_id}/steps", summary="Steps of a run, some at a time")
def list_steps(
    run_id: RunHere,
    inspector: InspectorHere,
    tenant: TenantHere,
    first: Annotated[int, Query(alias="from", ge=0)] = 0,
    limit: Annotated[int, Query(ge=1, le=_MOST_STEPS)] = STEPS_AT_ONCE,
) -> StepPage:
    return page_of(inspector.open(RunAddress.parse(run_id), tenant_id=tenant), first, limit)


def page_of(opened: OpenedRun, first: int, limit: int) -> StepPage:
    """Steps of an opened run."""
    from workers.inspection.steps import steps

    total = len(opened.observations)
    return StepPage(
        run=str(opened.address),
        steps=[StepOut.model_validate(step) for step in steps(opened, first, limit)],
        total=total,
        next_from=first + limit if total > first + limit else None,
    )


@router.get("/{run_id}/steps/{index}/observation", summary="A part of a step's observation")
def observation(
    run_id: RunHere,
    index: Annotated[int, Path(ge=0)],
    inspector: InspectorHere,
    tenant: TenantHere,
    offset: Annotated[int, Query(ge=0, description="in characters")] = 0,
    limit: Annotated[int, Query(ge=1, le=_MOST_CHARS)] = 20_000,
) -> PieceOut:
    opened = inspector.open(RunAddress.parse(run_id), tenant_id=tenant)
    from workers.inspection.steps import piece_of

    return PieceOut.model_validate(piece_of(_observation(opened, index), offset, limit))


@router.get(
    "/{run_id}/steps/{index}/observation.txt",
    summary="The whole observation of a step, as text",
    response_class=StreamingResponse,
)
def whole_observation(
    run_id: RunHere, index: Annotated[int, Path(ge=0)], inspector: InspectorHere, tenant: TenantHere
) -> StreamingResponse:
    text = _observation(inspector.open(RunAddress.parse(run_id), tenant_id=tenant), index)

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(text), _MOST_CHARS):
            yield text[start : start + _MOST_CHARS].encode("utf-8", "replace")

    # What a log holds is hostile: it is text and nothing else, whatever it looks like.
    headers = {"X-Content-Type-Options": "nosniff", "Content-Security-Policy": "sandbox; default-src 'none'"}
    return StreamingResponse(pieces(), media_type="text/plain; charset=utf-8", headers=headers)


def _observation(opened: OpenedRun, index: int) -> str:
    if index >= len(opened.observations):
        raise NotFoundError(
            f"run {opened.address} has {len(opened.observations)} steps, none is number {index}"
        )
    return opened.observations[index]
