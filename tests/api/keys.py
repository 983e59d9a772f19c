"""Keys, and the application as it is served beyond this machine."""

from __future__ import annotations

import dataclasses
import datetime as dt
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from fastapi import FastAPI

from api.app import create_app
from api.dependencies import Services
from workers.core.access import Scope
from workers.key_text import KEY_CHANCE_BYTES, KeyText, make_key
from workers.provenance.repository import api_keys
from workers.provenance.repository.api_keys import NewKey
from workers.provenance.session import Database

#: An address of another machine (RFC 5737).
ELSEWHERE = ("192.0.2.7", 4711)


def made() -> KeyText:
    return make_key(secrets.token_bytes(KEY_CHANCE_BYTES))


def any_key() -> str:
    """A key that nobody keeps."""
    return made().text


def stored_key(
    database: Database,
    scope: Scope = Scope.READ,
    *,
    tenant: str = "default",
    expires_at: dt.datetime | None = None,
    per_minute: int | None = None,
    name: str = "a test",
) -> str:
    """A key that is kept, as its holder has it."""
    key = made()
    new = NewKey(
        name=name,
        scope=scope,
        tenant_id=tenant,
        expires_at=expires_at,
        requests_per_minute=per_minute,
    )
    with database.begin() as connection:
        api_keys.create(connection, new, key, at=dt.datetime.now(dt.UTC))
    return key.text


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def guarded(app: FastAPI, **changes: object) -> FastAPI:
    """The same application, which serves nobody without a key."""
    services: Services = app.state.services
    return create_app(dataclasses.replace(services, **{"needs_key": True, **changes}))  # type: ignore[arg-type]


@asynccontextmanager
async def calling(
    app: FastAPI,
    *,
    client: tuple[str, int] = ELSEWHERE,
    url: str = "http://api",
    headers: dict[str, str] | None = None,
) -> AsyncIterator[httpx.AsyncClient]:
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False, client=client)
    async with httpx.AsyncClient(transport=transport, base_url=url, headers=headers) as opened:
        yield opened
