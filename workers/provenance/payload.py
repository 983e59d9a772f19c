"""Content-addressed bodies: written once under their digest, whoever writes them again."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, select, text
from sqlalchemy.dialects.postgresql import insert

from workers.errors import NotFoundError
from workers.provenance.digest import canonical, digest
from workers.provenance.models import payloads, redactions


def store(connection: Connection, value: Any) -> str:
    """Write a JSON value and return its digest."""
    return store_all(connection, [value])[0]


def store_all(connection: Connection, values: Iterable[Any]) -> list[str]:
    """Write JSON values in one statement and return their digests, in order."""
    bodies = [canonical(value) for value in values]
    rows = {digest(body): body for body in bodies}
    if rows:
        connection.execute(
            insert(payloads).on_conflict_do_nothing(),
            # Sorted, so that two transactions that write the same bodies cannot lock each other out.
            [{"digest": key, "body": rows[key], "size_bytes": len(rows[key])} for key in sorted(rows)],
        )
    return [digest(body) for body in bodies]


_STORE = text(
    """
    INSERT INTO payloads (digest, body, size_bytes)
    SELECT digest, body, octet_length(body)
    FROM unnest(CAST(:digests AS text[]), CAST(:bodies AS bytea[])) AS given (digest, body)
    ORDER BY digest
    ON CONFLICT DO NOTHING
    """
)


def store_bodies(connection: Connection, bodies: Mapping[str, bytes]) -> None:
    """Write many bodies, canonical and by their digests, in one statement."""
    # In the order of their digests, for the same reason as above.
    connection.execute(_STORE, {"digests": list(bodies), "bodies": list(bodies.values())})


def load(connection: Connection, key: str, *, run_id: str | None = None) -> Any:
    """The JSON value under a digest, as the run (if one is named) shows it.

    Raises: NotFoundError if it was never written or is redacted.
    """
    if run_id is not None and hidden(connection, [run_id]) & {(run_id, key)}:
        raise NotFoundError(f"payload {key[:12]}… was redacted in run {run_id}")
    return load_all(connection, [key])[key]


def hidden(connection: Connection, run_ids: Sequence[str]) -> set[tuple[str, str]]:
    """(run, digest) of the payloads that runs show no more, though others may still hold them."""
    rows = connection.execute(
        select(redactions.c.run_id, redactions.c.digest).where(redactions.c.run_id.in_(run_ids))
    )
    return {(row.run_id, row.digest) for row in rows}


def load_all(connection: Connection, keys: Iterable[str]) -> dict[str, Any]:
    """The JSON values under some digests. Raises: NotFoundError for the first that is not there."""
    wanted = set(keys)
    if not wanted:
        return {}
    rows = connection.execute(
        select(payloads.c.digest, payloads.c.body).where(payloads.c.digest.in_(sorted(wanted)))
    )
    found = {row.digest: json.loads(row.body) for row in rows if row.body is not None}
    for key in sorted(wanted - found.keys()):
        raise NotFoundError(f"payload {key[:12]}… is not in the database (redacted?)")
    return found
