"""HEAD, and methods that an address does not take."""

from __future__ import annotations

import httpx
import pytest

from tests.api.problem_documents import problem
from tests.api.streams import LiveServer
from tests.integration.stored_runs import store_run
from workers.provenance.session import Database

A_PAGE = {"Accept": "text/html,application/xhtml+xml"}


@pytest.mark.parametrize(
    "path", ["/healthz", "/readyz", "/v1/runs", "/v1/teams", "/", "/submit", "/docs", "/openapi.json"]
)
async def test_head_answers_as_get_does_without_the_body(client: httpx.AsyncClient, path: str) -> None:
    seen, told = await client.get(path), await client.head(path)
    assert told.status_code == seen.status_code == 200
    assert told.content == b""
    varying = {"date", "x-request-id", "etag"}
    assert {name: value for name, value in told.headers.items() if name not in varying} == {
        name: value for name, value in seen.headers.items() if name not in varying
    }


async def test_head_of_what_is_not_there_is_not_there(client: httpx.AsyncClient) -> None:
    for path in ("/v1/runs/run_none", "/nothing"):
        told = await client.head(path)
        assert (told.status_code, told.content) == (404, b"")


async def test_a_browser_is_told_so_on_a_page(client: httpx.AsyncClient) -> None:
    refused = await client.request("POST", "/teams", headers=A_PAGE)
    assert refused.status_code == 405
    assert refused.headers["Content-Type"].startswith("text/html")
    assert refused.headers["Allow"] == "GET, HEAD"
    assert "POST is not possible on /teams" in refused.text
    problem(await client.request("POST", "/teams"), 405)


def test_head_of_a_stream_ends_at_once_and_leaves_nobody_watching(
    database: Database, live: LiveServer
) -> None:
    store_run(database)
    told = httpx.head(f"{live.url}/v1/runs/run_1/events", timeout=15)
    assert (told.status_code, told.content) == (200, b"")
    assert told.headers["Content-Type"].startswith("text/event-stream")
    live.hub.wait_until_watched_by(0)
