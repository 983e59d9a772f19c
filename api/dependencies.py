"""What endpoints are given."""

from __future__ import annotations

import dataclasses
import datetime as dt
import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, cast

from anyio import CapacityLimiter
from fastapi import Depends, Header, Query, Request

from api.live import Hub
from workers.core.budget import PriceOf, no_prices
from workers.core.identity import make_id
from workers.core.scoring import PartKey
from workers.errors import InputError
from workers.governor.base import Limits, Snapshot
from workers.inspection.inspector import Inspector
from workers.provenance.session import Database
from workers.provenance.signing import Signer
from workers.providers.registry import ProviderConfig
from workers.queues import Queue
from workers.webhooks.policy import WebhookPolicy

#: Spec, files and tests together; each has its own, smaller limit too.
MAX_BODY_BYTES = 16 * 1024 * 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """What the API holds open. `submit` sends a run's first message; `broker_problem` says why it could not;
    `enabled` gives the providers that are on, for estimates."""

    database: Database
    hub: Hub
    submit: Callable[[str], None]
    broker_problem: Callable[[], str | None]
    team_folders: tuple[Path, ...] = ()
    enabled: Callable[[], Mapping[str, ProviderConfig]] = dict
    price_of: PriceOf = no_prices
    #: The most of one batch: bytes of its body, unpacked, and lines.
    max_batch_bytes: int = 1024**3
    max_batch_runs: int = 100_000
    #: Lets the next runs of batches go; ends the runs of a cancelled batch.
    dispatch: Callable[[], None] = lambda: None
    sweep: Callable[[str], None] = lambda _: None
    #: Batches that are checked and written at once; each takes a thread and a connection for as long as that lasts, and
    #: there have to be some left for everybody else.
    batch_submissions: CapacityLimiter = dataclasses.field(default_factory=lambda: CapacityLimiter(4))
    #: How the governor's buckets with these keys and limits stand; nothing while Redis is away.
    snapshots: Callable[[Mapping[str, Limits]], Mapping[str, Snapshot]] = lambda _: {}
    #: Seals exports; None: they are unsigned.
    signer: Signer | None = None
    webhooks: WebhookPolicy = dataclasses.field(default_factory=WebhookPolicy)
    #: Sends a part of a scoring.
    send_part: Callable[[PartKey], None] = lambda _: None
    #: Messages by queue, None while the broker is away; and who may read metrics from elsewhere.
    queue_depths: Callable[[], Mapping[Queue, int] | None] = lambda: None
    metrics_token: str | None = None
    #: Whether nobody is served without a key; else only this machine is, `checks_host`: under its own name.
    needs_key: bool = False
    checks_host: bool = False
    max_upload_bytes: int = 1 << 30
    max_trajectory_bytes: int = 256 << 20


def services(request: Request) -> Services:
    return cast(Services, request.app.state.services)


def inspector(request: Request) -> Inspector:
    """One a process: it keeps what was opened last."""
    return cast(Inspector, request.app.state.inspector)


def tenant(request: Request) -> str:
    """Whose runs these are: the guard before all routes knows it."""
    return str(request.state.principal.tenant_id)


def now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


def new_run_id() -> str:
    return make_id("run", now(), secrets.token_bytes(10))


def new_batch_id() -> str:
    return make_id("batch", now(), secrets.token_bytes(10))


def idempotency_key(
    key: Annotated[str | None, Header(alias="Idempotency-Key", description="repeat a POST safely")] = None,
) -> str | None:
    """Raises: InputError for a key that is empty, too long or not printable."""
    if key is None:
        return None
    if not 1 <= len(key) <= 200 or not key.isprintable():
        raise InputError("Idempotency-Key must have 1 to 200 printable characters")
    return key


#: The largest number of a row that PostgreSQL's integers hold.
MOST_ROWS = 2**31 - 1

#: What follows the kind in an id.
_ID_DIGITS = "[0-9a-hjkmnp-tv-z]{26}"

Cursor = Annotated[str | None, Query(description="`next_cursor` of the page before")]


def cursor(cursor: Cursor = None) -> str | None:
    """Raises: InputError for a cursor that no page of runs gave."""
    return _checked_cursor("run", cursor)


def batch_cursor(cursor: Cursor = None) -> str | None:
    """Raises: InputError for a cursor that no page of batches gave."""
    return _checked_cursor("batch", cursor)


def _checked_cursor(kind: str, cursor: str | None) -> str | None:
    if cursor is not None and not re.fullmatch(f"{kind}_{_ID_DIGITS}", cursor):
        raise InputError(
            f"the cursor {cursor[:40]!r} is not the next_cursor of a page; leave it out for the first page"
        )
    return cursor


def _cursor_of(prefix: str) -> Callable[[str | None], str | None]:
    """A check of the cursors of pages whose last rows have ids with this prefix."""
    pattern = re.compile(rf"{prefix}_[0-9a-hjkmnp-tv-z]{{26}}")

    def checked(
        cursor: Annotated[str | None, Query(description="`next_cursor` of the page before")] = None,
    ) -> str | None:
        if cursor is not None and not pattern.fullmatch(cursor):
            raise InputError(
                f"the cursor {cursor[:40]!r} is not the next_cursor of a page; leave it out for the first page"
            )
        return cursor

    return checked


TrajectoryCursorHere = Annotated[str | None, Depends(_cursor_of("traj"))]
ScoringCursorHere = Annotated[str | None, Depends(_cursor_of("scoring"))]

InspectorHere = Annotated[Inspector, Depends(inspector)]
ServicesHere = Annotated[Services, Depends(services)]
TenantHere = Annotated[str, Depends(tenant)]
CursorHere = Annotated[str | None, Depends(cursor)]
BatchCursorHere = Annotated[str | None, Depends(batch_cursor)]
KeyHere = Annotated[str | None, Depends(idempotency_key)]
