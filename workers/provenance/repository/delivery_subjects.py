"""What a webhook is told of a run or a batch: ids, counts and money, never a word that a model or a user wrote."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

from sqlalchemy import ColumnElement, Connection, Row, Subquery, func, select, true

from workers.core.run import Outcome, RunState
from workers.provenance.models import batches, calls, payloads, runs
from workers.provenance.repository.usage import usd_number


def _used(*whose: ColumnElement[bool]) -> Subquery:
    """What some calls come to, as one row."""
    return (
        select(
            func.count().label("calls"),
            func.coalesce(func.sum(calls.c.input_tokens), 0).label("input_tokens"),
            func.coalesce(func.sum(calls.c.output_tokens), 0).label("output_tokens"),
            func.sum(calls.c.cost_usd).label("cost_usd"),
        )
        .where(*whose)
        .subquery("used")
    )


def _used_data(row: Row[Any]) -> dict[str, Any]:
    return {
        "calls": row.calls,
        "input_tokens": int(row.input_tokens),
        "output_tokens": int(row.output_tokens),
        "cost_usd": usd_number(row.cost_usd),
    }


def run_subject(connection: Connection, run_id: str) -> dict[str, Any]:
    """A run that has ended, as plain data. Raises: ValueError for a verdict that somebody spoilt."""
    used = _used(calls.c.run_id == run_id)
    row = connection.execute(
        select(runs, payloads.c.body, used)
        .select_from(runs)
        .join(used, true())
        .outerjoin(payloads, payloads.c.digest == runs.c.verdict_digest)
        .where(runs.c.run_id == run_id)
    ).one()
    # Without a body the verdict was redacted, or the run was cancelled and has none.
    verdict = {} if row.body is None else json.loads(row.body)
    claims = verdict.get("claims", [])
    return {
        "run_id": run_id,
        "external_id": row.external_id,
        "batch_id": row.batch_id,
        "team": row.team,
        "state": row.state,
        "outcome": row.outcome,
        "reasons": sorted({reason["code"] for reason in verdict.get("reasons", [])}),
        "rounds": row.round,
        "claims": len(claims),
        "standing_claims": sum(bool(claim["stands"]) for claim in claims),
        "simulated": row.is_simulated,
        **_used_data(row),
        "finished_at": None if row.finished_at is None else row.finished_at.isoformat(),
        "path": f"/v1/runs/{run_id}",
    }


def batch_subject(connection: Connection, batch_id: str) -> dict[str, Any]:
    """A batch as it stands, as plain data."""
    row = connection.execute(select(batches).where(batches.c.batch_id == batch_id)).one()
    counted: Counter[str] = Counter()
    is_simulated = False
    for group in connection.execute(
        select(
            runs.c.state,
            runs.c.outcome,
            func.count().label("number"),
            func.bool_or(runs.c.is_simulated).label("is_simulated"),
        )
        .where(runs.c.batch_id == batch_id)
        .group_by(runs.c.state, runs.c.outcome)
    ):
        counted[group.outcome or group.state] += group.number
        is_simulated = is_simulated or group.is_simulated
    of_batch = select(runs.c.run_id).where(runs.c.batch_id == batch_id)
    used = connection.execute(select(_used(calls.c.run_id.in_(of_batch)))).one()
    return {
        "batch_id": batch_id,
        "name": row.name,
        "state": row.state,
        "pause_cause": row.pause_cause,
        "runs": row.run_count,
        "waiting": counted[RunState.QUEUED],
        "running": counted[RunState.RUNNING],
        **{outcome.value: counted[outcome] for outcome in Outcome},
        "cancelled": counted[RunState.CANCELLED],
        "duplicates": row.duplicate_count,
        "skipped": row.skipped_count,
        "simulated": is_simulated,
        **_used_data(used),
        "finished_at": None if row.finished_at is None else row.finished_at.isoformat(),
        "path": f"/v1/batches/{batch_id}",
        "results_path": f"/v1/batches/{batch_id}/results",
    }
