"""A run's ledger as it grows: server-sent events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Annotated

from fastapi import APIRouter, Header, Query, Response
from fastapi.concurrency import run_in_threadpool
from sse_starlette import EventSourceResponse, ServerSentEvent

from api.dependencies import Services, ServicesHere, TenantHere
from workers.errors import InputError, UnavailableError
from workers.provenance import ledger
from workers.provenance.ledger import Event
from workers.provenance.repository import runs

router = APIRouter(prefix="/v1/runs", tags=["events"])

#: Proxies cut a silent stream; a comment after this long keeps it open (`reference/panel.md` §5.5).
PING_SECONDS = 10.0
#: A stream looks at the ledger this often even without a notification.
LOOK_SECONDS = 5.0
_PAGE = 200


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
    services: ServicesHere,
    tenant: TenantHere,
    last_event_id: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
    after: Annotated[int, Query(ge=0, description="start behind this event; Last-Event-ID wins")] = 0,
) -> Response:
    """Every event of the ledger, `id` its number and `event` its kind; a `: ping` comment after 10 s of
    silence; `event: end` when the run has ended. Resumes behind Last-Event-ID; 204 when nothing is left."""
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
        _stream(services, run_id, tenant, after),
        ping=3600,
        headers={"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"},
    )


async def _stream(services: Services, run_id: str, tenant: str, after: int) -> AsyncIterator[ServerSentEvent]:
    clock = asyncio.get_running_loop().time
    spoke_at = clock()
    with services.hub.watching(run_id) as grown:
        while True:
            grown.clear()
            try:
                found, has_ended = await run_in_threadpool(_read, services, run_id, tenant, after)
            except UnavailableError:
                found, has_ended = [], False
            for event in found:
                after = event.seq
                yield _message(event)
                spoke_at = clock()
            if has_ended and len(found) < _PAGE:
                yield ServerSentEvent(event="end", id=str(after), data="{}")
                return
            if not found:
                await _wait(grown, min(LOOK_SECONDS, max(0.0, spoke_at + PING_SECONDS - clock())))
                if clock() - spoke_at >= PING_SECONDS:
                    yield ServerSentEvent(comment="ping")
                    spoke_at = clock()


async def _wait(grown: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(grown.wait(), timeout=seconds)
    except TimeoutError:
        return


def _run(services: Services, run_id: str, tenant: str) -> runs.Run:
    with services.database.begin() as connection:
        return runs.get(connection, run_id, tenant_id=tenant)


def _read(services: Services, run_id: str, tenant: str, after: int) -> tuple[list[Event], bool]:
    """Events above `after`, and whether the run had ended when they were read (so that none is missing)."""
    with services.database.begin() as connection:
        run = runs.get(connection, run_id, tenant_id=tenant)
        return ledger.read(connection, run_id, after=after, limit=_PAGE), run.has_ended


def _message(event: Event) -> ServerSentEvent:
    # ASCII only: many readers take U+2028 and its like inside a payload for the end of the line.
    data = {"seq": event.seq, "at": ledger.stamp(event.at), "kind": event.kind, "payload": event.payload}
    return ServerSentEvent(event=event.kind, id=str(event.seq), data=json.dumps(data))
