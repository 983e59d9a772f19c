"""Signals that end a command, as an exception: what it opened is closed and what it left behind is removed."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stopped(KeyboardInterrupt):
    """The process was asked to end. code: what a shell reports of it, 128 + the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.code = 128 + number


@contextmanager
def stoppable() -> Iterator[None]:
    """Within, Ctrl-C, SIGTERM and the end of the terminal raise `Stopped`, the first time; while things are
    put in order, more of them change nothing. In other threads than the main one nothing is changed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, _frame: FrameType | None) -> None:
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Stopped(number)

    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number, handler in before.items():
        # What was told to live through the end of its terminal (nohup) goes on doing so.
        if handler is not signal.SIG_IGN:
            signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
