"""Every migration keeps every row of a filled database, from the first schema to this one."""

from __future__ import annotations

from importlib.resources import files

from alembic.config import Config
from alembic.script import ScriptDirectory

from tests.integration.filled_tables import contents, fill, tables_of
from workers.provenance import migrate as migrating
from workers.provenance.models import metadata
from workers.provenance.session import Database


def revisions() -> list[str]:
    """From the first to the newest."""
    config = Config()
    config.set_main_option("script_location", str(files("migrations")))
    return [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()][::-1]


def test_every_migration_keeps_every_value_of_a_filled_database(empty: Database) -> None:
    first, *later = revisions()
    with empty.begin() as connection:
        migrating.upgrade(connection, first)
        fill(connection)
    for revision in later:
        with empty.begin() as connection:
            before = contents(connection)
            migrating.upgrade(connection, revision)
            after = contents(connection)
            # What this migration brought is filled for the next one.
            fill(connection)
        assert set(before) <= set(after)
        for table, rows in before.items():
            if table == "alembic_version":
                continue
            kept = [{name: row.get(name, "(gone)") for name in rows[0]} for row in after[table]]
            assert repr(kept) == repr(rows), f"{revision} changed {table}"
    assert empty.schema_revision() == migrating.head()


def test_runs_of_before_there_were_batches_count_as_sent(empty: Database) -> None:
    """The one migration that fills a column: without it a run would wait for a dispatcher that never comes."""
    with empty.begin() as connection:
        migrating.upgrade(connection, "0002")
        fill(connection)
    with empty.begin() as connection:
        migrating.upgrade(connection, "0003")
        rows = contents(connection)["runs"]
    assert [row["dispatched_at"] for row in rows] == [row["created_at"] for row in rows]


def test_no_schema_had_a_table_that_a_backup_would_leave_out(empty: Database) -> None:
    seen: set[str] = set()
    for revision in revisions():
        with empty.begin() as connection:
            migrating.upgrade(connection, revision)
            seen |= set(tables_of(connection).tables)
    assert seen == {*metadata.tables, "alembic_version"}
