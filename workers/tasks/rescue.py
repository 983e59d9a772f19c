"""The rescue as a task, called by beat."""

from __future__ import annotations

from workers.celery_app import app
from workers.enqueue import queued_messages, send, send_seat, send_sweep
from workers.provenance.repository import batch_control, runs
from workers.queues import Queue, TaskName
from workers.stages.rescue import rescue
from workers.wiring import runtime

#: How many times longer a pending message may be under way while the queue is not empty.
BACKLOG_PATIENCE = 10


@app.task(name=TaskName.RESCUE.value)
def rescue_lost_work() -> None:
    context, config = runtime().context, runtime().settings
    # Behind a long queue an old message is late, not lost: sending it again would only lengthen the queue.
    waiting = any(queued_messages(app, queue) for queue in (Queue.LLM, Queue.SANDBOX))
    patience = BACKLOG_PATIENCE if waiting else 1
    found = rescue(
        context,
        pending_seconds=config.pending_seconds * patience,
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
