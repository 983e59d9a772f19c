"""The run's tasks, in flow order. Arguments are ids, results are never kept, and none of them raises for what
a model did: a panel is a chord, and one raising header would cost the whole panel its body."""

from __future__ import annotations

from workers.celery_app import app
from workers.core.run import Stage
from workers.enqueue import send
from workers.provenance.repository.stages import SeatKey
from workers.queues import TaskName
from workers.stages import STAGES
from workers.stages.finish import finish_run
from workers.stages.seat import advance, run_seat
from workers.tasks.dispatch import top_up
from workers.wiring import runtime


def _run(stage: Stage, run_id: str, round_: int, seat: str) -> None:
    key = SeatKey(run_id=run_id, round=round_, stage=stage, seat=seat)
    send(app, run_seat(runtime().context, key, STAGES[stage]))


@app.task(name=TaskName.CODER.value)
def coder(run_id: str, round_: int, seat: str) -> None:
    _run(Stage.CODER, run_id, round_, seat)


@app.task(name=TaskName.REVIEW.value)
def review(run_id: str, round_: int, seat: str) -> None:
    _run(Stage.PANEL, run_id, round_, seat)


@app.task(name=TaskName.CONSENSUS.value)
def consensus(run_id: str, round_: int, seat: str) -> None:
    _run(Stage.CONSENSUS, run_id, round_, seat)


@app.task(name=TaskName.REFUTE.value)
def refute(run_id: str, round_: int, seat: str) -> None:
    _run(Stage.REFUTE, run_id, round_, seat)


@app.task(name=TaskName.GATE.value)
def gate(run_id: str, round_: int, seat: str) -> None:
    _run(Stage.GATE, run_id, round_, seat)


@app.task(name=TaskName.LEAD.value)
def lead(run_id: str, round_: int, seat: str) -> None:
    _run(Stage.LEAD, run_id, round_, seat)


@app.task(name=TaskName.FINISH.value)
def finish(run_id: str) -> None:
    finish_run(runtime().context, run_id)
    top_up(run_id)


@app.task(name=TaskName.ADVANCE.value)
def advance_run(run_id: str) -> None:
    send(app, advance(runtime().context, run_id))
