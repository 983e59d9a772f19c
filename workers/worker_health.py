"""Whether a worker takes tasks: it asks itself through the broker, since a process may live and hear nothing."""

from __future__ import annotations

import threading
from pathlib import Path

import redis.exceptions
import structlog
from celery import Celery
from kombu.exceptions import OperationalError

ASK_EVERY_SECONDS = 10.0
_ANSWER_SECONDS = 5.0
_CLOSE_SECONDS = 10.0

log = structlog.get_logger(__name__)


class Heartbeat:
    """Touches a file whenever this worker has answered: the file is as old as the last proof that it takes tasks."""

    def __init__(
        self, app: Celery, *, node: str, file: Path, every_seconds: float = ASK_EVERY_SECONDS
    ) -> None:
        """`node`: what Celery calls the worker, `name@host`."""
        self._app, self._node, self._file = app, node, file
        self._every_seconds = every_seconds
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._go_round, name="worker-health", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=_CLOSE_SECONDS)

    def look(self, *, answer_seconds: float = _ANSWER_SECONDS) -> bool:
        """Ask once; whether the worker answered and takes from a queue."""
        inspect = self._app.control.inspect(destination=[self._node], timeout=answer_seconds)
        try:
            queues = (inspect.active_queues() or {}).get(self._node)
        except (OperationalError, redis.exceptions.RedisError, OSError) as error:
            log.warning("worker.unheard", error=str(error))
            return False
        if not queues:
            log.warning("worker.unheard", error=f"no answer in {answer_seconds:g} s")
            return False
        self._file.touch()
        return True

    def _go_round(self) -> None:
        while not self._closing.is_set():
            self.look()
            self._closing.wait(self._every_seconds)
