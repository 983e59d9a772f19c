"""Hands work to the broker, always after the rows are committed, by task name and ids only."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Sequence

import redis.exceptions
import structlog
from celery import Celery, Signature, chord
from kombu.exceptions import OperationalError

from workers.core.run import Close, Enqueue, Next, Stage
from workers.core.scoring import PartKey
from workers.queues import Queue, TaskName, message_priority, queue_of

log = structlog.get_logger(__name__)

#: Whoever only looks waits no longer for a broker that is frozen or cut off.
_LOOK_SECONDS = 2

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


def send_parts(app: Celery, keys: Sequence[PartKey]) -> None:
    """Send parts of scorings: several of one stage as a chord whose body goes on with the scoring. Whoever ends the
    last part does so too, and both find the same rows."""
    for (scoring_id, stage), of in itertools.groupby(
        sorted(keys), key=lambda key: (key.scoring_id, key.stage)
    ):
        parts = [_signature(app, TaskName.SCORE, scoring_id, stage.value, key.number) for key in of]
        if len(parts) > 1:
            _send(chord(parts, _signature(app, TaskName.SCORE_ADVANCE, scoring_id), app=app))
        else:
            _send(parts[0])


def broker_problem(app: Celery) -> str | None:
    """Why the broker cannot be used, in a sentence, or None."""
    try:
        with app.connection_for_write(connect_timeout=2) as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=2)
    except (OperationalError, OSError) as error:
        return f"the broker does not answer: {error}"
    return None


def queued_messages(app: Celery, queue: Queue) -> dict[int, int]:
    """How many messages of each priority wait in a queue; priorities that have none are left out."""
    with app.connection_for_read() as connection:
        waiting: dict[int, int] = connection.default_channel.waiting(queue.value)
        return waiting


def queue_depths(app: Celery) -> dict[Queue, int] | None:
    """How many messages wait in each queue; None while the broker does not answer within seconds."""
    try:
        with app.connection_for_read(
            connect_timeout=_LOOK_SECONDS, transport_options={"socket_timeout": _LOOK_SECONDS}
        ) as connection:
            waiting = connection.default_channel.waiting
            return {queue: sum(waiting(queue.value).values()) for queue in Queue}
    except (OperationalError, OSError, redis.exceptions.RedisError):
        return None


def stages_in_line(app: Celery) -> frozenset[tuple[Stage, bool]]:
    """The stages, of runs of their own (False) and of batches (True), whose messages wait behind others just now. A
    message of any other is with a worker, or lost."""
    waiting = {queue: queued_messages(app, queue) for queue in (Queue.LLM, Queue.SANDBOX)}
    return frozenset(
        (stage, is_batch)
        for stage, task in _TASK_OF.items()
        for is_batch in (False, True)
        if message_priority(task, is_batch=is_batch) in waiting[queue_of(task)]
    )


def _signature(app: Celery, task: TaskName, *arguments: str | int, is_batch: bool = False) -> Signature:
    return app.signature(
        task.value,
        args=arguments,
        immutable=True,
        options={
            "queue": queue_of(task).value,
            "priority": message_priority(task, is_batch=is_batch),
            "ignore_result": True,
            "task_id": _task_id(*arguments),
        },
    )


def _task_id(*arguments: str | int) -> str:
    """As Flower shows it: whose work it is, and a few digits of its own, since a message may be sent again."""
    return ".".join(map(str, (*arguments, secrets.token_hex(4))))


def _send(message: Signature | chord) -> None:
    """A broker that is away loses nothing: the row is committed, and the rescue sends the message again."""
    try:
        message.apply_async()
    except (OperationalError, OSError) as error:
        about = message.body if isinstance(message, chord) else message
        log.warning("broker.away", task=about.task, task_id=about.options.get("task_id"), error=str(error))
