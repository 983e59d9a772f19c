"""What Celery and kombu do while the broker or the database is away, put right: the worker goes on, and a log holds a
sentence instead of a page. The rows are the truth, so nothing here has to be saved (`decisions/0001`)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import redis.exceptions
import structlog
from celery import Task
from celery.beat import PersistentScheduler, SchedulingError
from kombu.exceptions import OperationalError
from kombu.transport import TRANSPORT_ALIASES
from kombu.transport import redis as kombu_redis

from workers.errors import UnavailableError

log = structlog.get_logger(__name__)

_BROKER_AWAY = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError)


class Channel(kombu_redis.Channel):
    """A channel of a connection that was given up says so by an error that kombu expects. By itself it stumbles over
    the missing connection while it tries to put messages back, and that AttributeError ends the worker."""

    @property
    def _is_given_up(self) -> bool:
        return self.connection is None or self.connection.client is None

    def basic_ack(self, delivery_tag: str, multiple: bool = False) -> None:
        """A message that could not be acknowledged may come once more, which changes nothing."""
        if self._is_given_up:
            return
        try:
            super().basic_ack(delivery_tag, multiple)  # type: ignore[no-untyped-call]
        except _BROKER_AWAY as error:
            log.warning("broker.away", error=str(error))

    def waiting(self, queue: str) -> dict[int, int]:
        """How many messages of each priority wait in a queue; priorities that have none are left out."""
        with self.conn_or_acquire() as client:
            counts = {
                step: int(client.llen(self._q_for_pri(queue, step)))  # type: ignore[no-untyped-call]
                for step in self.priority_steps
            }
        return {priority: count for priority, count in counts.items() if count}

    def _connparams(self, asynchronous: bool = False) -> Any:
        if self._is_given_up:
            raise redis.exceptions.ConnectionError("the connection to the broker was given up")
        return super()._connparams(asynchronous)  # type: ignore[no-untyped-call]


class Transport(kombu_redis.Transport):
    Channel = Channel


class Scheduler(PersistentScheduler):  # type: ignore[misc]  # Celery ships no types
    """Beat's own, but for its words while the broker is away: one line, not four tracebacks a second; and the file of
    `consensus beat --heartbeat` is as old as what was sent last."""

    def apply_entry(self, entry: Any, producer: Any = None) -> None:
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except SchedulingError as error:
            log.warning("broker.away", task=entry.task, error=str(error.__cause__ or error))
            return
        heartbeat: Path | None = self.app.conf.get("heartbeat_file")
        if heartbeat is not None:
            heartbeat.touch()


class PatientTask(Task):  # type: ignore[misc]
    """A task that a lost database or broker broke off is over: the rescue finds what it left. To Celery it has not
    failed, since one failed header would fail its panel's chord, at length and for nothing."""

    abstract = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return self.run(*args, **kwargs)
        except (UnavailableError, OperationalError, *_BROKER_AWAY) as error:
            log.warning("task.interrupted", task=self.name, error=str(error))
            return None


def install() -> None:
    """Make kombu use the transport above for every Redis URL."""
    path = f"{Transport.__module__}:{Transport.__qualname__}"
    for scheme in ("redis", "rediss"):
        TRANSPORT_ALIASES[scheme] = path
