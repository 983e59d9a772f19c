"""Batches: submit many specs at once, list, show."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect

from api.batch_detail import detail_of
from api.batch_schemas import BatchDetail, BatchOptions, BatchPage, BatchRequest, BatchSummary
from api.batch_submission import submit_json, submit_lines
from api.body_spool import spooled
from api.dependencies import MAX_BODY_BYTES, BatchCursorHere, KeyHere, ServicesHere, TenantHere
from api.errors import described
from workers.core.batch import BatchState
from workers.errors import InputError, MediaTypeError
from workers.provenance.repository import batches

PATH = "/v1/batches"
router = APIRouter(prefix=PATH, tags=["batches"])

#: Lines by any of their names, and by what clients say who do not know one.
_LINES = {
    "application/jsonl",
    "application/x-jsonl",
    "application/jsonlines",
    "application/x-jsonlines",
    "application/json-lines",
    "application/ndjson",
    "application/x-ndjson",
    "application/octet-stream",
    "text/plain",
    "",
}
_JSON = "application/json"


def _json_schema() -> dict[str, Any]:
    schema = BatchRequest.model_json_schema()
    schema["properties"]["specs"]["items"] = {"$ref": "#/components/schemas/RunRequest"}
    return schema


_LINE_EXAMPLE = '{"id": "1", "spec": "Write slugify(text)."}\n{"id": "2", "spec": "Write median(numbers)."}\n'


@router.post(
    "",
    status_code=202,
    summary="Submit a batch of specs",
    responses={
        200: {"model": BatchSummary, "description": "The batch that this Idempotency-Key made before"},
        **described({415: "The body is of a kind that cannot be read"}),
    },
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "lines of JSON, each what POST /v1/runs takes; or one object with all of them. "
            "Either may come gzipped (Content-Encoding).",
            "content": {
                "application/jsonl": {"schema": {"type": "string"}, "example": _LINE_EXAMPLE},
                _JSON: {"schema": _json_schema()},
            },
        }
    },
)
async def create(
    request: Request,
    response: Response,
    options: Annotated[BatchOptions, Query()],
    services: ServicesHere,
    tenant: TenantHere,
    key: KeyHere,
) -> BatchSummary:
    """202 for a new batch, with all its runs stored and none sent yet; 200 with the batch that is there for a repeated
    Idempotency-Key. With lines the options are query parameters, with a JSON object its fields.

    A line that cannot be used refuses the whole batch, unless `skip_bad` is set; `errors` names the first of them."""
    is_json = _is_json(request)
    if is_json and options.model_fields_set:
        raise InputError(
            f"{min(options.model_fields_set)}: is a query parameter for lines; with {_JSON} put it into the object"
        )
    try:
        async with spooled(
            request, max_bytes=MAX_BODY_BYTES if is_json else services.max_batch_bytes
        ) as spool:
            submit = (
                partial(submit_json, spool, services)
                if is_json
                else partial(submit_lines, spool, options, services)
            )
            batch, is_new = await run_in_threadpool(submit, tenant_id=tenant, idempotency_key=key)
    except ClientDisconnect:
        raise InputError("the body broke off before its end; nothing was stored") from None
    if not is_new:
        response.status_code = 200
    response.headers["Location"] = f"{PATH}/{batch.batch_id}"
    return BatchSummary.of(batch)


def _is_json(request: Request) -> bool:
    """Raises: MediaTypeError."""
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media_type == _JSON:
        return True
    if media_type not in _LINES:
        raise MediaTypeError(
            f"Content-Type {media_type[:80]!r} is not known here; send application/jsonl (one JSON object a line) "
            f"or {_JSON}"
        )
    return False


@router.get("", summary="List batches, newest first")
def list_batches(
    services: ServicesHere,
    tenant: TenantHere,
    cursor: BatchCursorHere,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
    state: BatchState | None = None,
) -> BatchPage:
    with services.database.begin() as connection:
        found = batches.page(connection, tenant_id=tenant, before=cursor, limit=limit + 1, state=state)
    shown = found[:limit]
    return BatchPage(
        batches=[BatchSummary.of(batch) for batch in shown],
        next_cursor=shown[-1].batch_id if len(found) > limit else None,
    )


@router.get("/{batch_id}", summary="Show one batch and how far it has come")
def show(batch_id: str, services: ServicesHere, tenant: TenantHere) -> BatchDetail:
    with services.database.begin() as connection:
        return detail_of(connection, batches.get(connection, batch_id, tenant_id=tenant), services)
