"""The migrations build exactly the schema that the models describe, in one line of descent."""

from __future__ import annotations

from importlib.resources import files

from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Integer, MetaData, Table, create_engine

from workers.provenance.migrate import head, migrate
from workers.provenance.models import metadata
from workers.provenance.session import Database


def differences(database_url: str, described: MetaData) -> list[object]:
    engine = create_engine(database_url)
    try:
        with engine.connect() as connection:
            options = {"compare_type": True, "compare_server_default": True}
            return list(compare_metadata(MigrationContext.configure(connection, opts=options), described))
    finally:
        engine.dispose()


def test_the_migrated_schema_is_the_models_schema(database_url: str) -> None:
    assert differences(database_url, metadata) == []


def test_a_column_that_was_never_migrated_would_be_seen(database_url: str) -> None:
    described = MetaData()
    for table in metadata.sorted_tables:
        table.to_metadata(described)
    Table("forgotten", described, Column("id", Integer, primary_key=True))
    assert [difference[0] for difference in differences(database_url, described)] == ["add_table"]  # type: ignore[index]


def test_migrating_twice_changes_nothing(database_url: str) -> None:
    database = Database(database_url, pool_size=2)
    try:
        assert migrate(database) == (head(), head())
        assert database.schema_revision() == head()
    finally:
        database.close()


def test_there_is_one_head_and_one_root() -> None:
    config = Config()
    config.set_main_option("script_location", str(files("migrations")))
    scripts = ScriptDirectory.from_config(config)
    assert scripts.get_heads() == [head()]
    assert len(scripts.get_bases()) == 1
