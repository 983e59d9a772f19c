"""How models' findings ended at the gate: written with the end of a run, read when a panel is counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlalchemy import Connection, text

from workers.core.weights import Record

#: A record is of a model's newest submissions, so many at most: reading it costs the same after a million runs,
#: and what a model's name stood for long ago fades.
NEWEST_SUBMISSIONS = 200

#: The same submission again teaches nothing new: who could try until a test falls out well would make records.
_KEEP = text(
    """
    INSERT INTO gate_records (tenant_id, model, input_digest, run_id, upheld, refuted)
    SELECT tenant_id, :model, input_digest, run_id, :upheld, :refuted FROM runs WHERE run_id = :run_id
    ON CONFLICT DO NOTHING
    """
)

_READ = text(
    """
    SELECT wanted.model, sum(newest.upheld) AS upheld, sum(newest.refuted) AS refuted
    FROM runs
    CROSS JOIN unnest(CAST(:models AS text[])) AS wanted (model)
    CROSS JOIN LATERAL (
        SELECT upheld, refuted FROM gate_records
        WHERE gate_records.tenant_id = runs.tenant_id AND gate_records.model = wanted.model
        ORDER BY gate_records.ended_at DESC
        LIMIT :newest
    ) AS newest
    WHERE runs.run_id = :run_id
    GROUP BY wanted.model
    """
)


def keep(connection: Connection, run_id: str, records: Mapping[str, Record]) -> None:
    """What a run that ends says of models, for its own tenant; in the transaction that ends it."""
    rows = [
        {"run_id": run_id, "model": model, "upheld": record.upheld, "refuted": record.refuted}
        # In one order: two runs of the same submission that end at once must not wait for each other.
        for model, record in sorted(records.items())
    ]
    if rows:
        connection.execute(_KEEP, rows)


def read(connection: Connection, run_id: str, models: Iterable[str]) -> dict[str, Record]:
    """By model: its record with the run's tenant. Models without one are left out."""
    wanted = {"run_id": run_id, "models": sorted(set(models)), "newest": NEWEST_SUBMISSIONS}
    return {
        row.model: Record(upheld=int(row.upheld), refuted=int(row.refuted))
        for row in connection.execute(_READ, wanted)
    }
