"""Celery's Redis result backend, kept to the one thing it is here for: joining chords."""

from __future__ import annotations

from typing import Any

import redis.exceptions
import structlog
from celery.backends.redis import RedisBackend

log = structlog.get_logger(__name__)


class JoinBackend(RedisBackend):  # type: ignore[misc]  # Celery ships no types
    """Nobody here waits for a result, but publishing a group subscribes to one channel a member all the same,
    and a worker would gather five a run for as long as it lives (seen at the server: SUBSCRIBE without an end)."""

    def add_pending_result(self, result: Any, weak: bool = False, start_drainer: bool = True) -> Any:  # noqa: ARG002
        return result

    def on_task_call(self, producer: Any, task_id: str) -> dict[str, Any]:  # noqa: ARG002
        return {}

    def on_chord_part_return(self, request: Any, state: str, result: Any, **options: Any) -> Any:
        """Whoever settles a panel's last seat advances the run, with or without this count."""
        try:
            return super().on_chord_part_return(request, state, result, **options)
        except redis.exceptions.RedisError as error:
            log.warning("broker.away", error=str(error))
            return None

    def chord_error_from_stack(self, callback: Any, exc: Any = None) -> Any:  # noqa: ARG002
        """A join that broke calls nobody back: see above."""
        log.warning("chord.broke", error=str(exc))
