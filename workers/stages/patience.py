"""What was paid for is written down, although the database is away for a moment."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

import structlog

from workers.errors import UnavailableError
from workers.stages.context import Context

log = structlog.get_logger(__name__)

#: Between two tries.
PAUSE_SECONDS = 0.25

_T = TypeVar("_T")


def patiently(context: Context, write: Callable[[], _T]) -> _T:
    """Do `write` again while the database does not answer, for about as long as a lease: a restart of the database
    then costs no call a second time. `write` must bear being done twice: whether a commit whose answer was lost took
    effect, nobody knows.

    Raises: UnavailableError when the database stays away; the seat is rescued then.
    """
    for tries in range(1, math.ceil(context.lease_seconds / PAUSE_SECONDS)):
        try:
            return write()
        except UnavailableError as error:
            if tries == 1:
                log.warning("database.away", error=str(error), trying_for_seconds=context.lease_seconds)
            context.sleep(PAUSE_SECONDS)
    return write()
