"""A scoring's tasks. The work itself is imported when it is done: workers that only wait for models load no NumPy."""

from __future__ import annotations

from workers.celery_app import app
from workers.core.scoring import PartKey, ScoringStage
from workers.enqueue import queued_messages, send_parts
from workers.queues import Queue, TaskName
from workers.scoring.nights import start_due
from workers.scoring.parts import advance, rescue, run_part
from workers.scoring_runtime import scoring_context
from workers.settings import settings
from workers.tasks.rescue import BACKLOG_PATIENCE


@app.task(name=TaskName.SCORE.value)
def score(scoring_id: str, stage: str, number: int) -> None:
    from workers.scoring.work import WORK

    key = PartKey(scoring_id=scoring_id, stage=ScoringStage(stage), number=number)
    send_parts(app, run_part(scoring_context(), key, WORK))


@app.task(name=TaskName.SCORE_ADVANCE.value)
def score_advance(scoring_id: str) -> None:
    send_parts(app, advance(scoring_context(), scoring_id))


@app.task(name=TaskName.SCORE_TEND.value, send_events=False)
def tend_scorings() -> None:
    """Send again what was lost, and start the nights that are due."""
    config, context = settings(), scoring_context()
    patience = BACKLOG_PATIENCE if queued_messages(app, Queue.SCORING) else 1
    found = rescue(
        context,
        pending_seconds=config.pending_seconds * patience,
        stalled_seconds=config.stalled_seconds,
        max_rescues=config.max_rescues,
    )
    send_parts(app, found)
    send_parts(app, start_due(context, config.schedules))
