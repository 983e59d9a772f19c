"""Follows runs on the terminal: redrawn in place where that is possible, one line an event elsewhere."""

from __future__ import annotations

import queue
import threading
from collections.abc import Sequence

from rich.console import Console
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.spinner import Spinner

from workers.cli.client import Client, RunEvent
from workers.cli.view import RunView, live_panel, overview
from workers.errors import ConsensusError

_REDRAW_SECONDS = 0.1

#: (place of the run in the list, its event) or (place, the error that ended its stream) or (place, None: it ended).
_Message = tuple[int, RunEvent | ConsensusError | None]


def follow_one(client: Client, view: RunView, console: Console) -> None:
    """Follow one run to its end. Raises: ConsensusError when its events cannot be had."""
    _follow([view], client, console, lambda live: _draw_one(view, live))


def follow_many(client: Client, views: Sequence[RunView], console: Console) -> None:
    """Follow several runs to their end under one progress bar. Raises: ConsensusError."""
    progress = Progress(
        TextColumn("runs"), BarColumn(bar_width=None), MofNCompleteColumn(), TimeElapsedColumn(), expand=True
    )
    bar = progress.add_task("runs", total=len(views))

    def draw(live: Live) -> None:
        progress.update(bar, completed=sum(view.outcome is not None for view in views))
        table = overview(list(views), is_final=False)
        table.caption = progress.get_renderable()  # type: ignore[assignment]
        live.update(table)

    _follow(views, client, console, draw)


def _draw_one(view: RunView, live: Live) -> None:
    spinner = Spinner("dots")
    frame = spinner.frames[int(live.console.get_time() * 10) % len(spinner.frames)]
    live.update(live_panel(view, spinner=frame))


def _follow(views, client, console, draw) -> None:  # type: ignore[no-untyped-def]
    inbox: queue.Queue[_Message] = queue.Queue()
    for place, view in enumerate(views):
        threading.Thread(target=_listen, args=(client, view.run_id, place, inbox), daemon=True).start()
    if console.is_terminal:
        with Live(console=console, transient=True, auto_refresh=False) as live:
            _pump(views, inbox, console=None, redraw=lambda: (draw(live), live.refresh()))
    else:
        _pump(views, inbox, console=console, redraw=lambda: None)


def _pump(views, inbox, *, console, redraw) -> None:  # type: ignore[no-untyped-def]
    open_streams = len(views)
    while open_streams:
        try:
            place, message = inbox.get(timeout=_REDRAW_SECONDS)
        except queue.Empty:
            redraw()
            continue
        if isinstance(message, ConsensusError):
            raise message
        if message is None:
            open_streams -= 1
        else:
            line = views[place].apply(message)
            if console is not None and line:
                suffix = " (simulated)" if message.payload.get("simulated") else ""
                console.print(f"{views[place].title}: {line}{suffix}", markup=False, highlight=False)
        redraw()


def _listen(client: Client, run_id: str, place: int, inbox: queue.Queue[_Message]) -> None:
    try:
        for event in client.events(run_id):
            inbox.put((place, event))
        inbox.put((place, None))
    except ConsensusError as error:
        inbox.put((place, error))
