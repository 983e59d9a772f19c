"""Leftovers of killed workers go also where no worker starts and no slot is missed: every worker looks now and then."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from workers.errors import CageError

#: Between two looks; a leftover holds a slot and its memory for that long at most.
SWEEP_EVERY_SECONDS = 30.0
_CLOSE_SECONDS = 5.0

log = structlog.get_logger(__name__)


class Sweeper:
    """Calls `sweep` every `every_seconds` in a thread of its own: an engine that hangs holds up nothing else."""

    def __init__(self, sweep: Callable[[], object], *, every_seconds: float = SWEEP_EVERY_SECONDS) -> None:
        self._sweep = sweep
        self._every_seconds = every_seconds
        self._is_failing = False
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._go_round, name="sweeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join(timeout=_CLOSE_SECONDS)

    def look(self) -> None:
        """Sweep once. What goes wrong is logged when it begins, not every time: most machines have no engine."""
        try:
            self._sweep()
        except CageError as error:
            if not self._is_failing:
                log.info("cage.not_swept", why=str(error))
            self._is_failing = True
        except Exception:
            log.exception("cage.sweep_broke")
        else:
            self._is_failing = False

    def _go_round(self) -> None:
        while not self._closing.wait(self._every_seconds):
            self.look()
