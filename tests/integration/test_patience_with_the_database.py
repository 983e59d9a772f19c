"""A database that takes a statement and says nothing: whoever asked is told so, and the next one gets a new line."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from sqlalchemy import text

from workers.errors import UnavailableError
from workers.provenance.session import Database

#: Enough for an honest statement on a machine that is busy.
PATIENCE_SECONDS = 1.0
#: Far longer than anybody waits here; its server process goes on until then.
_FOR_AGES = text("SELECT pg_sleep(5)")


@pytest.fixture
def impatient(database: Database, database_url: str) -> Iterator[Database]:
    opened = Database(database_url, pool_size=1, patience_seconds=PATIENCE_SECONDS)
    yield opened
    opened.close()


def ask_for_ages(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(_FOR_AGES)


def test_a_statement_that_is_not_answered_ends_in_a_sentence(impatient: Database) -> None:
    began = time.monotonic()
    with pytest.raises(UnavailableError, match=r"does not answer: .*no answer to a statement within 1 s"):
        ask_for_ages(impatient)
    assert PATIENCE_SECONDS <= time.monotonic() - began < 30


def test_the_only_connection_of_the_pool_is_replaced(impatient: Database) -> None:
    for _ in range(2):
        with pytest.raises(UnavailableError):
            ask_for_ages(impatient)
        with impatient.begin() as connection:
            assert connection.scalar(text("SELECT 1")) == 1


def test_nothing_of_the_transaction_stays(database: Database, impatient: Database) -> None:
    def half() -> None:
        with impatient.begin() as connection:
            connection.execute(text("CREATE TABLE half_done (one integer)"))
            connection.execute(_FOR_AGES)

    with pytest.raises(UnavailableError):
        half()
    with database.begin() as connection:
        assert connection.scalar(text("SELECT to_regclass('half_done')")) is None


def test_a_lock_that_another_holds_is_not_waited_for_longer_either(
    database: Database, impatient: Database
) -> None:
    with database.begin() as holder:
        holder.execute(text("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE"))
        with pytest.raises(UnavailableError, match=r"within 1 s"), impatient.begin() as connection:
            connection.scalar(text("SELECT count(*) FROM runs"))


def test_many_quick_statements_take_as_long_as_they_take(impatient: Database) -> None:
    """Patience is for one statement, not for a transaction."""
    began = time.monotonic()
    with impatient.begin() as connection:
        while time.monotonic() - began < 1.5 * PATIENCE_SECONDS:
            connection.execute(text("SELECT pg_sleep(0.01)"))


def test_who_waits_for_ever_does(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(text("SELECT pg_sleep(0.5)"))
