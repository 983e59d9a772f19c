"""Pages of other sites."""

from __future__ import annotations

import httpx
import pytest

from tests.integration.stored_runs import run_of, store_run
from workers.provenance.session import Database

OURS = [
    {},
    {"sec-fetch-site": "same-origin", "origin": "http://api"},
    {"sec-fetch-site": "none"},
    {"origin": "http://api"},
    {"origin": "https://consensus.example", "x-forwarded-host": "consensus.example"},
]
FOREIGN = [
    {"sec-fetch-site": "cross-site", "origin": "https://evil.example"},
    {"sec-fetch-site": "same-site", "origin": "http://other.api"},
    {"origin": "https://evil.example"},
    {"origin": "http://api:8001"},
    {"origin": "null"},
    {"origin": ""},
]


@pytest.mark.parametrize("headers", FOREIGN)
async def test_a_foreign_page_can_neither_submit_nor_cancel(
    client: httpx.AsyncClient, database: Database, headers: dict[str, str]
) -> None:
    store_run(database)
    lines = {"content": '{"spec": "x"}', "headers": {**headers, "content-type": "text/plain"}}
    for answer in (
        await client.post("/v1/batches", **lines),
        await client.post("/v1/runs/run_1/cancel", headers=headers),
    ):
        assert answer.status_code == 403
        assert answer.json()["detail"] == "a page of another site may not do this here"
    assert run_of(database).state == "queued"


@pytest.mark.parametrize("headers", OURS)
async def test_our_pages_and_programs_may(
    client: httpx.AsyncClient, database: Database, headers: dict[str, str]
) -> None:
    store_run(database)
    assert (await client.post("/v1/runs/run_1/cancel", headers=headers)).status_code == 200


async def test_links_from_elsewhere_lead_here(client: httpx.AsyncClient) -> None:
    assert (await client.get("/runs", headers={"sec-fetch-site": "cross-site"})).status_code == 200
