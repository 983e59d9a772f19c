"""The real application on a real database; only the broker is a list."""

from __future__ import annotations

import socket
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from api.app import create_app
from api.dependencies import Services
from tests.api.streams import CountingHub, LiveServer
from workers.provenance.session import Database


class Broker:
    """Records what was submitted. `problem` is what it answers when asked how it is."""

    def __init__(self) -> None:
        self.submitted: list[str] = []
        self.problem: str | None = None

    def submit(self, run_id: str) -> None:
        self.submitted.append(run_id)


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def team_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "teams"
    folder.mkdir()
    return folder


@pytest.fixture
def app(database: Database, database_url: str, broker: Broker, team_folder: Path) -> FastAPI:
    return create_app(
        Services(
            database=database,
            hub=CountingHub(database_url),
            submit=broker.submit,
            broker_problem=lambda: broker.problem,
            team_folders=(team_folder,),
        )
    )


@pytest.fixture
async def client(app: FastAPI) -> AsyncIterator[httpx.AsyncClient]:
    """Plain calls, without a server between. An error of the application is an answer, as it is for users."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as opened:
        yield opened


@pytest.fixture(scope="session")
def _live_server(database_url: str) -> Iterator[LiveServer]:
    hub = CountingHub(database_url)
    services = Services(
        database=Database(database_url, pool_size=8),
        hub=hub,
        submit=lambda _: None,
        broker_problem=lambda: None,
    )
    with served(create_app(services)) as url:
        yield LiveServer(url=url, hub=hub)


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """The address of a server in a thread that serves the application while the block runs."""
    listening = socket.create_server(("127.0.0.1", 0), backlog=128)
    port = listening.getsockname()[1]
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning", ws="none"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="api")
    thread.start()
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=10)
        assert not thread.is_alive(), "the server does not stop"


@pytest.fixture
def live(database: Database, _live_server: LiveServer) -> LiveServer:
    """A server process's worth of API on a port of its own, over the emptied database."""
    return _live_server
