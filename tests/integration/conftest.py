"""What the integration tests begin with."""

from __future__ import annotations

import pytest

from tests.integration.stored_runs import open_seats, seat_key, store_run
from workers.provenance.session import Database


@pytest.fixture
def seated(database: Database) -> Database:
    """A run with one pending seat."""
    store_run(database)
    open_seats(database, seat_key())
    return database
