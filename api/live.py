"""Wakes whoever follows a run that has grown: one LISTEN connection for all streams of the process.

A notification is a hint; streams read the ledger itself. Now and then one statement looks at all runs that are
followed, so a lost notification costs seconds, never an event, and a quiet stream costs the database nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import psycopg
import structlog

from workers.provenance.ledger import CHANNEL
from workers.provenance.session import CLIENT_LIVENESS

log = structlog.get_logger(__name__)

#: All runs that are followed are looked at this often; by the streams themselves while nobody listens for them.
LOOK_SECONDS = 5.0
_RECONNECT_SECONDS = 1.0
#: What the connection is called in `pg_stat_activity`.
APPLICATION_NAME = "consensus live"
_LOOK = "SELECT run_id, ledger_seq, state FROM runs WHERE run_id = ANY(%s)"


class Watch:
    """One run that somebody follows. `version` counts the times it may have grown."""

    def __init__(self) -> None:
        self.version = 0
        self.readers = 0
        #: What the last look saw.
        self.seen: tuple[int, str] | None = None
        self._grown = asyncio.Event()

    def tell(self) -> None:
        self.version += 1
        told, self._grown = self._grown, asyncio.Event()
        told.set()

    async def wait(self, version: int, seconds: float) -> None:
        """Until there is another version than this one, or the time has passed."""
        if self.version == version:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._grown.wait(), timeout=seconds)


class Hub:
    """Watches by run."""

    def __init__(self, database_url: str) -> None:
        self._url = database_url.replace("postgresql+psycopg://", "postgresql://", 1)
        self._watches: dict[str, Watch] = {}
        self._task: asyncio.Task[None] | None = None
        #: Whether anybody would be told of an event that is committed now.
        self.is_listening = False

    def start(self) -> None:
        self._task = asyncio.create_task(self._listen())

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    @contextlib.contextmanager
    def watching(self, run_id: str) -> Iterator[Watch]:
        """The run's watch, shared by all who follow it. Take its version before reading the ledger."""
        watch = self._watches.setdefault(run_id, Watch())
        watch.readers += 1
        try:
            yield watch
        finally:
            watch.readers -= 1
            if watch.readers == 0:
                del self._watches[run_id]

    async def _listen(self) -> None:
        while True:
            try:
                await self._listen_once()
            except (psycopg.Error, OSError) as error:
                log.warning("live.lost", error=str(error).splitlines()[0] if str(error) else "")
                await asyncio.sleep(_RECONNECT_SECONDS)

    async def _listen_once(self) -> None:
        connection = await psycopg.AsyncConnection.connect(
            self._url,
            autocommit=True,
            connect_timeout=5,
            application_name=APPLICATION_NAME,
            **CLIENT_LIVENESS,
        )
        try:
            async with connection:
                await connection.execute(f"LISTEN {CHANNEL}")
                self.is_listening = True
                # Whatever happened while nobody listened: let every stream look once.
                for run_id in list(self._watches):
                    self._wake(run_id)
                while True:
                    async for notification in connection.notifies(timeout=LOOK_SECONDS):
                        self._wake(notification.payload)
                    await self._look(connection)
        finally:
            self.is_listening = False

    async def _look(self, connection: psycopg.AsyncConnection) -> None:
        """Wake the streams of runs that are not as the last look saw them. What is notified meanwhile is kept by the
        connection."""
        followed = list(self._watches)
        if not followed:
            return
        cursor = await connection.execute(_LOOK, (followed,))
        for run_id, ledger_seq, state in await cursor.fetchall():
            watch = self._watches.get(run_id)
            if watch is not None and watch.seen != (ledger_seq, state):
                watch.seen = (ledger_seq, state)
                watch.tell()

    def _wake(self, run_id: str) -> None:
        watch = self._watches.get(run_id)
        if watch is not None:
            watch.tell()
