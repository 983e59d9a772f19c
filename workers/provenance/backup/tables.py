"""Our tables as they are in a database, at whatever schema it is."""

from __future__ import annotations

from sqlalchemy import Connection, text

from workers.provenance.backup.archive import TableHead
from workers.provenance.models import metadata

#: What the server computes itself is not written down.
_COLUMNS = text(
    """
    SELECT attname FROM pg_attribute
    WHERE attrelid = to_regclass(:name) AND attnum > 0 AND NOT attisdropped AND attgenerated = ''
    ORDER BY attnum
    """
)


def present(connection: Connection) -> list[TableHead]:
    """Those that are there, each behind the tables that it refers to."""
    found = []
    for table in metadata.sorted_tables:
        columns = tuple(connection.scalars(_COLUMNS, {"name": table.name}))
        if columns:
            found.append(TableHead(name=table.name, columns=columns))
    return found


def filled(connection: Connection) -> list[str]:
    """The names of those with at least one row."""
    return [
        table.name
        for table in present(connection)
        # A name of our own models, never of a file.
        if connection.scalar(text(f"SELECT EXISTS (SELECT FROM {table.name})"))  # noqa: S608 # nosec B608 # ours
    ]
