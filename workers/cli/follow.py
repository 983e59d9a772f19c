"""Follows runs on the terminal: redrawn in place where that is possible, one line an event elsewhere."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from workers.cli.client import Client, RunEvent
from workers.cli.view import RunView, live_panel, overview
from workers.errors import ConsensusError

_REDRAW_SECONDS = 0.1
_FRAMES = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"


def follow_one(client: Client, view: RunView, console: Console) -> None:
    """Follow one run to its end. Raises: ConsensusError when its events cannot be had."""
    _follow(client, [view], console, lambda: live_panel(view, spinner=_frame()))


def follow_many(client: Client, views: Sequence[RunView], console: Console) -> None:
    """Follow several runs to their end over one progress bar. Raises: ConsensusError."""
    progress = Progress(
        TextColumn("runs ended"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        expand=True,
    )
    bar = progress.add_task("runs", total=len(views))

    def picture() -> RenderableType:
        progress.update(bar, completed=sum(view.outcome is not None for view in views))
        return Group(overview(views, is_final=False, width=console.width), progress)

    _follow(client, views, console, picture)


def _frame() -> str:
    return _FRAMES[int(time.monotonic() * 10) % len(_FRAMES)]


def _follow(
    client: Client, views: Sequence[RunView], console: Console, picture: Callable[[], RenderableType]
) -> None:
    inbox = Inbox(client, views)
    if not console.is_terminal:
        several = len(views) > 1
        inbox.pump(
            lambda title, line: console.print(
                f"{title}: {line}" if several else line, markup=False, highlight=False, soft_wrap=True
            )
        )
        return
    with Live(picture(), console=console, transient=True, auto_refresh=False) as live:
        inbox.pump(lambda *_: None, idle=lambda: live.update(picture(), refresh=True))


class Inbox:
    """Several event streams, read by a thread each, applied to their views by whoever pumps."""

    def __init__(self, client: Client, views: Sequence[RunView]) -> None:
        self._views = views
        self._messages: queue.Queue[tuple[int, RunEvent | ConsensusError | None]] = queue.Queue()
        for place, view in enumerate(views):
            threading.Thread(target=self._listen, args=(client, view.run_id, place), daemon=True).start()

    def _listen(self, client: Client, run_id: str, place: int) -> None:
        try:
            for event in client.events(run_id):
                self._messages.put((place, event))
            self._messages.put((place, None))
        except ConsensusError as error:
            self._messages.put((place, error))

    def pump(self, say: Callable[[str, str], None], *, idle: Callable[[], None] = lambda: None) -> None:
        """Apply events until every run has ended; `say(title, line)` for each that is worth a line, `idle`
        about ten times a second. Raises: ConsensusError that ended a stream."""
        open_streams = len(self._views)
        drawn_at = 0.0
        while open_streams:
            try:
                place, message = self._messages.get(timeout=_REDRAW_SECONDS)
            except queue.Empty:
                pass
            else:
                if isinstance(message, ConsensusError):
                    raise message
                if message is None:
                    open_streams -= 1
                else:
                    self._apply(self._views[place], message, say)
            if time.monotonic() - drawn_at >= _REDRAW_SECONDS:
                idle()
                drawn_at = time.monotonic()

    @staticmethod
    def _apply(view: RunView, event: RunEvent, say: Callable[[str, str], None]) -> None:
        line = view.apply(event)
        if line:
            say(view.title, line + (" (simulated)" if view.is_simulated else ""))
