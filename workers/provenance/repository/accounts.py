"""What workers tell each other about accounts: one row an account, the newest word stands."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterable
from typing import Any

from sqlalchemy import Connection, case, func, select
from sqlalchemy.dialects.postgresql import insert

from workers.governor.accounts import AccountState
from workers.governor.breaker import Health
from workers.provenance.digest import keepable
from workers.provenance.models import provider_states


def publish(connection: Connection, states: Iterable[AccountState]) -> None:
    """Write what has changed. `since` stays where only reason or time did."""
    for state in states:
        values = {
            "state": state.state,
            "reason": keepable(state.reason),
            "until": func.now() + dt.timedelta(seconds=state.seconds_left)
            if state.seconds_left > 0
            else None,
            "updated_at": func.clock_timestamp(),
        }
        insertion = insert(provider_states).values(
            provider=state.provider, key_digest=state.key_digest, **values
        )
        connection.execute(
            insertion.on_conflict_do_update(
                index_elements=[provider_states.c.provider, provider_states.c.key_digest],
                set_={
                    **values,
                    "since": case(
                        (provider_states.c.state == state.state, provider_states.c.since), else_=func.now()
                    ),
                },
            )
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """A state and when it was told; `since`: when the account came into it; `until`: when it ends by itself."""

    state: AccountState
    since: dt.datetime
    until: dt.datetime | None
    updated_at: dt.datetime


def published(connection: Connection) -> list[Published]:
    """The last word on every account, the oldest first. Low-quota mode whose time is over counts as good: nobody
    has to say so for it to end.

    All of them every time: a reader that asked for what is newer than its last look would miss a word that was
    written before that look and committed after it.
    """
    query = select(
        provider_states,
        func.coalesce(func.extract("epoch", provider_states.c.until - func.clock_timestamp()), 0).label(
            "left"
        ),
    ).order_by(provider_states.c.updated_at)
    return [_published(row) for row in connection.execute(query)]


def _published(row: Any) -> Published:
    is_over = row.state == Health.LOW and row.left <= 0
    return Published(
        state=AccountState(
            provider=row.provider,
            key_digest=row.key_digest,
            state=Health.GOOD if is_over else row.state,
            reason="" if is_over else row.reason or "",
            seconds_left=max(0.0, float(row.left)),
        ),
        since=row.until if is_over else row.since,
        until=None if is_over else row.until,
        updated_at=row.updated_at,
    )
