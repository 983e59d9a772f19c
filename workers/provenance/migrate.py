"""Brings a database to the schema this code needs. Migrations travel as package data."""

from __future__ import annotations

from importlib.resources import files

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from workers.provenance.session import Database

#: Two processes that start at once must not migrate at once: an advisory lock of our own.
_LOCK = 0x436F6E73


def migrate(database: Database) -> tuple[str | None, str]:
    """Run what is missing; (revision before, revision now). Raises: UnavailableError."""
    with database.begin() as connection:
        hold(connection)
        before = revision_of(connection)
        upgrade(connection, "head")
    return before, head()


def hold(connection: Connection) -> None:
    """Keep everybody else from migrating until the transaction ends."""
    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})


def revision_of(connection: Connection) -> str | None:
    """The migration that the database is at, None without any."""
    return MigrationContext.configure(connection).get_current_revision()


def upgrade(connection: Connection, revision: str) -> None:
    """Run what is missing up to a revision, in the transaction of the caller."""
    command.upgrade(_config(connection), revision)


def remove(connection: Connection) -> None:
    """Take back every migration, and with them every row, in the transaction of the caller."""
    command.downgrade(_config(connection), "base")


def is_known(revision: str) -> bool:
    """Whether this code ships that revision: a later version's it does not."""
    return any(
        script.revision == revision for script in ScriptDirectory.from_config(_config()).walk_revisions()
    )


def head() -> str:
    """The newest revision that this code ships."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    if revision is None:
        raise RuntimeError("the package ships no migrations")
    return revision


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("migrations")))
    config.attributes["connection"] = connection
    return config
