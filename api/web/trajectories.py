"""Trajectories: upload and list, one run step by step, its reference as a picture, two runs side by side."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Query, Response

from api.dependencies import InspectorHere, Services, ServicesHere, TenantHere, TrajectoryCursorHere
from api.inspection_schemas import ListedRunOut, RunOut, UploadSetOut
from api.plain_text import PlainText
from api.routers import scoring_runs, trajectories, trajectory_runs
from api.scoring_schemas import TrajectoryOut
from api.web.embedded import for_script
from api.web.rendering import PageRoute, render
from workers.errors import InputError
from workers.inspection.address import RunAddress
from workers.provenance.repository import trajectory_files
from workers.provenance.repository.scored_runs import Order
from workers.trajectories import is_log_name

if TYPE_CHECKING:
    from workers.inspection.opened import OpenedRun

router = APIRouter(prefix="/trajectories", route_class=PageRoute)

_FILES_AT_ONCE = 50
_ROWS_AT_ONCE = 200
_OTHERS_SHOWN = 100
#: Larger trees are drawn when they are looked at.
_NODES_AT_ONCE = 600


@router.get("")
def list_page(
    services: ServicesHere,
    tenant: TenantHere,
    cursor: TrajectoryCursorHere,
    upload_set: Annotated[PlainText | None, Query(alias="set", max_length=200)] = None,
    path: Annotated[PlainText | None, Query(max_length=1024)] = None,
) -> Response:
    page = trajectories.list_trajectories(
        services, tenant, cursor, limit=_FILES_AT_ONCE, upload_set=upload_set or None, path=path or None
    )
    return render(
        "trajectories.html",
        values={
            "files": page.trajectories,
            "next_cursor": page.next_cursor,
            "beside": {file.id for file in page.trajectories if _lies_beside(file)},
            "sets": upload_sets(services, tenant),
            "chosen_set": upload_set or "",
            "chosen_path": path or "",
            "is_first": cursor is None,
            "max_file_bytes": services.max_trajectory_bytes,
        },
    )


def _lies_beside(file: TrajectoryOut) -> bool:
    """Whether a file's name says that it is read with another one."""
    name = PurePosixPath(file.path)
    return file.role == "beside" or not (is_log_name(name) or name.name == "base_state.json")


def upload_sets(services: Services, tenant: str) -> list[UploadSetOut]:
    """What a scoring can be started for, the newest first."""
    with services.database.begin() as connection:
        found = trajectory_files.sets(connection, tenant_id=tenant)
    return [UploadSetOut(name=name, files=files, newest_at=newest) for name, files, newest in found]


@router.get("/compare")
def compare_page(
    inspector: InspectorHere,
    tenant: TenantHere,
    a: Annotated[str, Query(max_length=60)],
    b: Annotated[str, Query(max_length=60)],
    first: Annotated[int, Query(alias="from", ge=0)] = 0,
) -> Response:
    runs = [inspector.newest(RunAddress.parse(text), tenant_id=tenant) for text in (a, b)]
    left, right = (inspector.open(run, tenant_id=tenant) for run in runs)
    found = trajectory_runs.compare(
        inspector, tenant, a=str(runs[0]), b=str(runs[1]), first=first, limit=_ROWS_AT_ONCE
    )
    return render(
        "trajectory_compare.html",
        values={
            "found": found,
            "left": trajectory_runs.described(left),
            "right": trajectory_runs.described(right),
            "first": first,
            "data": for_script({"a": found.a, "b": found.b, "next": found.next_from, "total": found.total}),
        },
    )


@router.get("/{run_id}")
def run_page(
    run_id: str,
    services: ServicesHere,
    inspector: InspectorHere,
    tenant: TenantHere,
    step: Annotated[int, Query(ge=0)] = 0,
) -> Response:
    address = RunAddress.parse(run_id)
    if not address.is_scored and "." not in run_id:
        about = trajectory_runs.show_file(address.owner, services, inspector, tenant)
        if about.records is not None and len(about.records) != 1:
            return render("trajectory_file.html", values={"file": about})
    opened = inspector.open(inspector.newest(address, tenant_id=tenant), tenant_id=tenant)
    run = trajectory_runs.described(opened)
    chosen = min(step, max(0, run.overview.steps - 1))
    first = chosen // trajectory_runs.STEPS_AT_ONCE * trajectory_runs.STEPS_AT_ONCE
    page = trajectory_runs.page_of(opened, first, trajectory_runs.STEPS_AT_ONCE)
    return render(
        "trajectory.html",
        values={
            "run": run,
            "score": _score(run.assessment),
            "signals": _signals(run.assessment),
            "timeline": _timeline(opened),
            "tree": _tree(opened, most_nodes=_NODES_AT_ONCE),
            "nodes": 0 if opened.against is None else len(opened.against.tree),
            "way": _way(opened),
            "page": page,
            "first": first,
            "step": page.steps[chosen - first] if page.steps else None,
            "others": _others(services, tenant, run),
            "data": for_script(
                {
                    "run": run.run,
                    "overview": run.overview.model_dump(),
                    "step": chosen,
                    "first": first,
                    "steps": [of.model_dump() for of in page.steps],
                }
            ),
        },
    )


@router.get("/{run_id}/tree")
def tree_page(run_id: str, inspector: InspectorHere, tenant: TenantHere) -> Response:
    """The whole reference. Raises: InputError for a run without one."""
    opened = inspector.open(inspector.newest(RunAddress.parse(run_id), tenant_id=tenant), tenant_id=tenant)
    tree = _tree(opened, most_nodes=None)
    if tree is None:
        raise InputError(f"run {opened.address} was scored without a reference, or in no finished scoring")
    return render(
        "trajectory_tree.html",
        values={"run": trajectory_runs.described(opened), "tree": tree, "way": _way(opened)},
    )


def _score(assessment: dict[str, Any] | None) -> dict[str, Any] | None:
    return None if assessment is None else assessment["scores"][assessment["profile"]]


def _signals(assessment: dict[str, Any] | None) -> list[tuple[str, float]]:
    """Name and value, 0 to 100, of every signal of every profile, each once."""
    if assessment is None:
        return []
    from workers.inspection.charts import SIGNALS

    found: dict[str, float] = {}
    for score in assessment["scores"].values():
        for name, value in score.items():
            if name in SIGNALS:
                found[name] = value if name in ("struct", "cov", "edit") else 100 * value
    return [(SIGNALS[name], found[name]) for name in SIGNALS if name in found]


def _timeline(opened: OpenedRun) -> Any:
    from workers.inspection.strip import strip

    return strip(opened)


def _tree(opened: OpenedRun, *, most_nodes: int | None) -> Any:
    if opened.against is None:
        return None
    if most_nodes is not None and len(opened.against.tree) > most_nodes:
        return None
    from workers.inspection.strip import picture

    return picture(opened)


def _way(opened: OpenedRun) -> list[Any]:
    """The steps that go along the reference, in a table."""
    if opened.against is None:
        return []
    from workers.inspection.strip import way

    return way(opened)


def _others(services: Services, tenant: str, run: RunOut) -> list[ListedRunOut]:
    """Runs of the same problem in the same scoring, to compare with, the best first."""
    if run.scoring_id is None or run.problem is None:
        return []
    listed = scoring_runs.list_runs(
        run.scoring_id, services, tenant, limit=_OTHERS_SHOWN, order=Order.BEST, problem=run.problem
    )
    return [other for other in listed.runs if other.run != run.run]
