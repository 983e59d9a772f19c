"""Brings a database to the schema this code needs. Migrations travel as package data."""

from __future__ import annotations

from importlib.resources import files

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import text

from workers.provenance.session import Database

#: Two processes that start at once must not migrate at once: an advisory lock of our own.
_LOCK = 0x436F6E73


def migrate(database: Database) -> tuple[str | None, str]:
    """Run what is missing; (revision before, revision now). Raises: UnavailableError."""
    with database.begin() as connection:
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        before = MigrationContext.configure(connection).get_current_revision()
        config = _config()
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    return before, head()


def head() -> str:
    """The newest revision that this code ships."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    if revision is None:
        raise RuntimeError("the package ships no migrations")
    return revision


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(files("migrations")))
    return config
