"""A service that is away, and a fault of our own."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from api.app import create_app
from api.dependencies import Services
from api.live import Hub
from tests.api.conftest import Broker
from tests.api.problem_documents import problem
from tests.api.streams import DEADLINE_SECONDS
from workers.provenance.session import Database


@pytest.fixture
async def homeless(broker: Broker) -> Any:
    """A client of an API whose database's port is closed."""
    url = "postgresql+psycopg://consensus:secret@127.0.0.1:1/consensus"
    services = Services(
        database=Database(url, pool_size=2),
        hub=Hub(url),
        submit=broker.submit,
        broker_problem=lambda: broker.problem,
    )
    transport = httpx.ASGITransport(app=create_app(services), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        yield client
    services.database.close()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/runs"),
        ("GET", "/v1/runs"),
        ("GET", "/v1/runs/run_1"),
        ("GET", "/v1/runs/run_1/events"),
        ("GET", "/v1/runs/run_1/provenance"),
        ("POST", "/v1/runs/run_1/cancel"),
        ("GET", "/readyz"),
    ],
)
async def test_an_unreachable_database_is_503_in_bounded_time(
    homeless: httpx.AsyncClient, broker: Broker, method: str, path: str
) -> None:
    started = time.monotonic()
    body = {"json": {"spec": "x"}} if path == "/v1/runs" and method == "POST" else {}
    answer = await asyncio.wait_for(homeless.request(method, path, **body), timeout=DEADLINE_SECONDS)
    detail = problem(answer, 503)
    assert "the database does not answer" in detail
    assert "secret" not in answer.text
    assert answer.headers["retry-after"]
    assert time.monotonic() - started < 5
    assert broker.submitted == []


async def test_life_does_not_hang_on_the_database(homeless: httpx.AsyncClient) -> None:
    assert (await homeless.get("/healthz")).json() == {"status": "alive"}


async def test_a_server_that_needs_no_database_for_it_refuses_bad_input_before_asking_for_one(
    homeless: httpx.AsyncClient,
) -> None:
    assert problem(await homeless.post("/v1/runs", json={"spec": ""}), 422)


async def test_a_fault_of_our_own_is_500_without_its_traceback(
    app: FastAPI, client: httpx.AsyncClient
) -> None:
    @app.get("/broken")
    def broken() -> None:
        raise RuntimeError("a secret of the inside")

    answer = await client.get("/broken")
    assert problem(answer, 500) == "an unexpected error; it is in the server's log"
    assert "secret" not in answer.text


async def test_readiness_names_a_schema_that_is_behind_and_the_command_that_helps(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.routers.health.head", lambda: "9999")
    detail = problem(await client.get("/readyz"), 503)
    assert "this code needs 9999; run `consensus migrate`" in detail


async def test_readiness_names_the_broker(client: httpx.AsyncClient, broker: Broker) -> None:
    assert (await client.get("/readyz")).json()["status"] == "ready"
    broker.problem = "the broker does not answer: refused"
    assert problem(await client.get("/readyz"), 503) == broker.problem


@pytest.mark.parametrize("path", ["/runs", "/runs/run_1", "/runs/run_1/live", "/batches", "/batches/batch_1"])
async def test_a_page_whose_database_is_away_says_so_and_offers_to_try_again(
    homeless: httpx.AsyncClient, path: str
) -> None:
    answer = await homeless.get(path)
    assert answer.status_code == 503
    assert "A service is away" in answer.text
    assert "Try again" in answer.text
    assert "secret" not in answer.text


async def test_pages_that_need_no_database_are_there_without_one(homeless: httpx.AsyncClient) -> None:
    for path in ("/teams", "/submit"):
        assert (await homeless.get(path)).status_code == 200
