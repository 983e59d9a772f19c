"""The rescue as a task, called by beat."""

from __future__ import annotations

from workers.celery_app import app
from workers.enqueue import send, send_seat
from workers.queues import TaskName
from workers.settings import settings
from workers.stages.rescue import rescue
from workers.wiring import runtime


@app.task(name=TaskName.RESCUE.value)
def rescue_lost_work() -> None:
    config = settings()
    found = rescue(
        runtime().context,
        pending_seconds=config.pending_seconds,
        stalled_seconds=config.stalled_seconds,
        max_rescues=config.max_rescues,
    )
    for key in found.seats:
        send_seat(app, key.run_id, key.round, key.stage, key.seat)
    for following in found.following:
        send(app, following)
