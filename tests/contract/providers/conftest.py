from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.contract.providers.dialects import MODES
from tests.contract.providers.fault_server import FaultServer
from tests.contract.providers.world import World, open_world

STREAMS = [name for name, mode in MODES.items() if mode.is_stream]


@pytest.fixture(scope="session")
def server() -> Iterator[FaultServer]:
    running = FaultServer()
    yield running
    running.stop()


@pytest.fixture(params=list(MODES))
async def world(request: pytest.FixtureRequest, server: FaultServer) -> AsyncIterator[World]:
    """Both formats, whole and streamed."""
    async with open_world(server, MODES[request.param]) as opened:
        yield opened


@pytest.fixture(params=STREAMS)
async def streaming(request: pytest.FixtureRequest, server: FaultServer) -> AsyncIterator[World]:
    """Both formats, streamed."""
    async with open_world(server, MODES[request.param]) as opened:
        yield opened
