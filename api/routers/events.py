"""A run's ledger as it grows: server-sent events."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from sse_starlette import EventSourceResponse, ServerSentEvent

from api import live
from api.dependencies import Services, ServicesHere, TenantHere
from api.run_pages import Page, PageKey, Pages
from workers.errors import InputError, UnavailableError
from workers.provenance.repository import runs

router = APIRouter(prefix="/v1/runs", tags=["events"])

#: Proxies cut a silent stream; a comment after this long, or half of it, keeps it open (`reference/panel.md` §5.5).
PING_SECONDS = 10.0


@router.get(
    "/{run_id}/events",
    summary="Follow a run live",
    response_class=EventSourceResponse,
    responses={
        200: {
            "description": "The ledger's events",
            "content": {"text/event-stream": {"schema": {"type": "string"}}},
        },
        204: {"description": "The run has ended and Last-Event-ID is its last event"},
    },
)
async def events(
    run_id: str,
    request: Request,
    services: ServicesHere,
    tenant: TenantHere,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
    after: Annotated[int, Query(ge=0, description="start behind this event; Last-Event-ID wins")] = 0,
) -> Response:
    """Every event of the ledger, `id` its number and `event` its kind; a `: ping` comment after 5 to 10 s
    of silence; `event: end` when the run has ended. Resumes behind Last-Event-ID; 204 when nothing is left."""
    if last_event_id is not None:
        if not last_event_id.isascii() or not last_event_id.isdigit() or len(last_event_id) > 9:
            raise InputError(f"Last-Event-ID {last_event_id[:40]!r} is not the number of an event")
        after = int(last_event_id)
    run = await run_in_threadpool(_run, services, run_id, tenant)
    if run.has_ended and after >= run.ledger_seq:
        return Response(status_code=204)
    if after > run.ledger_seq:
        raise InputError(
            f"there is no event {after} yet to resume behind: the run's last event is {run.ledger_seq}"
        )
    return EventSourceResponse(
        _stream(services, request.app.state.run_pages, run_id, tenant, after),
        ping=3600,
        headers={"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"},
    )


async def _stream(
    services: Services, pages: Pages, run_id: str, tenant: str, after: int
) -> AsyncIterator[ServerSentEvent | bytes]:
    clock = asyncio.get_running_loop().time
    spoke_at = clock()
    # Streams that began together, or heard the same event, do not all ping at the same moment.
    ping_seconds = PING_SECONDS * (1.0 - secrets.randbelow(500) / 1000)
    with services.hub.watching(run_id) as (watch, reader):
        version, is_behind = watch.version, True
        while True:
            page: Page | None = None
            # What was read is not read again, but where nobody would tell of more.
            if is_behind or watch.version != version or not services.hub.is_listening:
                version = watch.version
                key = PageKey(tenant_id=tenant, run_id=run_id, version=version, after=after)
                try:
                    page = await pages.read(key)
                    reader.seen, is_behind = page.seen, False
                except UnavailableError:
                    is_behind = True
            for number, message in page.messages if page else ():
                after = number
                yield message
                spoke_at = clock()
            if page and page.is_last:
                yield ServerSentEvent(event="end", id=str(after), data="{}")
                return
            if page and page.is_full:
                is_behind = True
                continue
            is_told = services.hub.is_listening and not is_behind
            due = max(0.0, spoke_at + ping_seconds - clock())
            await watch.wait(version, due if is_told else min(live.LOOK_SECONDS, due))
            if clock() - spoke_at >= ping_seconds:
                yield ServerSentEvent(comment="ping")
                spoke_at = clock()


def _run(services: Services, run_id: str, tenant: str) -> runs.Run:
    with services.database.begin() as connection:
        return runs.get(connection, run_id, tenant_id=tenant)
