"""The schema: built by the migrations, from nothing, twice, back again, and by two at once."""

from __future__ import annotations

import threading

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import create_engine, text

from tests.integration.stored_runs import store_run
from workers.errors import UnavailableError
from workers.provenance import migrate as migrating
from workers.provenance.migrate import head, migrate
from workers.provenance.models import metadata
from workers.provenance.session import Database

#: Everything a schema is, as PostgreSQL itself writes it out.
CATALOGUE = """
    SELECT 'column', table_name || '.' || column_name,
           concat_ws(' ', data_type, numeric_precision, numeric_scale, is_nullable, column_default)
    FROM information_schema.columns WHERE table_schema = 'public'
    UNION ALL
    SELECT 'constraint', conrelid::regclass || '.' || conname, pg_get_constraintdef(oid)
    FROM pg_constraint WHERE connamespace = 'public'::regnamespace
    UNION ALL
    SELECT 'index', indexname, indexdef FROM pg_indexes WHERE schemaname = 'public'
    ORDER BY 1, 2
"""


def catalogue(database: Database) -> list[tuple[str, ...]]:
    with database.begin() as connection:
        rows = connection.execute(text(CATALOGUE)).all()
    return [tuple(row) for row in rows if "alembic_version" not in row[1]]


def test_an_empty_database_is_brought_to_the_newest_schema(empty: Database) -> None:
    assert empty.schema_revision() is None
    assert migrate(empty) == (None, head())
    assert empty.schema_revision() == head()
    store_run(empty)


def test_migrating_again_changes_nothing_and_loses_nothing(empty: Database) -> None:
    migrate(empty)
    store_run(empty)
    before = catalogue(empty)
    assert migrate(empty) == (head(), head())
    assert catalogue(empty) == before
    with empty.begin() as connection:
        assert connection.scalar(text("SELECT count(*) FROM runs")) == 1


def test_down_to_nothing_and_up_again_gives_the_same_schema(empty: Database) -> None:
    migrate(empty)
    before = catalogue(empty)
    with empty.begin() as connection:
        config = migrating._config()
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
    assert catalogue(empty) == []
    assert empty.schema_revision() is None
    migrate(empty)
    assert catalogue(empty) == before


def test_alembic_sees_no_difference_from_the_models(empty: Database) -> None:
    migrate(empty)
    with empty.begin() as connection:
        context = MigrationContext.configure(
            connection, opts={"compare_type": True, "compare_server_default": True}
        )
        assert compare_metadata(context, metadata) == []


def test_the_migrated_schema_is_the_models_schema_to_the_last_word(empty: Database, empty_url: str) -> None:
    """Alembic compares no partial index's condition, no deferrable constraint and no name; this does."""
    engine = create_engine(empty_url)
    metadata.create_all(engine)
    from_models = catalogue(empty)
    metadata.drop_all(engine)
    engine.dispose()
    migrate(empty)
    assert catalogue(empty) == from_models
    assert len(from_models) > 50


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ("ALTER TABLE runs DROP COLUMN team CASCADE", "no column runs.team"),
        ("ALTER TABLE calls RENAME COLUMN rung TO step", "no column calls.rung"),
        ("DROP TABLE webhook_deliveries", "no table webhook_deliveries"),
        (
            "ALTER TABLE stages ADD COLUMN shape text NOT NULL",
            "a column stages.shape that wants a value and gets none",
        ),
    ],
)
def test_a_database_that_is_not_at_the_schema_it_says_is_told_in_a_sentence(
    empty: Database, change: str, difference: str
) -> None:
    migrate(empty)
    with empty.begin() as connection:
        connection.execute(text(change))
    with pytest.raises(UnavailableError) as told:
        migrate(empty)
    assert str(told.value) == (
        f"the database says it is at schema {head()} and is not: it has {difference}; it is left from a version under "
        "development, use another (CONSENSUS_DATABASE_URL or CONSENSUS_HOME)"
    )


def test_a_column_that_somebody_added_for_themselves_is_left_alone(empty: Database) -> None:
    migrate(empty)
    with empty.begin() as connection:
        connection.execute(text("ALTER TABLE runs ADD COLUMN note text"))
    assert migrate(empty) == (head(), head())


def test_a_database_of_another_version_is_told_in_a_sentence_and_left_as_it_is(empty: Database) -> None:
    migrate(empty)
    with empty.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0999_later'"))
    before = catalogue(empty)
    with pytest.raises(
        UnavailableError, match=r"^the database is at schema 0999_later, which this version does not"
    ):
        migrate(empty)
    assert catalogue(empty) == before


def test_a_migration_that_fails_leaves_nothing_half_made(empty: Database) -> None:
    with empty.begin() as connection:
        connection.execute(
            text("CREATE TABLE events (x int)")
        )  # in the way of ours, which comes after others
    before = catalogue(empty)
    with pytest.raises(Exception, match="already exists"):
        migrate(empty)
    assert catalogue(empty) == before
    assert empty.schema_revision() is None


def test_two_processes_that_start_at_once_migrate_once(empty: Database, empty_url: str) -> None:
    others = [Database(empty_url, pool_size=1) for _ in range(3)]
    results: list[tuple[str | None, str]] = []
    gate = threading.Barrier(len(others))

    def start(database: Database) -> None:
        gate.wait(timeout=10)
        results.append(migrate(database))

    threads = [threading.Thread(target=start, args=(database,)) for database in others]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    for database in others:
        database.close()
    # One found nothing there, the others found its work done.
    assert sorted(results, key=str) == sorted([(None, head()), (head(), head()), (head(), head())], key=str)
