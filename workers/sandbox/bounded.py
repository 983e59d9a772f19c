"""So many programs at once from one process: whoever is above that waits here and not for one of the engine's slots,
where a long wait counts as a broken cage."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from workers.sandbox.base import Cage, CageResult, Limits, Unprovable, Workspace


class BoundedCage:
    """A `Cage` in front of another one."""

    def __init__(self, cage: Cage, most: int) -> None:
        self._cage = cage
        self._room = threading.BoundedSemaphore(most)

    def run(self, workspace: Workspace, command: Sequence[str], limits: Limits) -> CageResult | Unprovable:
        with self._room:
            return self._cage.run(workspace, command, limits)

    def check(self) -> Unprovable | None:
        return self._cage.check()
