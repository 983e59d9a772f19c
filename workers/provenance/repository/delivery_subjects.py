"""What a webhook is told of a run or a batch: ids, counts and money, never a word that a model or a user wrote."""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import Any

from sqlalchemy import Connection, func, select

from workers.core.run import Outcome, RunState
from workers.errors import NotFoundError
from workers.provenance import payload
from workers.provenance.models import batches, calls, runs
from workers.provenance.repository.usage import usage_of, usd_number


def run_subject(connection: Connection, run_id: str) -> dict[str, Any]:
    """A run that has ended, as plain data."""
    row = connection.execute(select(runs).where(runs.c.run_id == run_id)).one()
    used = usage_of(connection, run_id)
    verdict: dict[str, Any] = {}
    if row.verdict_digest is not None:
        with contextlib.suppress(NotFoundError):
            verdict = payload.load(connection, row.verdict_digest)
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
        "calls": used.calls,
        "input_tokens": used.input_tokens,
        "output_tokens": used.output_tokens,
        "cost_usd": usd_number(used.cost_usd),
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
    used = connection.execute(
        select(
            func.count(calls.c.call_id).label("calls"),
            func.coalesce(func.sum(calls.c.input_tokens), 0).label("input_tokens"),
            func.coalesce(func.sum(calls.c.output_tokens), 0).label("output_tokens"),
            func.sum(calls.c.cost_usd).label("cost_usd"),
        )
        .join(runs, runs.c.run_id == calls.c.run_id)
        .where(runs.c.batch_id == batch_id)
    ).one()
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
        "calls": used.calls,
        "input_tokens": int(used.input_tokens),
        "output_tokens": int(used.output_tokens),
        "cost_usd": usd_number(used.cost_usd),
        "finished_at": None if row.finished_at is None else row.finished_at.isoformat(),
        "path": f"/v1/batches/{batch_id}",
        "results_path": f"/v1/batches/{batch_id}/results",
    }
