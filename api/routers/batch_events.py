"""A batch's progress as it changes: server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Header, Request, Response
from fastapi.concurrency import run_in_threadpool
from sse_starlette import EventSourceResponse, ServerSentEvent

from api.batch_detail import detail_of
from api.batch_watch import Look, Watches
from api.dependencies import Services, ServicesHere, TenantHere
from api.routers.events import PING_SECONDS
from workers.errors import InputError
from workers.provenance.repository import batches

router = APIRouter(prefix="/v1/batches", tags=["events"])

#: The id of the last event: whoever comes back behind it has seen everything.
END = "end"


@router.get(
    "/{batch_id}/events",
    summary="Follow a batch live",
    response_class=EventSourceResponse,
    responses={
        200: {
            "description": "The batch's progress",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        204: {"description": "The batch has ended and Last-Event-ID is `end`"},
    },
)
async def events(
    batch_id: str,
    request: Request,
    services: ServicesHere,
    tenant: TenantHere,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
) -> Response:
    """`event: progress` with what `GET /v1/batches/{id}` says but for `skipped_lines`, at once and then at most once a
    second while it changes; a `: ping` comment after 10 s of silence; `event: end` when the batch has ended.

    Every event tells the whole state, so a reader who was away has missed nothing; ids count on from Last-Event-ID, the
    last one is `end`."""
    seen = _number(last_event_id)
    _, has_ended = await run_in_threadpool(_look, services, batch_id, tenant)
    if has_ended and last_event_id == END:
        return Response(status_code=204)
    watches: Watches = request.app.state.batch_watches
    return EventSourceResponse(
        _stream(watches, (tenant, batch_id), lambda: _look(services, batch_id, tenant), seen),
        ping=3600,
        headers={"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"},
    )


def _number(last_event_id: str | None) -> int:
    """Raises: InputError for what is no id of ours."""
    if last_event_id is None or last_event_id == END:
        return 0
    if not last_event_id.isascii() or not last_event_id.isdigit() or len(last_event_id) > 9:
        raise InputError(
            f"Last-Event-ID {last_event_id[:40]!r} is neither the number of an event nor `{END}`"
        )
    return int(last_event_id)


def _look(services: Services, batch_id: str, tenant: str) -> tuple[dict[str, Any], bool]:
    with services.database.begin() as connection:
        detail = detail_of(connection, batches.get(connection, batch_id, tenant_id=tenant), services)
    # Lines left out may be a thousand sentences, and never change. A cancelled batch has ended when the last of its
    # runs has been closed.
    return detail.model_dump(mode="json", exclude={"skipped_lines"}), detail.finished_at is not None


async def _stream(
    watches: Watches, key: tuple[str, str], look: Look, seen: int
) -> AsyncIterator[ServerSentEvent]:
    clock = asyncio.get_running_loop().time
    spoke_at = clock()
    version = 0
    async with watches.watching(key, look) as watch:
        while True:
            await watch.wait(version, max(0.0, spoke_at + PING_SECONDS - clock()))
            if watch.version != version:
                version = watch.version
                seen += 1
                yield ServerSentEvent(event="progress", id=str(seen), data=json.dumps(watch.latest))
                spoke_at = clock()
            if watch.has_ended:
                yield ServerSentEvent(event="end", id=END, data="{}")
            if watch.is_over or watch.has_ended:
                return
            if clock() - spoke_at >= PING_SECONDS:
                yield ServerSentEvent(comment="ping")
                spoke_at = clock()
