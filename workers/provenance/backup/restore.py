"""Reads a backup into a database, all of it or nothing: one transaction, which ends only when the file's digest is
that of its content."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from typing import BinaryIO, Literal

import psycopg
from psycopg import sql
from sqlalchemy import Connection, text
from sqlalchemy.exc import IntegrityError

from workers.errors import InputError, StateError
from workers.provenance import migrate
from workers.provenance.backup import tables
from workers.provenance.backup.archive import ArchiveReader, Head, TableHead
from workers.provenance.backup.dump import driver
from workers.provenance.session import Database, wait_for_client

_OTHERS = text(
    """
    SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'consensus' AND pid <> pg_backend_pid()
    """
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Restored:
    """What is there now. `revision`: the schema it was brought to."""

    head: Head
    tables: int
    rows: int
    revision: str


def check(file: BinaryIO) -> Restored:
    """Read a backup to its end and keep nothing. Raises: InputError if it is not whole."""
    reader = ArchiveReader(file)
    count = 0
    for _ in reader.tables():
        count += 1
        for _ in reader.rows():
            pass
    return Restored(head=reader.head, tables=count, rows=reader.count, revision=reader.head.revision)


def restore(
    database: Database, file: BinaryIO, *, replace: bool = False, say: Callable[[str], None] | None = None
) -> Restored:
    """Fill an empty database, at the backup's own schema first, and bring it to this version's.

    replace: what is there is removed, in the same transaction.
    Raises: InputError for a damaged file, StateError if the database is not empty or in use, UnavailableError."""
    reader = ArchiveReader(file)
    revision = reader.head.revision
    if not migrate.is_known(revision):
        raise InputError(
            f"was made at schema {revision}, which this version does not know; restore it with a newer version"
        )
    with database.begin() as connection:
        wait_for_client(connection)
        migrate.hold(connection)
        _make_room(connection, replace=replace)
        migrate.upgrade(connection, revision)
        known = {table.name: set(table.columns) for table in tables.present(connection)}
        # Rows come back as they were: what our triggers do when a row is new was done when it was.
        _switch_triggers(connection, "DISABLE", known)
        count = 0
        for table in reader.tables():
            if say is not None:
                say(table.name)
            if not set(table.columns) <= known.get(table.name, set()):
                raise InputError(
                    f"names a table {table.name!r} whose columns schema {revision} does not have"
                )
            _fill(connection, table, reader)
            count += 1
        # A later migration may change these tables, which a check that is still owed would forbid.
        _check_references(connection)
        _switch_triggers(connection, "ENABLE", known)
        migrate.upgrade(connection, "head")
        # Without figures about its new tables the server would plan as if they were small.
        names = sql.SQL(", ").join(sql.Identifier(table.name) for table in tables.present(connection))
        driver(connection).execute(sql.SQL("ANALYZE {}").format(names))
    return Restored(head=reader.head, tables=count, rows=reader.count, revision=migrate.head())


def _make_room(connection: Connection, *, replace: bool) -> None:
    others = connection.scalar(_OTHERS)
    if others:
        raise StateError(
            f"the database is in use by {others} other connections of Consensus; stop workers, API and beat first"
        )
    present = migrate.revision_of(connection)
    filled = tables.filled(connection)
    if filled and not replace:
        raise StateError(
            f"the database is not empty ({', '.join(filled[:3])}{', …' if len(filled) > 3 else ''}); "
            "restore into another one, or pass --replace to lose what is there"
        )
    if present is not None:
        if not migrate.is_known(present):
            raise StateError(
                f"the database is at schema {present}, which this version does not know; restore into another one"
            )
        migrate.remove(connection)


def _check_references(connection: Connection) -> None:
    try:
        connection.execute(text("SET CONSTRAINTS ALL IMMEDIATE"))
    except IntegrityError as error:
        raise InputError(
            f"has rows that refer to others that it does not have: {_sentence(error.orig)}"
        ) from error


def _sentence(error: BaseException | None) -> str:
    return str(error).splitlines()[0]


def _switch_triggers(connection: Connection, how: Literal["ENABLE", "DISABLE"], names: Iterable[str]) -> None:
    """Ours alone: those of foreign keys go on checking."""
    for name in names:
        driver(connection).execute(
            sql.SQL("ALTER TABLE {} {} TRIGGER USER").format(sql.Identifier(name), sql.SQL(how))
        )


def _fill(connection: Connection, table: TableHead, reader: ArchiveReader) -> None:
    columns = sql.SQL(", ").join(map(sql.Identifier, table.columns))
    statement = sql.SQL("COPY {} ({}) FROM STDIN").format(sql.Identifier(table.name), columns)
    try:
        with driver(connection).cursor() as cursor, cursor.copy(statement) as copy:
            for row in reader.rows():
                copy.write(row)
    except (psycopg.DataError, psycopg.IntegrityError) as error:
        # A file that somebody changed: its digest would not have been right either.
        raise InputError(f"has rows that table {table.name} refuses: {_sentence(error)}") from error
