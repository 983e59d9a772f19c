"""Wakes whoever waits for a run's next event: one LISTEN connection for all streams of the process.

A notification is a hint; streams read the ledger itself, and look again on their own after a while, so a lost
notification costs seconds, never an event."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import psycopg
import structlog

from workers.provenance.ledger import CHANNEL
from workers.provenance.session import CLIENT_LIVENESS

log = structlog.get_logger(__name__)

_RECONNECT_SECONDS = 1.0


class Hub:
    """Waiters by run."""

    def __init__(self, database_url: str) -> None:
        self._url = database_url.replace("postgresql+psycopg://", "postgresql://", 1)
        self._waiters: dict[str, set[asyncio.Event]] = {}
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._listen())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    @contextlib.contextmanager
    def watching(self, run_id: str) -> Iterator[asyncio.Event]:
        """An event that is set whenever the run's ledger has grown; clear it before reading the ledger."""
        event = asyncio.Event()
        self._waiters.setdefault(run_id, set()).add(event)
        try:
            yield event
        finally:
            waiting = self._waiters[run_id]
            waiting.discard(event)
            if not waiting:
                del self._waiters[run_id]

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except (psycopg.Error, OSError) as error:
                log.warning("live.lost", error=str(error).splitlines()[0] if str(error) else "")
                await asyncio.sleep(_RECONNECT_SECONDS)

    async def _listen_once(self) -> None:
        connection = await psycopg.AsyncConnection.connect(
            self._url, autocommit=True, connect_timeout=5, **CLIENT_LIVENESS
        )
        async with connection:
            await connection.execute(f"LISTEN {CHANNEL}")
            # Whatever happened while nobody listened: let every stream look once.
            for run_id in list(self._waiters):
                self._wake(run_id)
            async for notification in connection.notifies():
                self._wake(notification.payload)

    def _wake(self, run_id: str) -> None:
        for event in self._waiters.get(run_id, ()):
            event.set()
