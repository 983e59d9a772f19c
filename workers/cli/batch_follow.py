"""Follows a batch on the terminal: redrawn in place where that is possible, a line now and then elsewhere."""

from __future__ import annotations

import datetime as dt
import sys
import time
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.live import Live

from workers.cli.batch_view import BatchView, batch_line, batch_panel, exit_code
from workers.cli.client import Client

_REDRAWS_PER_SECOND = 4
#: Where nothing can be redrawn: a line after each tenth of the runs, and at least so often while something happens.
_LINE_SECONDS = 30.0


def follow_batch(client: Client, batch_id: str, console: Console) -> BatchView:
    """Follow a batch until it has ended; how it looks then. It goes on whatever happens to the watcher.

    Raises: NotFoundError; UnavailableError when the API stays away; KeyboardInterrupt.
    """
    snapshots = client.batch_events(batch_id)
    last = _redrawn(snapshots, console) if console.is_terminal else _told(snapshots, console)
    return last if last is not None and last.has_ended else BatchView.of(client.batch(batch_id))


def watch(client: Client, batch_id: str, *, as_json: bool) -> int:
    """Follow a batch on standard error if standard output is not for people; the exit code of how it ended.

    Interrupted, it says how to come back, and that the batch goes on. Raises: KeyboardInterrupt.
    """
    console = Console(stderr=as_json or not sys.stdout.isatty(), highlight=False)
    try:
        view = follow_batch(client, batch_id, console)
    except KeyboardInterrupt:
        console.print(
            f"the batch goes on; come back to it: consensus status {batch_id} --watch\n"
            f"end it: consensus cancel {batch_id}",
            soft_wrap=not console.is_terminal,
        )
        raise
    return exit_code(view)


def _redrawn(snapshots: Iterable[dict[str, Any] | None], console: Console) -> BatchView | None:
    view: BatchView | None = None
    trouble = ""

    def picture() -> RenderableType:
        return "" if view is None else _Narrow(batch_panel(view, now=_now(), trouble=trouble))

    with Live(console=console, refresh_per_second=_REDRAWS_PER_SECOND, get_renderable=picture):
        for detail in snapshots:
            if detail is None:
                trouble = "the API is away: trying again; the batch does not need it"
            else:
                view, trouble = BatchView.of(detail), ""
    return view


class _Narrow:
    """Leaves room at the right for the ^C of a terminal, which would begin a new line there and shift the picture."""

    def __init__(self, inner: RenderableType) -> None:
        self._inner = inner

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield from console.render(self._inner, options.update(max_width=max(1, options.max_width - 2)))


def _told(snapshots: Iterable[dict[str, Any] | None], console: Console) -> BatchView | None:
    view: BatchView | None = None
    told: tuple[str, str | None, str | None, int] | None = None
    told_at = 0.0
    for detail in snapshots:
        if detail is None:
            continue
        view = BatchView.of(detail)
        tenths = 10 * view.ended // max(1, view.total)
        worth = view.state, view.pause_cause, view.waiting_for, tenths
        if worth != told or time.monotonic() - told_at >= _LINE_SECONDS:
            console.print(batch_line(view), markup=False, highlight=False, soft_wrap=True)
            told, told_at = worth, time.monotonic()
    return view


def _now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)
