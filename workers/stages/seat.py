"""The life of one seat's work, whatever the stage: claim, work, settle, and open what comes next.

A stage that is delivered twice writes once: the claim refuses a row that is done or held by a live owner, and
settling refuses an owner who lost it. The last seat of a stage to settle opens the next one in the same
transaction, under the run's lock, so exactly one worker does it and a crash leaves nothing half done."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import structlog
from sqlalchemy import Connection
from structlog.contextvars import bound_contextvars

from workers import tracing
from workers.core.budget import Amount, Budget, Refusal
from workers.core.run import (
    GIVE_UP,
    Close,
    Enqueue,
    Finish,
    Next,
    Open,
    RunState,
    SeatState,
    Stage,
    Wait,
    next_step,
)
from workers.core.team import EquippedTeam, SeatAt, Team
from workers.errors import ConsensusError, SlotTimeoutError, UnavailableError
from workers.governor.base import Lane
from workers.provenance import ledger, payload
from workers.provenance.repository import batch_control, budgets, calls, runs, stages
from workers.provenance.repository.stages import Progress, SeatKey
from workers.provenance.repository.usage import seat_spending, usd_number
from workers.providers.usage import usage_scope
from workers.stages.broken import break_off
from workers.stages.context import Context, Material, RunCancelledError
from workers.stages.patience import patiently
from workers.stages.recorded_call import BudgetExhaustedError
from workers.stages.rounds import open_another
from workers.stages.seating import Results, place_of, results_of, seats_of
from workers.stages.walk import SeatFailedError

log = structlog.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """One claimed seat with all it needs to read."""

    context: Context
    key: SeatKey
    place: SeatAt
    progress: Progress
    lane: Lane
    team: EquippedTeam
    material: Material
    #: Results of the run's terminal seats so far, by (stage, seat); failed and abstained seats have none.
    results: Results
    #: Results of the round before, empty in the first.
    previous: Results = dataclasses.field(default_factory=dict)


#: A stage's own work: returns the kind of the ledger's event and the result, which is also its payload.
Do = Callable[[Work], tuple[str, dict[str, Any]]]


def run_seat(context: Context, key: SeatKey, do: Do) -> Next:
    """Do a seat's work once and say what to enqueue. Never raises for what a model or provider did.

    Raises: UnavailableError when the database is away; the seat's lease then runs out and it is rescued.
    """
    # Whatever is logged on the way, in other modules and in the loop's thread too, says whose work it is.
    with bound_contextvars(run=key.run_id, stage=key.stage.value, seat=key.seat, round=key.round):
        work = _begin(context, key)
        if work is None:
            return None
        # Until it is settled: a lease is kept as long as the database may have to be waited for.
        context.at_work.add(key)
        try:
            with tracing.seat(key.run_id, round_=key.round, stage=key.stage.value, name=key.seat):
                return _do(context, key, do, work)
        finally:
            context.at_work.discard(key)


def _do(context: Context, key: SeatKey, do: Do, work: Work) -> Next:
    try:
        with usage_scope() as used:
            kind, result = do(work)
    except RunCancelledError:
        log.info("seat.cancelled")
        tracing.note(consensus__seat__end="cancelled")
        return None
    except SlotTimeoutError as error:
        log.info("seat.deferred", wait_seconds=round(error.wait_seconds, 1))
        tracing.note(consensus__seat__end="deferred")
        deferred = error
        patiently(context, lambda: _defer(context, key, deferred))
        return None
    except BudgetExhaustedError as error:
        exhausted = error
        return patiently(context, lambda: _out_of_budget(context, key, exhausted))
    except SeatFailedError as error:
        log.warning("seat.gave_up", cause=error.cause, detail=error.detail)
        end = _End(cause=error.cause, detail=error.detail)
    except UnavailableError:
        raise
    except Exception as error:
        # Our own fault must not leave the run waiting: it ends degraded, and the log has the traceback.
        log.exception("seat.broke")
        detail = str(error) if isinstance(error, ConsensusError) else type(error).__name__
        end = _End(cause="internal_error", detail=detail)
    else:
        tracing.note(consensus__seat__end="done")
        log.info("seat.done", calls=used.calls, tokens=used.total.input_tokens + used.total.output_tokens)
        return patiently(context, lambda: _settle(context, key, kind, result))
    tracing.note(consensus__seat__end="gave_up", error__type=end.cause)
    return patiently(context, lambda: _give_up(context, key, end))


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """Why a seat gives up."""

    cause: str
    detail: str
    refusal: Refusal | None = None


def _defer(context: Context, key: SeatKey, error: SlotTimeoutError) -> None:
    """Give the work back until the provider has room; the ledger says why nothing seems to happen."""
    with context.database.begin() as connection, ledger.writer(connection, key.run_id) as entries:
        is_deferred = stages.defer(
            connection,
            key,
            owner=context.owner,
            wait_seconds=error.wait_seconds,
            is_counted=not error.is_held,
        )
        if is_deferred:
            waiting = {"stage": key.stage, "seat": key.seat, "wait_seconds": round(error.wait_seconds, 1)}
            entries.append("seat.deferred", {**waiting, "detail": str(error)}, at=context.now())


def _out_of_budget(context: Context, key: SeatKey, error: BudgetExhaustedError) -> Next:
    if error.refusal.scope == budgets.BATCH:
        log.info("seat.held", detail=error.detail)
        _hold(context, key, error.refusal)
        return None
    log.warning("seat.gave_up", cause=error.cause, detail=error.detail)
    return _give_up(context, key, _End(cause=error.cause, detail=error.detail, refusal=error.refusal))


#: How long a seat stays away that would fit into its batch's budget if calls under way had ended.
BUDGET_WAIT_SECONDS = 5.0


def _hold(context: Context, key: SeatKey, refusal: Refusal) -> None:
    """The batch's budget has no room: the seat waits, for calls under way to give back what they do not use, or for a
    larger budget. The batch pauses then, and nothing of it ends degraded for want of money."""
    with context.database.begin() as connection, ledger.writer(connection, key.run_id) as entries:
        wait_seconds: float | None = BUDGET_WAIT_SECONDS
        if not refusal.is_for_now and entries.batch_id is not None:
            is_over = batch_control.exhaust(connection, entries.batch_id, refusal.account.budget)
            wait_seconds = None if is_over else 0.0
        if stages.defer(connection, key, owner=context.owner, wait_seconds=wait_seconds, is_counted=False):
            entries.append("seat.held", _refusal_data(key, refusal), at=context.now())


def advance(context: Context, run_id: str) -> Next:
    """Open whatever the run needs next, if every seat of its stage has ended; otherwise nothing.

    The chord's body, the rescue and a new run's first message all come here; once, twice or late is all one.
    """
    with (
        bound_contextvars(run=run_id),
        context.database.begin() as connection,
        ledger.writer(connection, run_id) as entries,
    ):
        return open_next(context, connection, entries)


def open_next(context: Context, connection: Connection, entries: ledger.Writer) -> Next:
    """`advance` inside the caller's transaction and lock."""
    if entries.state in {RunState.FINISHED, RunState.CANCELLED}:
        return None
    team = team_of(connection, entries.team_digest)
    step = next_step(
        stages.seated(connection, entries.run_id, entries.round),
        seats_of(connection, entries, team),
    )
    if isinstance(step, Wait):
        return None
    if isinstance(step, Finish) and open_another(context, connection, entries, team):
        step = Open(stage=Stage.CODER, seats=team.seat_names(Stage.CODER))
    if isinstance(step, Finish):
        return Close(run_id=entries.run_id, priority=entries.priority, is_batch=entries.batch_id is not None)
    return _open(context, connection, entries, step, team)


def _open(
    context: Context,
    connection: Connection,
    entries: ledger.Writer,
    step: Open,
    team: Team,
) -> Next:
    if entries.state is RunState.QUEUED:
        runs.start(connection, entries.run_id)
        entries.append("run.started", {"team": team.name}, at=context.now())
    opened = stages.open_seats(
        connection,
        [
            SeatKey(run_id=entries.run_id, round=entries.round, stage=step.stage, seat=seat)
            for seat in step.seats
        ],
    )
    seats = tuple(key.seat for key in opened)
    entries.append("stage.opened", {"stage": step.stage, "seats": list(seats)}, at=context.now())
    return Enqueue(
        run_id=entries.run_id,
        round=entries.round,
        stage=step.stage,
        seats=seats,
        priority=entries.priority,
        is_batch=entries.batch_id is not None,
    )


def _begin(context: Context, key: SeatKey) -> Work | None:
    """The claimed work, None when there is none to do; a run whose seat cannot even be read is broken off."""
    try:
        return _claim(context, key)
    except UnavailableError:
        raise
    except Exception as error:  # noqa: BLE001 - no delivery of this seat could ever begin
        break_off(context, key.run_id, error)
        return None


def _claim(context: Context, key: SeatKey) -> Work | None:
    with context.database.begin() as connection:
        progress = stages.claim(connection, key, owner=context.owner, lease_seconds=context.lease_seconds)
        if progress is None:
            return None
        if progress.deliveries > 1:
            calls.orphan_seats(connection, [key])
        order = runs.order_of(connection, key.run_id)
        rows = [row for row in stages.rows_of(connection, key.run_id, key.round) if row.key != key]
        team = team_of(connection, order.team_digest)
        previous = stages.rows_of(connection, key.run_id, key.round - 1) if key.round > 1 else []
    results = results_of(rows)
    return Work(
        context=context,
        key=key,
        place=place_of(team, key.stage, key.seat, results),
        progress=progress,
        lane=Lane.BATCH if order.is_batch else Lane.INTERACTIVE,
        team=team,
        material=Material.of(order.material),
        results=results,
        previous=results_of(previous),
    )


def _settle(context: Context, key: SeatKey, kind: str, result: dict[str, Any]) -> Next:
    with context.database.begin() as connection, ledger.writer(connection, key.run_id) as entries:
        result = {**result, "usage": seat_spending(connection, key)}
        is_ours = stages.settle(
            connection,
            key,
            owner=context.owner,
            state=SeatState.DONE,
            result_digest=entries.append(kind, result, at=context.now()),
        )
        if not is_ours:
            entries.pending.clear()
            return None
        return open_next(context, connection, entries)


def _give_up(context: Context, key: SeatKey, end: _End) -> Next:
    with context.database.begin() as connection, ledger.writer(connection, key.run_id) as entries:
        is_ours = stages.settle(
            connection, key, owner=context.owner, state=GIVE_UP[key.stage], cause=end.cause, detail=end.detail
        )
        if not is_ours:
            return None
        if end.refusal is not None:
            entries.append("budget.exhausted", _refusal_data(key, end.refusal), at=context.now())
        record_give_up(context, connection, entries, key, cause=end.cause, detail=end.detail)
        return open_next(context, connection, entries)


def _refusal_data(key: SeatKey, refusal: Refusal) -> dict[str, Any]:
    """What did not fit into which budget, in the budget's unit."""
    account = refusal.account

    def shown(part: Amount | Budget) -> float | int | None:
        return usd_number(part.usd) if refusal.unit == "usd" else part.tokens

    return {
        "stage": key.stage,
        "seat": key.seat,
        "scope": refusal.scope,
        "unit": refusal.unit,
        "budget": shown(account.budget),
        "spent": shown(account.spent),
        "reserved": shown(account.reserved),
        "lead_share": shown(account.lead_share),
        "wanted": shown(refusal.wanted),
    }


#: Teams by digest: what stands under a digest never changes, and every seat of every run needs its team.
_teams: dict[str, EquippedTeam] = {}
_MAX_TEAMS = 256


def team_of(connection: Connection, digest: str) -> EquippedTeam:
    """The team a run was submitted with, whatever its file says today."""
    team = _teams.get(digest)
    if team is None:
        team = EquippedTeam.model_validate(payload.load(connection, digest))
        if len(_teams) >= _MAX_TEAMS:
            _teams.clear()
        _teams[digest] = team
    return team


def record_give_up(
    context: Context,
    connection: Connection,
    entries: ledger.Writer,
    key: SeatKey,
    *,
    cause: str,
    detail: str,
) -> None:
    """The ledger's event of a seat that gave up: a reviewer abstains, another stage fails."""
    kind = "review.abstained" if key.stage is Stage.PANEL else f"{key.stage}.failed"
    usage = seat_spending(connection, key)
    entries.append(
        kind, {"seat": key.seat, "cause": cause, "detail": detail, "usage": usage}, at=context.now()
    )
