"""The end of a run: gather what every stage left, decide, and close. No model is asked here."""

from __future__ import annotations

from structlog.contextvars import bound_contextvars

from workers import tracing
from workers.core.run import Finish, RunState, next_step
from workers.core.verdict import Verdict, decide
from workers.errors import UnavailableError
from workers.provenance import ledger
from workers.provenance.repository import budgets, calls, records, runs, stages
from workers.provenance.repository.usage import run_spending
from workers.stages.broken import break_off
from workers.stages.case import case_of
from workers.stages.context import Context
from workers.stages.seat import team_of
from workers.stages.seating import seats_of
from workers.stages.track_record import earned_in


def finish_run(context: Context, run_id: str) -> Verdict | None:
    """Close a run whose stages have all ended; None if it has ended already or is not there yet."""
    with bound_contextvars(run=run_id):
        try:
            verdict = _finish(context, run_id)
        except UnavailableError:
            raise
        except Exception as error:  # noqa: BLE001 - a fault of ours must not keep the run open
            verdict = break_off(context, run_id, error)
        if verdict is not None and tracing.is_on():
            _trace(context, run_id)
        return verdict


def _trace(context: Context, run_id: str) -> None:
    with context.database.begin() as connection:
        run = runs.get(connection, run_id)
    tracing.run_ended(
        run_id,
        team=run.team,
        state=run.outcome or run.state,
        began_at=run.started_at or run.created_at,
        ended_at=run.finished_at or context.now(),
    )


def _finish(context: Context, run_id: str) -> Verdict | None:
    with context.database.begin() as connection, ledger.writer(connection, run_id) as entries:
        if entries.state in {RunState.FINISHED, RunState.CANCELLED}:
            return None
        team = team_of(connection, entries.team_digest)
        step = next_step(
            stages.seated(connection, run_id, entries.round),
            seats_of(connection, entries, team),
        )
        if not isinstance(step, Finish):
            return None
        rounds = [stages.rows_of(connection, run_id, number) for number in range(1, entries.round + 1)]
        verdict = decide(case_of(team, rounds))
        # As late as it can be: all other runs of a batch with a budget wait for its row until this is committed.
        budgets.hold_batch(connection, entries.batch_id)
        calls.orphan_run(connection, run_id)
        budgets.charge_batch(connection, [run_id])
        ending = {**verdict.as_data(), "spending": run_spending(connection, run_id)}
        verdict_digest = entries.append("run.finished", ending, at=context.now())
        runs.finish(connection, run_id, outcome=verdict.outcome, verdict_digest=verdict_digest)
        records.keep(connection, run_id, earned_in(rounds))
        return verdict
