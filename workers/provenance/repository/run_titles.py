"""The first words of specs, for lists of runs: read in the database, so that no list fetches anybody's files."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import Connection, bindparam, text

#: Taking a submission apart costs time in proportion; one above this size is listed by its id alone.
MOST_BYTES = 128 * 1024
_LETTERS = 240

_TITLES = text(
    """
    SELECT runs.run_id, left(convert_from(payloads.body, 'UTF8')::json ->> 'spec', :letters) AS spec
    FROM runs JOIN payloads ON payloads.digest = runs.input_digest
    WHERE runs.run_id IN :run_ids AND payloads.body IS NOT NULL AND payloads.size_bytes <= :most
    """
).bindparams(bindparam("run_ids", expanding=True))


def of_runs(connection: Connection, run_ids: Sequence[str]) -> dict[str, str]:
    """The first line of each run's spec; nothing for one that is redacted or too large."""
    if not run_ids:
        return {}
    rows = connection.execute(_TITLES, {"run_ids": list(run_ids), "letters": _LETTERS, "most": MOST_BYTES})
    return {row.run_id: first_line(row.spec or "") for row in rows}


def first_line(spec: str) -> str:
    """The first line of a spec that says something, without the marks of a heading."""
    lines = (line.strip().lstrip("#").strip() for line in spec.splitlines())
    return next((line for line in lines if line), "")
