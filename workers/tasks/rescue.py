"""The rescue as a task, called by beat."""

from __future__ import annotations

from workers.celery_app import app
from workers.enqueue import queued_messages, send, send_seat
from workers.queues import Queue, TaskName
from workers.stages.rescue import rescue
from workers.wiring import runtime

#: How many times longer a pending message may be under way while the queue is not empty.
BACKLOG_PATIENCE = 10


@app.task(name=TaskName.RESCUE.value)
def rescue_lost_work() -> None:
    config = runtime().settings
    # Behind a long queue an old message is late, not lost: sending it again would only lengthen the queue.
    waiting = any(queued_messages(app, queue) for queue in (Queue.LLM, Queue.SANDBOX))
    patience = BACKLOG_PATIENCE if waiting else 1
    found = rescue(
        runtime().context,
        pending_seconds=config.pending_seconds * patience,
        stalled_seconds=config.stalled_seconds,
        max_rescues=config.max_rescues,
    )
    for key in found.seats:
        send_seat(app, key.run_id, key.round, key.stage, key.seat)
    for following in found.following:
        send(app, following)
