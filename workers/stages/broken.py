"""The last resort: a run that a fault of ours keeps from going on ends degraded, with the code there is."""

from __future__ import annotations

from collections.abc import Sequence

import structlog

from workers.core.run import Outcome, RunState, SeatState, Stage
from workers.core.verdict import Coverage, Reason, Verdict
from workers.errors import ConsensusError
from workers.provenance import ledger
from workers.provenance.repository import budgets, call_records, calls, runs, stages
from workers.provenance.repository.stages import SeatRow
from workers.provenance.repository.usage import run_spending
from workers.stages.context import Context

log = structlog.get_logger(__name__)


def break_off(context: Context, run_id: str, error: Exception) -> Verdict | None:
    """End the run with the reason `internal_error`; None if it has ended already.

    For what trying again cannot mend: a team that this version refuses, material that was redacted under a run
    at work, a fault in the verdict itself. The log has the traceback, the ledger the sentence.
    Raises: UnavailableError.
    """
    log.error("run.broke", run=run_id, error=type(error).__name__, exc_info=error)
    detail = str(error) if isinstance(error, ConsensusError) else type(error).__name__
    with context.database.begin() as connection, ledger.writer(connection, run_id) as entries:
        if entries.state in {RunState.FINISHED, RunState.CANCELLED}:
            return None
        budgets.hold_batch(connection, entries.batch_id)
        runs.start(connection, run_id)
        stages.close_open(connection, run_id, cause="internal_error", detail=detail)
        verdict = broken_verdict(stages.rows_of(connection, run_id, entries.round), detail)
        calls.orphan_run(connection, run_id)
        budgets.charge_batch(connection, [run_id])
        ending = {**verdict.as_data(), "spending": run_spending(connection, run_id)}
        call_records.seal(connection, entries, at=context.now())
        verdict_digest = entries.append("run.finished", ending, at=context.now())
        runs.finish(connection, run_id, outcome=verdict.outcome, verdict_digest=verdict_digest)
        return verdict


def broken_verdict(rows: Sequence[SeatRow], detail: str) -> Verdict:
    """What such a run concludes, from the rows of its last round."""
    panel = [row for row in rows if row.key.stage is Stage.PANEL]
    written = [row.result["files"] for row in rows if row.key.stage is Stage.CODER and row.result]
    return Verdict(
        outcome=Outcome.DEGRADED,
        reasons=(Reason(code="internal_error", cause="internal_error", detail=detail),),
        claims=(),
        coverage=Coverage(
            valid_reviews=sum(row.state is SeatState.DONE for row in panel),
            panel_size=len(panel),
            abstained=(),
            unsupported_findings=0,
            ungated_claims=(),
        ),
        notes=(),
        files=written[0] if written else {},
        signed_by_lead=False,
    )
