"""Trajectories: upload, list."""

from __future__ import annotations

import secrets
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile

from api.dependencies import KeyHere, ServicesHere, TenantHere, TrajectoryCursorHere, now
from api.form_end import whole_form
from api.moment import Moment
from api.plain_text import PlainText
from api.scoring_schemas import Role, TrajectoryOut, TrajectoryPage, UploadedItem, UploadLine, UploadOut
from api.upload import Upload, files_of, lines_of
from workers.core.identity import make_id
from workers.errors import InputError, MediaTypeError
from workers.provenance.repository import trajectory_files

router = APIRouter(prefix="/v1/trajectories", tags=["trajectories"])

_LINES = ("application/jsonl", "application/x-ndjson", "application/x-jsonlines", "application/jsonlines")
_FORM = "multipart/form-data"
_MOST_FILES = 1000
_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {
            _LINES[0]: {"schema": UploadLine.model_json_schema()},
            _FORM: {
                "schema": {
                    "type": "object",
                    "properties": {
                        "file": {"type": "array", "items": {"type": "string", "format": "binary"}}
                    },
                }
            },
        },
    }
}


@router.post("", summary="Upload trajectories", openapi_extra=_BODY)
async def upload(
    request: Request,
    services: ServicesHere,
    tenant: TenantHere,
    key: KeyHere,
    upload_set: Annotated[
        str,
        Query(
            alias="set",
            max_length=200,
            pattern=r"^[A-Za-z0-9_.:-]+$",
            description="files of one set lie in one folder, so that those beside a log are found",
        ),
    ] = "uploads",
    prefix: Annotated[
        PlainText,
        Query(max_length=1024, description="of all files of a form: put before the path in reports"),
    ] = "",
    role: Annotated[Role | None, Query(description="of all files of a form")] = None,
) -> UploadOut:
    """A file a line (JSON lines), or a file a part (multipart, whose filename is the path), with what became of each.
    Bytes are kept once, under their SHA-256; a line with a `digest` alone names bytes that are there. Repeating an
    upload changes nothing, with or without an Idempotency-Key."""
    taking = Upload(
        database=services.database,
        tenant_id=tenant,
        upload_set=upload_set,
        max_file_bytes=services.max_trajectory_bytes,
        new_id=lambda: make_id("traj", now(), secrets.token_bytes(10)),
    )
    if (encoding := request.headers.get("content-encoding", "identity").strip().lower()) != "identity":
        raise MediaTypeError(
            f"Content-Encoding {encoding[:40]!r} is not known here; send the files as they are"
        )
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    items: list[UploadedItem] = []
    if kind in _LINES:
        async for given in lines_of(request.stream()):
            items += await run_in_threadpool(taking.take, given)
    elif kind == _FORM:
        async with whole_form(request).form(max_files=_MOST_FILES, max_fields=_MOST_FILES) as form:
            values = [value for _, value in form.multi_items()]
            files = [value for value in values if isinstance(value, UploadFile | str)]
            items = await run_in_threadpool(taking.take, files_of(files, prefix=prefix, role=role))
    else:
        raise InputError(f"Content-Type {kind or 'none'!r}: send {_LINES[0]} or {_FORM}")
    return taking.answer(items)


@router.get("", summary="List uploaded trajectories, newest first")
def list_trajectories(
    services: ServicesHere,
    tenant: TenantHere,
    cursor: TrajectoryCursorHere,
    limit: Annotated[int, Query(ge=1, le=1000)] = 50,
    upload_set: Annotated[PlainText | None, Query(alias="set", max_length=200)] = None,
    since: Moment | None = None,
    path: Annotated[PlainText | None, Query(max_length=1024, description="how the path begins")] = None,
) -> TrajectoryPage:
    with services.database.begin() as connection:
        found = trajectory_files.page(
            connection,
            tenant_id=tenant,
            before=cursor,
            limit=limit + 1,
            upload_set=upload_set,
            since=since,
            path=path,
        )
    listed = found[:limit]
    return TrajectoryPage(
        trajectories=[TrajectoryOut.of(file) for file in listed],
        next_cursor=listed[-1].file_id if len(found) > limit else None,
    )
