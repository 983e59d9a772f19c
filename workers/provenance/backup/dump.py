"""Writes a backup while everything runs: every table as of one moment, streamed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, BinaryIO

import psycopg
from psycopg import sql
from sqlalchemy import Connection, text

from workers.errors import StateError
from workers.provenance import migrate
from workers.provenance.backup import tables
from workers.provenance.backup.archive import ArchiveWriter, Head, TableHead
from workers.provenance.session import Database

#: How values are spelled, whatever the server's or the role's settings are.
_SPELLING = text(
    "SELECT set_config('datestyle', 'ISO', true), set_config('timezone', 'UTC', true), "
    "set_config('bytea_output', 'hex', true), set_config('extra_float_digits', '1', true), "
    "set_config('client_encoding', 'UTF8', true)"
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Backup:
    """What was written. `rows`: of all tables."""

    head: Head
    tables: int
    rows: int


def dump(database: Database, file: BinaryIO, *, say: Callable[[str], None] | None = None) -> Backup:
    """Write everything as of now. `say` is told the name of each table before it is read.

    Raises: StateError for a database without our schema or with a later version's, UnavailableError."""
    with database.snapshot() as connection:
        head = _head(connection)
        connection.execute(_SPELLING)
        writer = ArchiveWriter(file, head)
        found = tables.present(connection)
        for table in found:
            if say is not None:
                say(table.name)
            writer.begin_table(table)
            with driver(connection).cursor() as cursor, cursor.copy(_copy(table)) as copy:
                for data in copy:
                    writer.write_rows(bytes(data))
            writer.end_table()
        return Backup(head=head, tables=len(found), rows=writer.close())


def driver(connection: Connection) -> psycopg.Connection[Any]:
    """The connection below SQLAlchemy, which knows no COPY; in the same transaction."""
    below = connection.connection.driver_connection
    if not isinstance(below, psycopg.Connection):
        raise TypeError(f"the driver is {type(below).__name__}, not psycopg")
    return below


def _copy(table: TableHead) -> sql.Composed:
    columns = sql.SQL(", ").join(map(sql.Identifier, table.columns))
    return sql.SQL("COPY {} ({}) TO STDOUT").format(sql.Identifier(table.name), columns)


def _head(connection: Connection) -> Head:
    revision = migrate.revision_of(connection)
    if revision is None:
        raise StateError("the database holds no Consensus: there is nothing to back up")
    if not migrate.is_known(revision):
        raise StateError(
            f"the database is at schema {revision}, which this version does not know; "
            "back it up with the version that it was migrated by"
        )
    server, at = connection.execute(text("SELECT current_setting('server_version'), now()")).one()
    return Head(revision=revision, server=server, at=at.isoformat(timespec="seconds"))
