"""The database itself, for commands that need no API: keys are made before anybody could come in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

from workers.errors import UnavailableError
from workers.provenance.migrate import head, migrate
from workers.provenance.session import Database
from workers.settings import Settings


@contextmanager
def opened(settings: Settings) -> Iterator[Database]:
    """The database of the settings; else the embedded one: of a running `up`, or started for as long as this takes.

    Raises: UnavailableError, also for a schema that is not this version's.
    """
    if settings.database_url is not None:
        with _connected(settings.database_url) as database:
            _check_schema(database)
            yield database
        return
    running = embedded_url(settings.home)
    if running is not None:
        with _connected(running) as database:
            _check_schema(database)
            yield database
        return
    from workers.cli.embedded import EmbeddedServers

    servers = EmbeddedServers(settings.home)
    try:
        url, _ = servers.start()
        with _connected(url) as database:
            migrate(database)
            yield database
    finally:
        servers.stop()


def embedded_url(home: Path) -> str | None:
    """Where the embedded PostgreSQL of this data directory listens, as it says itself; None while it is down."""
    from workers.cli.embedded import DATABASE

    try:
        # Lines of postmaster.pid: process, data directory, start, port, folder of the socket, address, …
        lines = (home / "postgres" / "postmaster.pid").read_text(encoding="utf-8").splitlines()
        port, folder = int(lines[3]), lines[4].strip()
    except (OSError, ValueError, IndexError):
        return None
    url = f"postgresql+psycopg://postgres:@/{DATABASE}?host={quote(folder, safe='')}&port={port}"
    database = Database(url, pool_size=1)
    try:
        database.schema_revision()
    except UnavailableError:
        # Left behind by a server that was killed.
        return None
    finally:
        database.close()
    return url


@contextmanager
def _connected(url: str) -> Iterator[Database]:
    database = Database(url, pool_size=2)
    try:
        yield database
    finally:
        database.close()


def _check_schema(database: Database) -> None:
    revision = database.schema_revision()
    if revision != head():
        raise UnavailableError(
            f"the database is at schema {revision or 'none'}, this version needs {head()}; run `consensus migrate`"
        )
