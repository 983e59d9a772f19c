"""Hands work to the broker, always after the rows are committed, by task name and ids only."""

from __future__ import annotations

import structlog
from celery import Celery, Signature, chord
from kombu.exceptions import ChannelError, OperationalError

from workers.core.run import Close, Enqueue, Next, Stage
from workers.queues import Queue, TaskName, message_priority, queue_of

log = structlog.get_logger(__name__)

_TASK_OF = {
    Stage.CODER: TaskName.CODER,
    Stage.PANEL: TaskName.REVIEW,
    Stage.CONSENSUS: TaskName.CONSENSUS,
    Stage.REFUTE: TaskName.REFUTE,
    Stage.GATE: TaskName.GATE,
    Stage.LEAD: TaskName.LEAD,
}


def submit_run(app: Celery, run_id: str, *, is_batch: bool = False) -> None:
    """Set a new run going: its first `advance` opens the coder's seat."""
    _send(_signature(app, TaskName.ADVANCE, run_id, is_batch=is_batch))


def send(app: Celery, following: Next) -> None:
    """Send what a stage left to do.

    The panel goes out as a chord whose body is `advance`. Correctness does not hang on that body, which can run
    twice or never when a worker dies (`reference/celery.md` §3.2): the last reviewer to settle advances the run
    too, and both find the same rows.
    """
    if isinstance(following, Close):
        _send(_signature(app, TaskName.FINISH, following.run_id, is_batch=following.is_batch))
    elif isinstance(following, Enqueue) and following.seats:
        task, is_batch = _TASK_OF[following.stage], following.is_batch
        seats = [
            _signature(app, task, following.run_id, following.round, seat, is_batch=is_batch)
            for seat in following.seats
        ]
        if following.stage is Stage.PANEL:
            body = _signature(app, TaskName.ADVANCE, following.run_id, is_batch=is_batch)
            _send(chord(seats, body, app=app))
        else:
            for signature in seats:
                _send(signature)


def send_seat(
    app: Celery, run_id: str, round_: int, stage: Stage, seat: str, *, is_batch: bool = False
) -> None:
    """Send one seat's message again (the rescue)."""
    _send(_signature(app, _TASK_OF[stage], run_id, round_, seat, is_batch=is_batch))


def send_dispatch(app: Celery) -> None:
    """Let the next runs of batches go now, instead of with the next tick."""
    _send(_signature(app, TaskName.DISPATCH))


def send_sweep(app: Celery, batch_id: str) -> None:
    """End the runs of a batch that was cancelled."""
    _send(_signature(app, TaskName.SWEEP, batch_id))


def broker_problem(app: Celery) -> str | None:
    """Why the broker cannot be used, in a sentence, or None."""
    try:
        with app.connection_for_write(connect_timeout=2) as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=2)
    except (OperationalError, OSError) as error:
        return f"the broker does not answer: {error}"
    return None


def queued_messages(app: Celery, queue: Queue) -> int:
    """Messages that wait in a queue, over all priorities."""
    with app.connection_for_read() as connection:
        try:
            return int(connection.default_channel.queue_declare(queue.value, passive=True).message_count)
        except ChannelError:
            # A drained queue does not exist in Redis.
            return 0


def _signature(app: Celery, task: TaskName, *arguments: str | int, is_batch: bool = False) -> Signature:
    return app.signature(
        task.value,
        args=arguments,
        immutable=True,
        options={
            "queue": queue_of(task).value,
            "priority": message_priority(task, is_batch=is_batch),
            "ignore_result": True,
        },
    )


def _send(message: Signature | chord) -> None:
    """A broker that is away loses nothing: the row is committed, and the rescue sends the message again."""
    try:
        message.apply_async()
    except (OperationalError, OSError) as error:
        log.warning("broker.away", error=str(error))
