"""What endpoints are given."""

from __future__ import annotations

import dataclasses
import datetime as dt
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, cast

from fastapi import Depends, Header, Request

from api.live import Hub
from workers.core.identity import make_id
from workers.errors import InputError
from workers.provenance.models import DEFAULT_TENANT
from workers.provenance.session import Database


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What the API holds open. `submit` sends a run's first message; `broker_problem` says why it could not."""

    database: Database
    hub: Hub
    submit: Callable[[str], None]
    broker_problem: Callable[[], str | None]
    team_folders: tuple[Path, ...] = ()


def services(request: Request) -> Services:
    return cast(Services, request.app.state.services)


def tenant() -> str:
    """Whose runs these are."""
    return DEFAULT_TENANT


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def new_run_id() -> str:
    return make_id("run", now(), secrets.token_bytes(10))


def idempotency_key(
    key: Annotated[str | None, Header(alias="Idempotency-Key", description="repeat a POST safely")] = None,
) -> str | None:
    """Raises: InputError for a key that is empty, too long or not printable."""
    if key is None:
        return None
    if not 1 <= len(key) <= 200 or not key.isprintable():
        raise InputError("Idempotency-Key must have 1 to 200 printable characters")
    return key


ServicesHere = Annotated[Services, Depends(services)]
TenantHere = Annotated[str, Depends(tenant)]
KeyHere = Annotated[str | None, Depends(idempotency_key)]
