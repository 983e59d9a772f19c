"""Pages of runs' ledgers, as they go down the wire: read and encoded once for all who want the same one at the time."""

from __future__ import annotations

import asyncio
import dataclasses
import json
from collections.abc import Callable

from fastapi.concurrency import run_in_threadpool
from sse_starlette import ServerSentEvent

from api.live import Seen
from workers.provenance import ledger
from workers.provenance.ledger import Event
from workers.provenance.repository import runs
from workers.provenance.session import Database

#: Events of one page.
PAGE = 200


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """Encoded messages behind some event, in order, each with its event's number. `is_last`: the run had ended when
    they were read, and there are no more. `seen`: the run as it was just before."""

    messages: tuple[tuple[int, bytes], ...]
    is_full: bool
    is_last: bool
    seen: Seen


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PageKey:
    """What is read: the events above `after`. Readers of different versions of a run's watch never share a page: one
    that began before an event was announced may not hold it."""

    tenant_id: str
    run_id: str
    version: int
    after: int


def read_page(database: Database, key: PageKey) -> Page:
    """Raises: UnavailableError when the database is away, NotFoundError when the tenant has no such run."""
    with database.begin() as connection:
        # First the state, so that no event of a run that has ended is missing.
        run = runs.get(connection, key.run_id, tenant_id=key.tenant_id)
        found = ledger.read(connection, key.run_id, after=key.after, limit=PAGE)
    is_full = len(found) == PAGE
    return Page(
        messages=tuple((event.seq, _message(event)) for event in found),
        is_full=is_full,
        is_last=run.has_ended and not is_full,
        seen=(run.ledger_seq, run.state),
    )


class Pages:
    """Reads under way."""

    def __init__(self, read: Callable[[PageKey], Page]) -> None:
        self._read = read
        self._under_way: dict[PageKey, asyncio.Task[Page]] = {}

    async def read(self, key: PageKey) -> Page:
        """The page, from a read that began after this version was there. Raises: whatever reading raises."""
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(run_in_threadpool(self._read, key))
            task.add_done_callback(lambda done: self._forget(key, done))
        # A reader who leaves takes nobody's page away.
        return await asyncio.shield(task)

    def _forget(self, key: PageKey, done: asyncio.Task[Page]) -> None:
        del self._under_way[key]
        if not done.cancelled():
            # Whoever still waits is told; where all have left, nobody has to hear of it.
            done.exception()


def _message(event: Event) -> bytes:
    # ASCII only: many readers take U+2028 and its like inside a payload for the end of the line.
    data = {"seq": event.seq, "at": ledger.stamp(event.at), "kind": event.kind, "payload": event.payload}
    return ServerSentEvent(event=event.kind, id=str(event.seq), data=json.dumps(data)).encode()
