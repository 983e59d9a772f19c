"""Whether a worker takes tasks: asked over the broker, because a process may live and hear nothing any more."""

from __future__ import annotations

import socket

import redis.exceptions
from celery import Celery
from kombu.exceptions import OperationalError

from workers.errors import UnavailableError


def served_queues(app: Celery, name: str, *, timeout_seconds: float, host: str | None = None) -> list[str]:
    """The queues that the worker `name` of this machine (or of `host`) takes from, in alphabetical order.

    Raises: UnavailableError when the broker is away, the worker does not answer in time, or takes from none.
    """
    node = f"{name}@{host or socket.gethostname()}"
    try:
        answers = app.control.inspect(destination=[node], timeout=timeout_seconds).active_queues() or {}
    except (OperationalError, redis.exceptions.RedisError, OSError) as error:
        raise UnavailableError(f"the broker does not answer: {error}") from None
    if node not in answers:
        raise UnavailableError(f"worker {node} has not answered within {timeout_seconds:g} s")
    queues = sorted(queue["name"] for queue in answers[node])
    if not queues:
        raise UnavailableError(f"worker {node} takes tasks from no queue")
    return queues
