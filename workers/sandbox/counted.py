"""Counts what becomes of the programs that are sent into a cage."""

from __future__ import annotations

from collections.abc import Sequence

from workers import metrics
from workers.errors import CageError
from workers.sandbox.base import Cage, CageResult, Ending, Limits, Reason, Unprovable, Workspace


class CountedCage:
    """A `Cage` in front of another one."""

    def __init__(self, cage: Cage) -> None:
        self._cage = cage
        for ending in Ending:
            metrics.CAGES_ENDED.labels(ending.value)
        for reason in Reason:
            metrics.CAGES_REFUSED.labels(reason.value)

    def run(self, workspace: Workspace, command: Sequence[str], limits: Limits) -> CageResult | Unprovable:
        with metrics.CAGES_RUNNING.track_inprogress():
            try:
                result = self._cage.run(workspace, command, limits)
            except CageError:
                metrics.CAGES_BROKEN.inc()
                raise
        if isinstance(result, Unprovable):
            metrics.CAGES_REFUSED.labels(result.reason.value).inc()
        else:
            metrics.CAGES_ENDED.labels(result.ending.value).inc()
            metrics.CAGE_DURATION.observe(result.duration_seconds)
        return result

    def check(self) -> Unprovable | None:
        return self._cage.check()
