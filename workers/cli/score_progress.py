"""How far a scoring is, on a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn


class Silent:
    """No terminal, no bar."""

    def begin(self, what: str, total: int) -> None:
        """Say nothing."""

    def advance(self, by: int) -> None:
        """Say nothing."""


class Bars:
    """One bar a pass."""

    def __init__(self, bars: Progress) -> None:
        self._bars = bars
        self._current: TaskID | None = None

    def begin(self, what: str, total: int) -> None:
        """Start the next bar."""
        self._current = self._bars.add_task(what, total=total)

    def advance(self, by: int) -> None:
        """Move the current bar."""
        if self._current is not None:
            self._bars.advance(self._current, by)


@contextmanager
def shown(console: Console) -> Iterator[Silent | Bars]:
    """Bars while the block runs, gone after it; nothing if the console is no terminal."""
    if not console.is_terminal:
        yield Silent()
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        yield Bars(bars)
