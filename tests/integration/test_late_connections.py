"""Connections that come back after their database was closed."""

from __future__ import annotations

from sqlalchemy import text

from workers.provenance.session import Database


def test_a_connection_given_back_after_the_close_is_closed_then(database_url: str) -> None:
    """A thread that is cut off in its transaction would leave it to the garbage collector otherwise."""
    database = Database(database_url, pool_size=2)
    with database.begin() as connection:
        wire = connection.connection.dbapi_connection
        assert wire is not None
        connection.execute(text("SELECT 1"))
        database.close()
        assert not wire.closed  # type: ignore[attr-defined]
    assert wire.closed  # type: ignore[attr-defined]
