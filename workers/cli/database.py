"""The database of an installation, for commands that work on it without the API."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from workers.cli.embedded import EmbeddedServers, running_database
from workers.errors import UnavailableError
from workers.provenance.session import Database
from workers.settings import load


@contextmanager
def opened_database(*, may_create: bool = False) -> Iterator[Database]:
    """That of CONSENSUS_DATABASE_URL; else the embedded one, which is started for as long as the block takes unless it
    is running. may_create: an empty one is made where there is none.

    Raises: UnavailableError."""
    settings = load()
    with ExitStack() as stack:
        url = settings.database_url or running_database(settings.home)
        if url is None:
            if not may_create and not (settings.home / "postgres").is_dir():
                raise UnavailableError(
                    f"there is no database under {settings.home} yet; start one with `consensus up`, "
                    "or set CONSENSUS_DATABASE_URL or CONSENSUS_HOME"
                )
            servers = EmbeddedServers(settings.home)
            stack.callback(servers.stop)
            url, _ = servers.start()
        database = Database(url, pool_size=1)
        stack.callback(database.close)
        yield database
