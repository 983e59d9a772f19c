"""Keys: made, listed, revoked, replaced, and looked up at every request."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hmac
from typing import Any

from sqlalchemy import Connection, func, literal, select, update
from sqlalchemy.dialects.postgresql import insert

from workers.core.access import Scope
from workers.errors import KeyRefusedError, NotFoundError, StateError, TooManyRequestsError
from workers.key_text import KeyText
from workers.provenance.access_models import api_keys
from workers.provenance.models import tenants

_MINUTE = dt.timedelta(minutes=1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewKey:
    """`requests_per_minute`: so many at once and so many a minute; None: no such limit."""

    name: str
    scope: Scope
    tenant_id: str
    expires_at: dt.datetime | None = None
    requests_per_minute: int | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ApiKey:
    """A key as it stands. `last_used_at` is true to the minute."""

    key_id: str
    name: str
    scope: Scope
    tenant_id: str
    requests_per_minute: int | None
    created_at: dt.datetime
    expires_at: dt.datetime | None
    revoked_at: dt.datetime | None
    last_used_at: dt.datetime | None
    replaced_by: str | None

    def state(self, at: dt.datetime) -> str:
        """usable, revoked or expired."""
        if self.revoked_at is not None and self.revoked_at <= at:
            return "revoked"
        return "expired" if self.expires_at is not None and self.expires_at <= at else "usable"


_COLUMNS = [api_keys.c[field.name] for field in dataclasses.fields(ApiKey)]


def create(connection: Connection, new: NewKey, key: KeyText, *, at: dt.datetime) -> ApiKey:
    """Keep a new key, and its tenant if that is new too."""
    connection.execute(
        insert(tenants).values(tenant_id=new.tenant_id, name=new.tenant_id).on_conflict_do_nothing()
    )
    row = connection.execute(
        insert(api_keys)
        .values(**dataclasses.asdict(new), key_id=key.key_id, secret_digest=key.digest, created_at=at)
        .returning(*_COLUMNS)
    ).one()
    return _of(row)


def listed(connection: Connection) -> list[ApiKey]:
    """All, the oldest first."""
    return [_of(row) for row in connection.execute(select(*_COLUMNS).order_by(api_keys.c.created_at))]


def is_any_usable(connection: Connection, *, at: dt.datetime) -> bool:
    """Whether anybody could come in."""
    return any(key.state(at) == "usable" for key in listed(connection))


def revoke(connection: Connection, key_id: str, *, at: dt.datetime) -> ApiKey:
    """From now on it opens nothing; one that was revoked before stays as it was. Raises: NotFoundError."""
    found = _get(connection, key_id)
    if found.revoked_at is not None:
        return found
    connection.execute(update(api_keys).where(api_keys.c.key_id == key_id).values(revoked_at=at))
    return _get(connection, key_id)


def rotate(
    connection: Connection, key_id: str, key: KeyText, *, at: dt.datetime, grace: dt.timedelta
) -> tuple[ApiKey, ApiKey]:
    """(old, new): a new key with the rights, and the span of life, of an old one, which goes on for `grace`.

    Raises: NotFoundError; StateError for a key that opens nothing any more, or was replaced already.
    """
    old = _get(connection, key_id)
    if old.replaced_by is not None:
        raise StateError(f"{key_id} was replaced by {old.replaced_by}; rotate that one")
    if (state := old.state(at)) != "usable":
        raise StateError(f"{key_id} is {state}; make a new one with `consensus keys create`")
    life = None if old.expires_at is None else old.expires_at - old.created_at
    new = create(
        connection,
        NewKey(
            name=old.name,
            scope=old.scope,
            tenant_id=old.tenant_id,
            expires_at=None if life is None else at + life,
            requests_per_minute=old.requests_per_minute,
        ),
        key,
        at=at,
    )
    last = at + grace
    connection.execute(
        update(api_keys)
        .where(api_keys.c.key_id == key_id)
        .values(
            replaced_by=new.key_id,
            expires_at=last if old.expires_at is None else min(last, old.expires_at),
        )
    )
    return _get(connection, key_id), new


def use(connection: Connection, key: KeyText, *, at: dt.datetime) -> ApiKey:
    """Who a request is from. Raises: KeyRefusedError; TooManyRequestsError."""
    row = connection.execute(
        select(*_COLUMNS, api_keys.c.secret_digest, api_keys.c.paid_until).where(
            api_keys.c.key_id == key.key_id
        )
    ).one_or_none()
    if row is None or not hmac.compare_digest(row.secret_digest, key.digest):
        raise KeyRefusedError("this key is not known here")
    return admit(connection, row, at=at)


def admit(connection: Connection, row: Any, *, at: dt.datetime) -> ApiKey:
    """The key of a row with `_COLUMNS` and `paid_until`, if it holds. Raises: KeyRefusedError; TooManyRequestsError."""
    found = _of(row)
    if (state := found.state(at)) != "usable":
        raise KeyRefusedError(f"the key {found.key_id} is {state}")
    if found.requests_per_minute is not None:
        _pay(connection, found.key_id, found.requests_per_minute, row.paid_until, at=at)
    elif found.last_used_at is None or at - found.last_used_at >= _MINUTE:
        connection.execute(update(api_keys).where(api_keys.c.key_id == found.key_id).values(last_used_at=at))
    return found


def _pay(
    connection: Connection, key_id: str, per_minute: int, paid_until: dt.datetime | None, *, at: dt.datetime
) -> None:
    """One request's share of a minute, which may be at most a minute ahead (the generic cell rate algorithm, ITU-T
    I.371). It is one row, so the limit is that of all processes together. Raises: TooManyRequestsError."""
    share = _MINUTE / per_minute
    now = literal(at, api_keys.c.paid_until.type)
    # GREATEST passes over a null.
    paid = func.greatest(api_keys.c.paid_until, now) + share
    changed = connection.execute(
        update(api_keys)
        .where(api_keys.c.key_id == key_id, paid <= now + _MINUTE)
        .values(paid_until=paid, last_used_at=at)
    )
    if changed.rowcount:
        return
    wait = max(paid_until or at, at) + share - at - _MINUTE
    raise TooManyRequestsError(
        f"the key {key_id} may send {per_minute:,} requests a minute, and has",
        retry_after_seconds=max(wait, dt.timedelta(0)).total_seconds(),
    )


def admission_columns() -> list[Any]:
    """What `admit` needs of a row."""
    return [*_COLUMNS, api_keys.c.paid_until]


def _get(connection: Connection, key_id: str) -> ApiKey:
    """The key, locked until the transaction ends."""
    row = connection.execute(
        select(*_COLUMNS).where(api_keys.c.key_id == key_id).with_for_update()
    ).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no key {key_id[:40]!r}; `consensus keys list` shows them all")
    return _of(row)


def _of(row: Any) -> ApiKey:
    values = {field.name: getattr(row, field.name) for field in dataclasses.fields(ApiKey)}
    return ApiKey(**{**values, "scope": Scope(row.scope)})
