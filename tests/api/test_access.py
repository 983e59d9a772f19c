"""Keys at the API: who gets in, what they may do, and how often."""

from __future__ import annotations

import dataclasses
import datetime as dt
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest
from fastapi import FastAPI

from api.app import create_app
from api.dependencies import Services
from tests.api.test_runs_read import an_id
from tests.integration.stored_runs import store_run
from workers.core.access import KEY_CHANCE_BYTES, Scope, make_key
from workers.provenance.repository import api_keys
from workers.provenance.repository.api_keys import NewKey
from workers.provenance.session import Database

NOW = dt.datetime.now(dt.UTC)
DAY = dt.timedelta(days=1)


def new_key(
    database: Database,
    scope: Scope = Scope.READ,
    *,
    tenant: str = "default",
    expires_at: dt.datetime | None = None,
    per_minute: int | None = None,
) -> str:
    """A key that is kept, as its holder has it."""
    made = make_key(secrets.token_bytes(KEY_CHANCE_BYTES))
    new = NewKey(
        name="a test",
        scope=scope,
        tenant_id=tenant,
        expires_at=expires_at,
        requests_per_minute=per_minute,
    )
    with database.begin() as connection:
        api_keys.create(connection, new, made, at=NOW - DAY)
    return made.text


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


@pytest.fixture
def guarded(app: FastAPI) -> FastAPI:
    """The application as it is served beyond this machine."""
    services: Services = app.state.services
    return create_app(dataclasses.replace(services, needs_key=True))


@asynccontextmanager
async def calling(
    app: FastAPI, *, client: tuple[str, int] = ("192.0.2.7", 4711), url: str = "http://api"
) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False, client=client)
    async with httpx.AsyncClient(transport=transport, base_url=url) as opened:
        yield opened


async def test_without_a_key_there_is_health_and_nothing_else(guarded: FastAPI) -> None:
    async with calling(guarded) as client:
        assert (await client.get("/healthz")).status_code == 200
        answer = await client.get("/v1/runs")
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.json()["detail"].startswith("send an API key as `Authorization: Bearer")


async def test_a_key_opens_its_tenants_runs(guarded: FastAPI, database: Database) -> None:
    store_run(database, an_id(1), tenant_id="acme")
    store_run(database, an_id(2), tenant_id="other")
    async with calling(guarded) as client:
        listed = await client.get("/v1/runs", headers=bearer(new_key(database, tenant="acme")))
        foreign = await client.get(
            f"/v1/runs/{an_id(1)}", headers=bearer(new_key(database, tenant="other"))
        )
    assert [run["id"] for run in listed.json()["runs"]] == [an_id(1)]
    assert foreign.status_code == 404
