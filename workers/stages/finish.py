"""The end of a run: gather what every stage left, decide, and close. No model is asked here."""

from __future__ import annotations

from typing import Any

from workers.core.artefact import Span
from workers.core.consensus import tally
from workers.core.finding import Abstention
from workers.core.run import Finish, RunState, SeatState, Stage, next_step
from workers.core.slices import LeftOut
from workers.core.team import Team
from workers.core.verdict import Case, Ruling, StageFailure, Verdict, decide, judged_alarms
from workers.errors import UnavailableError
from workers.provenance import ledger
from workers.provenance.repository import calls, runs, stages
from workers.provenance.repository.stages import SeatRow
from workers.provenance.repository.usage import run_spending
from workers.stages.broken import break_off
from workers.stages.consensus import reviews_of, tally_of
from workers.stages.context import Context
from workers.stages.seat import team_of
from workers.stages.shown import hidden_from
from workers.stages.triage import triaged


def finish_run(context: Context, run_id: str) -> Verdict | None:
    """Close a run whose stages have all ended; None if it has ended already or is not there yet."""
    try:
        return _finish(context, run_id)
    except UnavailableError:
        raise
    except Exception as error:  # noqa: BLE001 - a fault of ours must not keep the run open
        return break_off(context, run_id, error)


def _finish(context: Context, run_id: str) -> Verdict | None:
    with context.database.begin() as connection, ledger.writer(connection, run_id) as entries:
        if entries.state in {RunState.FINISHED, RunState.CANCELLED}:
            return None
        if not isinstance(next_step(stages.seated(connection, run_id, entries.round)), Finish):
            return None
        rows = stages.rows_of(connection, run_id, entries.round)
        verdict = decide(case_of(team_of(connection, entries.team_digest), rows))
        calls.orphan_run(connection, run_id)
        ending = {**verdict.as_data(), "spending": run_spending(connection, run_id)}
        verdict_digest = entries.append("run.finished", ending, at=context.now())
        runs.finish(connection, run_id, outcome=verdict.outcome, verdict_digest=verdict_digest)
        return verdict


def case_of(team: Team, rows: list[SeatRow]) -> Case:
    """The verdict's input from a run's rows and their results."""
    results: dict[tuple[Stage, str], Any] = {
        (row.key.stage, row.key.seat): row.result for row in rows if row.result is not None
    }
    reviews = reviews_of(results)
    candidate = results.get((Stage.CODER, "coder"))
    files = candidate["files"] if candidate else {}
    counted = results.get((Stage.CONSENSUS, "consensus"))
    signed = results.get((Stage.LEAD, "lead"))
    return Case(
        policy=team.policy,
        panel_size=len(team.reviewers),
        coder_model=f"{candidate['provider']}/{candidate['model']}"
        if candidate and candidate["model"]
        else None,
        candidate=files,
        signed=signed["files"] if signed else None,
        reviews=reviews,
        abstentions=tuple(
            Abstention(reviewer=row.key.seat, cause=row.cause or "unknown", detail=row.detail or "")
            for row in rows
            if row.state is SeatState.ABSTAINED
        ),
        is_submitted="left_out" in (candidate or {}),
        left_out=tuple(LeftOut(**item) for item in (candidate or {}).get("left_out", ())),
        hidden={
            seat: hidden_from(result) for (stage, seat), result in results.items() if stage is Stage.PANEL
        },
        tally=tally_of(counted) if counted else tally(reviews, files),
        judged=judged_alarms(triaged(results, reviews, team)) if (candidate or {}).get("alarms") else None,
        rulings=tuple(
            Ruling(**{**item, "changed": tuple(Span(**span) for span in item["changed"])})
            for item in (signed["rulings"] if signed else ())
        ),
        failures=tuple(
            StageFailure(stage=row.key.stage, cause=row.cause or "unknown", detail=row.detail or "")
            for row in sorted(rows, key=lambda row: list(Stage).index(row.key.stage))
            if row.state is SeatState.FAILED
        ),
    )
