"""An event loop whose clock leaps: whenever everything waits, it is at once the time of the next timer.

For code that only waits on timers and on itself; real sockets need a real clock."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any


class _LeapingSelector(selectors.SelectSelector):
    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise AssertionError("everything waits and no timer is set: this would hang for ever")
        # As on a real clock, no two looks fall on the same instant: aiolimiter rounds and looks again.
        self.now += max(1e-9, timeout)
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._leaping = _LeapingSelector()
        super().__init__(self._leaping)

    def time(self) -> float:
        return self._leaping.now


def run_in_virtual_time(scenario: Coroutine[Any, Any, None]) -> None:
    """Run to the end in no real time. `asyncio.get_running_loop().time()` starts at 0."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        runner.run(scenario)
