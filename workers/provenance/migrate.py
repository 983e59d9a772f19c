"""Brings a database to the schema this code needs. Migrations travel as package data."""

from __future__ import annotations

from importlib.resources import files

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, inspect, text

from workers.errors import UnavailableError
from workers.provenance.models import metadata
from workers.provenance.session import Database

#: Two processes that start at once must not migrate at once: an advisory lock of our own.
_LOCK = 0x436F6E73
#: So many of what is missing are named.
_NAMED = 3


def migrate(database: Database) -> tuple[str | None, str]:
    """Run what is missing; (revision before, revision now).

    Raises: UnavailableError, also for a database that says it is at a schema and is not, or at one of another version:
    nothing is changed then.
    """
    with database.begin() as connection:
        hold(connection)
        before = revision_of(connection)
        if before is not None and not is_known(before):
            raise UnavailableError(
                f"the database is at schema {before}, which this version does not know ({head()} is its newest); "
                "use the version that it was made by, or another database"
            )
        upgrade(connection, "head")
        check_columns(connection)
    return before, head()


def check_columns(connection: Connection) -> None:
    """Hold the tables against the models, column by column. A revision is only a word: a migration that was changed
    after it ran, as happens while one is written, leaves a database with which every query fails or waits.

    Raises: UnavailableError with a sentence that names what differs.
    """
    found = {
        name: {column["name"]: column for column in columns}
        for (_, name), columns in inspect(connection).get_multi_columns().items()
    }
    differences = []
    for table in metadata.sorted_tables:
        there = found.get(table.name)
        if there is None:
            differences.append(f"no table {table.name}")
            continue
        differences += [
            f"no column {table.name}.{column.name}" for column in table.columns if column.name not in there
        ]
        differences += [
            f"a column {table.name}.{name} that wants a value and gets none"
            for name, column in there.items()
            if name not in table.columns and not column["nullable"] and column["default"] is None
        ]
    if differences:
        more = f" and {len(differences) - _NAMED} more" if len(differences) > _NAMED else ""
        raise UnavailableError(
            f"the database says it is at schema {head()} and is not: it has {'; '.join(differences[:_NAMED])}{more}; "
            "it is left from a version under development, use another (CONSENSUS_DATABASE_URL or CONSENSUS_HOME)"
        )


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
