"""Browsers that have shown a key: a row each, so that a key that is revoked ends them too."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import Connection, delete, insert, select

from workers.errors import KeyRefusedError
from workers.key_text import secret_digest
from workers.provenance.access_models import api_keys, web_sessions
from workers.provenance.repository.api_keys import ApiKey, admission_columns, admit


def begin(
    connection: Connection, token: str, key_id: str, *, at: dt.datetime, expires_at: dt.datetime
) -> None:
    """Keep a session by the digest of its token, and forget those that are over."""
    connection.execute(delete(web_sessions).where(web_sessions.c.expires_at <= at))
    connection.execute(
        insert(web_sessions).values(
            session_digest=secret_digest(token), key_id=key_id, created_at=at, expires_at=expires_at
        )
    )


def use(connection: Connection, token: str, *, at: dt.datetime) -> ApiKey:
    """The key behind a session. Raises: KeyRefusedError; TooManyRequestsError."""
    row = connection.execute(
        select(*admission_columns())
        .select_from(web_sessions.join(api_keys))
        .where(web_sessions.c.session_digest == secret_digest(token), web_sessions.c.expires_at > at)
    ).one_or_none()
    if row is None:
        raise KeyRefusedError("the session is over")
    return admit(connection, row, at=at)


def end(connection: Connection, token: str) -> None:
    """Safe to repeat."""
    connection.execute(delete(web_sessions).where(web_sessions.c.session_digest == secret_digest(token)))
