"""A database that stands still, as on a stopped machine or a full disk: each request ends, with 503 and a sentence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest
from sqlalchemy import text

from api.app import create_app
from api.dependencies import Services
from api.live import Hub
from tests.api.problem_documents import problem
from tests.integration.stored_runs import store_run
from workers.provenance.session import Database

PATIENCE_SECONDS = 0.3


@pytest.fixture
async def patient(database: Database, database_url: str) -> AsyncIterator[tuple[httpx.AsyncClient, Database]]:
    """A client of an API that waits a moment for one statement, and its database, to which it has one connection."""
    store_run(database)
    opened = Database(database_url, pool_size=1, patience_seconds=PATIENCE_SECONDS)
    services = Services(
        database=opened, hub=Hub(database_url), submit=lambda _: None, broker_problem=lambda: None
    )
    transport = httpx.ASGITransport(app=create_app(services), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        yield client, opened
    opened.close()


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/runs"),
        ("GET", "/v1/runs/run_1"),
        ("GET", "/v1/runs/run_1/events"),
        ("GET", "/v1/runs/run_1/provenance"),
        ("POST", "/v1/runs/run_1/cancel"),
        ("POST", "/v1/runs"),
        ("POST", "/v1/batches"),
    ],
)
async def test_what_is_locked_for_ever_is_not_waited_for(
    database: Database, patient: tuple[httpx.AsyncClient, Database], method: str, path: str
) -> None:
    client, _ = patient
    body = {"content": b'{"spec": "a"}'} if path in {"/v1/runs", "/v1/batches"} and method == "POST" else {}
    kind = "application/jsonl" if path == "/v1/batches" else "application/json"
    with database.begin() as holder:
        holder.execute(text("LOCK TABLE runs, batches IN ACCESS EXCLUSIVE MODE"))
        asking = client.request(method, path, headers={"Content-Type": kind}, **body)  # type: ignore[arg-type]
        refused = await asyncio.wait_for(asking, timeout=15)
    assert "the database does not answer: no answer to a statement" in problem(refused, 503)
    assert refused.headers["Retry-After"]


async def test_a_page_says_so_too(database: Database, patient: tuple[httpx.AsyncClient, Database]) -> None:
    client, _ = patient
    with database.begin() as holder:
        holder.execute(text("LOCK TABLE runs IN ACCESS EXCLUSIVE MODE"))
        refused = await asyncio.wait_for(client.get("/runs", headers={"Accept": "text/html"}), timeout=15)
    assert refused.status_code == 503
    assert refused.headers["Content-Type"].startswith("text/html")
