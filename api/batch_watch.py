"""Batches that somebody follows: each is looked at once for all who follow it, however many they are."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import structlog
from fastapi.concurrency import run_in_threadpool

from workers.errors import UnavailableError

log = structlog.get_logger(__name__)

#: A batch is looked at this often at most.
LOOK_SECONDS = 1.0
#: After a look there is a rest of so many times what it took, so that counting a huge batch stays a small load.
_REST = 10.0

#: What a look gives: the batch as plain data, and whether it has ended.
Look = Callable[[], tuple[dict[str, Any], bool]]

#: Fields that change while nothing happens.
_RESTLESS = frozenset({"runs_per_minute", "seconds_left"})


class Watch:
    """One batch. `version` counts the changes seen, from 1; `latest` is how it looked then."""

    def __init__(self, look: Look, *, look_seconds: float) -> None:
        self._look = look
        self._look_seconds = look_seconds
        self._changed = asyncio.Event()
        self.readers = 0
        self.latest: dict[str, Any] = {}
        self.version = 0
        self.has_ended = False
        #: Nobody looks any more.
        self.is_over = False

    async def run(self) -> None:
        """Look until the batch has ended. Raises: whatever a look raises, but for a database that is away."""
        clock = asyncio.get_running_loop().time
        try:
            while not self.has_ended:
                began_at = clock()
                try:
                    self._take(*await run_in_threadpool(self._look))
                except UnavailableError as error:
                    log.warning("batch_watch.away", error=str(error))
                await asyncio.sleep(max(self._look_seconds, _REST * (clock() - began_at)))
        finally:
            self.is_over = True
            self._tell()

    def _take(self, batch: dict[str, Any], has_ended: bool) -> None:
        if self.version == 0 or has_ended or _steady(batch) != _steady(self.latest):
            self.latest, self.has_ended = batch, has_ended
            self.version += 1
            self._tell()

    def _tell(self) -> None:
        told, self._changed = self._changed, asyncio.Event()
        told.set()

    async def wait(self, version: int, seconds: float) -> None:
        """Until there is another version than this one, nobody looks any more, or the time has passed."""
        if self.version == version and not self.is_over:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), timeout=seconds)


def _steady(batch: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in batch.items() if name not in _RESTLESS}


class Watches:
    """Watches by batch: begun for the first reader, ended with the last."""

    def __init__(self, *, look_seconds: float = LOOK_SECONDS) -> None:
        self._look_seconds = look_seconds
        self._open: dict[tuple[str, str], tuple[Watch, asyncio.Task[None]]] = {}

    @contextlib.asynccontextmanager
    async def watching(self, key: tuple[str, str], look: Look) -> AsyncIterator[Watch]:
        """The watch of the batch with this key (tenant, batch)."""
        if key not in self._open:
            made = Watch(look, look_seconds=self._look_seconds)
            self._open[key] = made, asyncio.create_task(made.run())
        watch, task = self._open[key]
        watch.readers += 1
        try:
            yield watch
        finally:
            watch.readers -= 1
            if watch.readers == 0:
                del self._open[key]
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
