"""`webhook_url` of a run, and what is shown of its delivery."""

from __future__ import annotations

import dataclasses
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from tests.integration.stored_runs import AT, finish
from tests.integration.stored_webhooks import noted
from workers.core.webhook import Answer
from workers.provenance.repository import deliveries
from workers.provenance.session import Database
from workers.webhooks.policy import WebhookPolicy

URL = "https://receiver.example/hook/path-secret"


@pytest.fixture
def app(app: FastAPI) -> FastAPI:
    """With a secret, and without leave for private addresses."""
    app.state.services = dataclasses.replace(app.state.services, webhooks=WebhookPolicy(has_secret=True))
    return app


async def submit(client: httpx.AsyncClient, **fields: Any) -> httpx.Response:
    return await client.post("/v1/runs", json={"spec": "Write slugify(text).", **fields})


async def test_a_run_shows_how_far_its_webhook_has_come(
    client: httpx.AsyncClient, database: Database
) -> None:
    run_id = (await submit(client, webhook_url=URL)).json()["id"]
    shown = (await client.get(f"/v1/runs/{run_id}")).json()
    assert shown["webhook"] is None

    finish(database, run_id)
    shown = (await client.get(f"/v1/runs/{run_id}")).json()
    assert shown["webhook"]["event"] == "run.finished"
    assert (shown["webhook"]["state"], shown["webhook"]["attempts"]) == ("pending", 0)

    with database.begin() as connection:
        (taken,) = deliveries.take_due(connection, most=1, most_per_receiver=1, lease_seconds=30)
        deliveries.record(
            connection, taken, Answer(status=404, problem="answered 404"), wait_seconds=None, at=AT
        )
    answer = await client.get(f"/v1/runs/{run_id}")
    assert answer.json()["webhook"] == {
        "event": "run.finished",
        "state": "failed",
        "attempts": 1,
        "last_status": 404,
        "last_error": "answered 404",
        "next_at": None,
        "ended_at": "2026-01-02T03:04:05.678901Z",
    }
    assert "path-secret" not in answer.text


async def test_a_cancelled_run_is_to_be_told_as_cancelled(
    client: httpx.AsyncClient, database: Database
) -> None:
    run_id = (await submit(client, webhook_url=URL)).json()["id"]

    shown = (await client.post(f"/v1/runs/{run_id}/cancel")).json()

    assert shown["webhook"]["event"] == "run.cancelled"
    assert [row.url for row in noted(database)] == [URL]


async def test_without_a_webhook_nothing_is_shown(client: httpx.AsyncClient, database: Database) -> None:
    run_id = (await submit(client)).json()["id"]
    finish(database, run_id)
    assert (await client.get(f"/v1/runs/{run_id}")).json()["webhook"] is None


@pytest.mark.parametrize(
    ("url", "detail"),
    [
        (
            "http://10.0.0.1/path-secret",
            "webhook_url leads into a closed network: 10.0.0.1 is a private address; "
            "the operator of this installation can allow that with CONSENSUS_WEBHOOK_ALLOW_PRIVATE=1",
        ),
        ("http://0x7f.1/path-secret", "webhook_url spells its host '0x7f.1' as a number"),
        ("https://user:word@receiver.example/", "webhook_url holds a user name or password"),
        ("gopher://receiver.example/path-secret", "webhook_url must look like https://host/path"),
        ("https://receiver.example/\u0000", "webhook_url holds spaces"),
    ],
)
async def test_a_url_that_cannot_be_used_is_one_sentence(
    client: httpx.AsyncClient, database: Database, url: str, detail: str
) -> None:
    answer = await submit(client, webhook_url=url)
    assert answer.status_code == 422
    assert answer.json()["detail"].startswith(detail)
    assert "path-secret" not in answer.text
    assert "word" not in answer.json()["detail"].replace("password", "")


@pytest.mark.parametrize("url", ["", "https://receiver.example/" + "x" * 2000, 7])
async def test_a_url_of_no_or_excessive_length_or_no_text_is_refused(
    client: httpx.AsyncClient, url: Any
) -> None:
    answer = await submit(client, webhook_url=url)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "webhook_url"


async def test_without_a_secret_a_webhook_is_refused_and_nothing_is_stored(
    app: FastAPI, client: httpx.AsyncClient, database: Database
) -> None:
    app.state.services = dataclasses.replace(app.state.services, webhooks=WebhookPolicy())
    answer = await submit(client, webhook_url=URL)
    assert answer.status_code == 422
    assert "CONSENSUS_WEBHOOK_SECRET" in answer.json()["detail"]
    assert (await client.get("/v1/runs")).json()["runs"] == []


async def test_the_same_key_with_another_webhook_is_another_request(client: httpx.AsyncClient) -> None:
    async def keyed(**fields: Any) -> int:
        body = {"spec": "Write slugify(text).", **fields}
        return (await client.post("/v1/runs", json=body, headers={"Idempotency-Key": "k"})).status_code

    assert [await keyed(webhook_url=URL), await keyed(webhook_url=URL), await keyed()] == [202, 200, 422]


async def test_a_batch_and_its_lines_may_each_have_a_webhook(
    client: httpx.AsyncClient, database: Database
) -> None:
    line = {"spec": "Write slugify(text).", "webhook_url": f"{URL}/of-the-line"}
    body = {"specs": [line, {"spec": "Write roman(n)."}], "webhook_url": URL}
    batch_id = (await client.post("/v1/batches", json=body)).json()["id"]
    found = (await client.get("/v1/runs", params={"batch": batch_id})).json()["runs"]
    for run in found:
        finish(database, run["id"])

    cancelled = await client.post(f"/v1/batches/{batch_id}/cancel")
    shown = (await client.get(f"/v1/batches/{batch_id}")).json()

    assert [told["event"] for told in shown["webhooks"]] == ["batch.cancelled"]
    assert sorted((row.url, row.event) for row in noted(database)) == [
        (URL, "batch.cancelled"),
        (f"{URL}/of-the-line", "run.finished"),
    ]
    assert "path-secret" not in cancelled.text


async def test_a_line_with_a_webhook_that_is_refused_is_a_bad_line(
    client: httpx.AsyncClient, database: Database
) -> None:
    lines = '{"spec": "a"}\n{"spec": "b", "webhook_url": "http://10.0.0.1/path-secret"}\n'
    answer = await client.post("/v1/batches", content=lines, headers={"Content-Type": "application/jsonl"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "line 2"
    assert "webhook_url leads into a closed network" in answer.json()["errors"][0]["message"]
    assert "path-secret" not in answer.text
