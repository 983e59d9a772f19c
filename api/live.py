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


#: A run as it was when it was read: its last event's number, its state.
Seen = tuple[int, str]


class Reader:
    """One stream. `seen`: the run as it read it last, None while it reads for the first time."""

    def __init__(self) -> None:
        self.seen: Seen | None = None


class Watch:
    """One run that somebody follows. `version` counts the times it may have grown."""

    def __init__(self) -> None:
        self.version = 0
        self._readers: set[Reader] = set()
        self._grown = asyncio.Event()

    @property
    def is_followed(self) -> bool:
        return bool(self._readers)

    @contextlib.contextmanager
    def reading(self) -> Iterator[Reader]:
        reader = Reader()
        self._readers.add(reader)
        try:
            yield reader
        finally:
            self._readers.discard(reader)

    def is_known(self, now: Seen) -> bool:
        """Whether every reader knows the run as it is."""
        return all(reader.seen in (None, now) for reader in self._readers)

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
    def watching(self, run_id: str) -> Iterator[tuple[Watch, Reader]]:
        """The run's watch, shared by all who follow it, and the caller's own place there. Take the watch's version
        before reading the ledger."""
        watch = self._watches.setdefault(run_id, Watch())
        try:
            with watch.reading() as reader:
                yield watch, reader
        finally:
            if not watch.is_followed:
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
        """Wake the streams of runs that some reader does not know as they are; waking all would have each of them read
        what it has read. What is notified meanwhile is kept by the connection."""
        followed = list(self._watches)
        if not followed:
            return
        cursor = await connection.execute(_LOOK, (followed,))
        for run_id, ledger_seq, state in await cursor.fetchall():
            watch = self._watches.get(run_id)
            if watch is not None and not watch.is_known((ledger_seq, state)):
                watch.tell()

    def _wake(self, run_id: str) -> None:
        watch = self._watches.get(run_id)
        if watch is not None:
            watch.tell()
