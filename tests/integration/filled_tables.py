"""Rows for every table of a schema, whatever its revision: read off the catalogue, so that no table is forgotten.

Row n of a table refers to row n of the others. Row 0 has nothing where nothing is allowed; the others hold what is hard
to write down: ends of lines, backslashes, every byte, the largest numbers."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from sqlalchemy import (
    Boolean,
    Connection,
    DateTime,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    Numeric,
    SmallInteger,
    Table,
    select,
)
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.types import BigInteger

ROWS = 3
HARD = "\t\n\r\\.\n\\N \\\\ 'é' 日本 \u2028 \x01\x7f \U0001f600"


def fill(connection: Connection) -> None:
    """Rows for every table that has none."""
    for table in tables_of(connection).sorted_tables:
        if table.name != "alembic_version" and not connection.execute(select(table).limit(1)).all():
            for number in range(ROWS):
                connection.execute(table.insert(), _row(connection, table, number))


def contents(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    """Every row of every table by columns, in one order."""
    found = {}
    for table in tables_of(connection).sorted_tables:
        rows = connection.execute(select(table).order_by(*table.primary_key.columns))
        found[table.name] = [dict(row._mapping) for row in rows]
    return found


def tables_of(connection: Connection) -> MetaData:
    described = MetaData()
    described.reflect(connection)
    return described


def _row(connection: Connection, table: Table, number: int) -> dict[str, Any]:
    values: dict[str, Any] = {
        column.name: None if number == 0 and column.nullable else _value(column, table.name, number)
        for column in table.columns
        if column.computed is None
    }
    if table.name == "runs" and "batches" not in table.metadata.tables:
        # A place kept for later, which no code of that schema ever wrote to.
        values["batch_id"] = None
    for key in table.foreign_key_constraints:
        if number == 0 and any(column.nullable for column in key.columns):
            continue
        other = key.referred_table
        there = connection.execute(select(other).order_by(*other.primary_key.columns)).all()[
            # Of its own table there are only those before it.
            number - (other is table)
        ]
        for element in key.elements:
            values[element.parent.name] = getattr(there, element.column.name)
    return values


def _value(column: Any, table: str, number: int) -> Any:
    kind = column.type
    if isinstance(kind, SmallInteger):
        return number if column.primary_key else 32_767 - number
    if isinstance(kind, BigInteger):
        return number if column.primary_key else 2**63 - 1 - number
    if isinstance(kind, Integer):
        return number if column.primary_key else 2**31 - 1 - number
    values: dict[type, Any] = {
        Boolean: number == 1,
        Float: (float("nan"), float("-inf"), 0.1 + 0.2)[number] if number else 5e-324,
        Numeric: Decimal("999999.123456") - number,
        DateTime: dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC) + dt.timedelta(days=number),
        LargeBinary: bytes(range(256)) * (number + 1),
        JSONB: {"text": HARD, "n": [number, None, 1.5]},
    }
    for of, value in values.items():
        if isinstance(kind, of):
            return value
    return f"{number} {table} {column.name}{HARD}"
