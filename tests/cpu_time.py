"""What a call costs, for claims such as "not quadratic". Measured so that a neighbour cannot fail the claim."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

_TRIES = 3


def within_cpu_seconds(bound: float, work: Callable[[], Result]) -> Result:
    """What `work` returns; fails if each of three calls takes this thread more than `bound` seconds of CPU.

    Without the collector: late in a long session one full collection takes a second of its own, and falls on
    whichever call happens to allocate then."""
    least = float("inf")
    was_collecting = gc.isenabled()
    gc.disable()
    try:
        for _ in range(_TRIES):
            started = time.thread_time()
            result = work()
            least = min(least, time.thread_time() - started)
            if least < bound:
                return result
    finally:
        if was_collecting:
            gc.enable()
    raise AssertionError(f"{_TRIES} calls took at least {least:.2f} s of CPU each, allowed are {bound} s")
