"""Batches as rows, and runs of them that have ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import insert, update

from tests.factories import FILES, make_finding, make_review
from tests.integration.stored_runs import AT, append, finish, store_run
from workers.core.batch import BatchState
from workers.core.consensus import tally
from workers.core.run import Outcome
from workers.core.team import Policy
from workers.core.verdict import Case, decide
from workers.provenance import ledger
from workers.provenance.models import batches as batches_table
from workers.provenance.models import runs as runs_table
from workers.provenance.repository import runs
from workers.provenance.session import Database
from workers.stages.panel import finding_data


def store_batch(
    database: Database, outcomes: Sequence[Outcome | None] = (None,), batch_id: str = "batch_1", **values: Any
) -> list[str]:
    """A batch with a run a line, `run_<batch>_<line>`; those with an outcome have ended. The runs' ids."""
    run_ids = [f"run_{batch_id}_{line}" for line in range(1, len(outcomes) + 1)]
    for run_id in run_ids:
        store_run(database, run_id, external_id=f"x-{run_id}", spec=f"Write {run_id}.")
    with database.begin() as connection:
        connection.execute(
            insert(batches_table).values(
                **{
                    "batch_id": batch_id,
                    "tenant_id": "default",
                    "state": BatchState.RUNNING,
                    "run_count": len(outcomes),
                    "request_digest": batch_id,
                    "started_at": AT,
                    **values,
                }
            )
        )
        for line, run_id in enumerate(run_ids, start=1):
            connection.execute(
                update(runs_table)
                .where(runs_table.c.run_id == run_id)
                .values(batch_id=batch_id, position=line, dispatched_at=None)
            )
    for run_id, outcome in zip(run_ids, outcomes, strict=True):
        if outcome is not None:
            end(database, run_id, outcome)
    return run_ids


def end(database: Database, run_id: str, outcome: Outcome) -> None:
    """The run ends: rejected with a real verdict of one claim, otherwise with the least of a verdict."""
    if outcome is Outcome.REJECTED:
        reject(database, run_id)
    else:
        finish(database, run_id, outcome)


def end_batch(database: Database, batch_id: str = "batch_1", state: BatchState = BatchState.FINISHED) -> None:
    with database.begin() as connection:
        connection.execute(
            update(batches_table)
            .where(batches_table.c.batch_id == batch_id)
            .values(state=state, finished_at=AT)
        )


def reject(database: Database, run_id: str) -> None:
    """End the run as its stages would: the code, two reviews that agree, and the verdict that follows."""
    findings = [make_finding(reviewer=name, cwe=190) for name in ("left", "right")]
    reviews = [make_review(item.reviewer, item) for item in findings]
    case = Case(
        policy=Policy(),
        panel_size=3,
        coder_model="x/y",
        candidate=FILES,
        signed=FILES,
        reviews=reviews,
        abstentions=(),
        tally=tally(reviews, FILES),
    )
    verdict = decide(case)
    assert verdict.outcome is Outcome.REJECTED
    append(database, "candidate.written", {"files": FILES, "simulated": True}, run_id)
    for item in findings:
        append(database, "review.arrived", {"findings": [finding_data(item)]}, run_id)
    with database.begin() as connection, ledger.writer(connection, run_id) as entries:
        runs.start(connection, run_id)
        digest = entries.append("run.finished", verdict.as_data(), at=AT)
        runs.finish(connection, run_id, outcome=verdict.outcome, verdict_digest=digest)
