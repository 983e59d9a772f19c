"""The rescue as a task, called by beat."""

from __future__ import annotations

from workers.celery_app import app
from workers.enqueue import send, send_seat, send_sweep, stages_in_line
from workers.provenance.repository import batch_control, runs
from workers.queues import TaskName
from workers.stages.rescue import rescue
from workers.wiring import runtime

#: How many times longer a pending message may be under way while others of its kind wait in the queue.
BACKLOG_PATIENCE = 10


@app.task(name=TaskName.RESCUE.value, send_events=False)
def rescue_lost_work() -> None:
    context, config = runtime().context, runtime().settings
    found = rescue(
        context,
        pending_seconds=config.pending_seconds,
        late_seconds=config.pending_seconds * BACKLOG_PATIENCE,
        # Behind a long queue an old message is late, not lost: sending it again would only lengthen the queue.
        in_line=stages_in_line(app),
        stalled_seconds=config.stalled_seconds,
        max_rescues=config.max_rescues,
    )
    with context.database.begin() as connection:
        in_batches = runs.of_batches(connection, {key.run_id for key in found.seats})
        unswept = batch_control.unswept(connection)
    for key in found.seats:
        is_batch = key.run_id in in_batches
        send_seat(app, key.run_id, key.round, key.stage, key.seat, is_batch=is_batch)
    for following in found.following:
        send(app, following)
    for batch_id in unswept:
        send_sweep(app, batch_id)
