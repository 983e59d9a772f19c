"""`POST /v1/batches/{id}/pause`, `/resume` and `/cancel`."""

from __future__ import annotations

import dataclasses
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import insert

from api.app import create_app
from tests.integration.stored_batches import set_batch, store_batch
from workers.core.batch import BatchState
from workers.provenance.models import provider_states
from workers.provenance.session import Database
from workers.providers.registry import enabled


@pytest.fixture
def sent() -> list[str]:
    """What was sent to the broker."""
    return []


@pytest.fixture
async def operator(app: FastAPI, sent: list[str]) -> AsyncIterator[httpx.AsyncClient]:
    services = dataclasses.replace(
        app.state.services,
        dispatch=lambda: sent.append("dispatch"),
        sweep=lambda batch_id: sent.append(f"sweep {batch_id}"),
        enabled=lambda: enabled({"OPENAI_API_KEY": "k"}),
    )
    transport = httpx.ASGITransport(app=create_app(services), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://api/v1/batches") as opened:
        yield opened


async def shown(operator: httpx.AsyncClient, command: str, **request: Any) -> dict[str, Any]:
    answer = await operator.post(f"/batch_1/{command}", **request)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


async def test_a_batch_is_paused_goes_on_and_is_cancelled(
    operator: httpx.AsyncClient, database: Database, sent: list[str]
) -> None:
    store_batch(database, count=2)
    paused = await shown(operator, "pause")
    assert (paused["state"], paused["pause_cause"], paused["progress"]["waiting"]) == ("paused", "user", 2)
    assert sent == []
    resumed = await shown(operator, "resume")
    assert (resumed["state"], resumed["pause_cause"]) == ("running", None)
    assert sent == ["dispatch"]
    for _ in range(2):
        assert (await shown(operator, "cancel"))["state"] == "cancelled"
    assert sent == ["dispatch", "sweep batch_1"]


async def test_a_batch_without_money_asks_for_a_larger_budget(
    operator: httpx.AsyncClient, database: Database
) -> None:
    store_batch(database, budget_usd=Decimal(5))
    set_batch(database, state=BatchState.PAUSED, pause_cause="budget")
    refused = await operator.post("/batch_1/resume")
    assert refused.status_code == 409
    assert refused.json()["detail"] == (
        "batch batch_1 has used up its budget of 5 USD; resume it with a larger one"
    )
    refused = await operator.post("/batch_1/resume", json={"budget_usd": 4.5})
    assert (
        refused.json()["detail"] == "budget_usd is 4.5, but the batch has 5 USD already; give more than that"
    )
    assert (await shown(operator, "resume", json={"budget_usd": 7.5}))["budget_usd"] == 7.5


@pytest.mark.parametrize(
    ("body", "field"),
    [({"budget_usd": 0}, "budget_usd"), ({"budget_usd": True}, "budget_usd"), ({"budget": 5}, "budget")],
)
async def test_a_budget_that_is_none_is_refused(
    body: dict[str, Any], field: str, operator: httpx.AsyncClient, database: Database
) -> None:
    store_batch(database)
    refused = await operator.post("/batch_1/resume", json=body)
    assert refused.status_code == 422
    assert field in refused.json()["detail"]


@pytest.mark.parametrize("command", ["pause", "resume", "cancel"])
@pytest.mark.parametrize("batch_id", ["batch_2", "batch%00"])
async def test_an_unknown_batch_is_not_found(
    command: str, batch_id: str, operator: httpx.AsyncClient, database: Database
) -> None:
    store_batch(database)
    refused = await operator.post(f"/{batch_id}/{command}")
    assert refused.status_code == 404


@pytest.mark.parametrize(("command", "done"), [("pause", "paused"), ("resume", "resumed")])
async def test_an_ended_batch_is_neither_paused_nor_resumed(
    command: str, done: str, operator: httpx.AsyncClient, database: Database
) -> None:
    store_batch(database, state=BatchState.FINISHED)
    refused = await operator.post(f"/batch_1/{command}")
    assert (refused.status_code, refused.json()["detail"]) == (
        409,
        f"batch batch_1 is finished; only one that is not over can be {done}",
    )


@pytest.mark.parametrize(("state", "waiting"), [("quota", "providers"), ("good", None), ("low", None)])
async def test_a_batch_says_that_it_waits_for_providers(
    state: str, waiting: str | None, operator: httpx.AsyncClient, database: Database
) -> None:
    store_batch(database)
    (config,) = enabled({"OPENAI_API_KEY": "k"}).values()
    with database.begin() as connection:
        until = connection.exec_driver_sql("SELECT now() + interval '10 minutes'").scalar_one()
        connection.execute(
            insert(provider_states).values(
                provider="openai", key_digest=config.key_digest, state=state, until=until
            )
        )
    assert (await operator.get("/batch_1")).json()["waiting"] == waiting
    assert (await shown(operator, "pause"))["waiting"] is None
