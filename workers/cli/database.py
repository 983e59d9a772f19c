"""The database itself, for commands that need no API: keys are made before anybody could come in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from workers.errors import UnavailableError
from workers.provenance.migrate import head, migrate
from workers.provenance.session import Database
from workers.settings import Settings


@contextmanager
def opened(settings: Settings, *, any_schema: bool = False, may_create: bool = True) -> Iterator[Database]:
    """The database of the settings; else the embedded one: of a running `up`, or started for as long as this takes.

    any_schema: whatever it is at, it is taken and left as it is; else a server's must be at this version's, and the
    embedded one is brought there. may_create: an empty one is made where there is none.

    Raises: UnavailableError.
    """
    from workers.cli.embedded import EmbeddedServers, running_database

    with ExitStack() as stack:
        url = settings.database_url or running_database(settings.home)
        is_ours = url is None
        if url is None:
            if not may_create and not (settings.home / "postgres").is_dir():
                raise UnavailableError(
                    f"there is no database under {settings.home} yet; start one with `consensus up`, "
                    "or set CONSENSUS_DATABASE_URL or CONSENSUS_HOME"
                )
            servers = EmbeddedServers(settings.home)
            stack.callback(servers.stop)
            url, _ = servers.start()
        database = Database(url, pool_size=2)
        stack.callback(database.close)
        if is_ours and not any_schema:
            migrate(database)
        elif not any_schema:
            _check_schema(database)
        yield database


def _check_schema(database: Database) -> None:
    revision = database.schema_revision()
    if revision != head():
        raise UnavailableError(
            f"the database is at schema {revision or 'none'}, this version needs {head()}; run `consensus migrate`"
        )
