"""Limits that an operator has set; they hold instead of what the provider is known to allow."""

from __future__ import annotations

from sqlalchemy import Connection, delete, func, select
from sqlalchemy.dialects.postgresql import insert

from workers.governor.base import Limits
from workers.governor.limit_book import LimitsSet
from workers.provenance.models import limits

#: The columns, which are the fields of `Limits` that can be set.
NAMES = (
    "requests_per_minute",
    "input_tokens_per_minute",
    "output_tokens_per_minute",
    "requests_per_day",
    "concurrency",
)


def all_set(connection: Connection) -> list[LimitsSet]:
    """Everything that is set, by provider and family."""
    rows = connection.execute(select(limits).order_by(limits.c.provider, limits.c.family)).mappings()
    return [
        LimitsSet(
            provider=row["provider"],
            family=row["family"],
            limits=Limits(**{name: row[name] for name in NAMES}),
        )
        for row in rows
    ]


def put(connection: Connection, entry: LimitsSet) -> None:
    """Set all limits of a provider's family at once; None there means no such limit."""
    values = {name: getattr(entry.limits, name) for name in NAMES}
    insertion = insert(limits).values(provider=entry.provider, family=entry.family, **values)
    connection.execute(
        insertion.on_conflict_do_update(
            index_elements=[limits.c.provider, limits.c.family], set_={**values, "updated_at": func.now()}
        )
    )


def reset(connection: Connection, provider: str, family: str) -> bool:
    """Back to the default. False if nothing was set."""
    gone = connection.execute(delete(limits).where(limits.c.provider == provider, limits.c.family == family))
    return gone.rowcount > 0
