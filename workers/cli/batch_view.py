"""A batch as the terminal shows it: what the API says of it goes in, a picture comes out. No clock, no network."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, Self

from rich.columns import Columns
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.markup import escape
from rich.measure import Measurement
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from workers.cli.money import spending_text
from workers.cli.view import OUTCOME_STYLE, clean

#: What a run can be, in the order of the bar: (name, its sign, its style). The signs differ without colours too.
PARTS = (
    ("accepted", "█", "green"),
    ("rejected", "▓", "red"),
    ("degraded", "▒", "yellow"),
    ("cancelled", "╳", "bright_black"),
    ("running", "░", "cyan"),
    ("waiting", "·", "dim"),
)
_ENDED = ("accepted", "rejected", "degraded", "cancelled")
_STATE_STYLE = {"running": "cyan", "paused": "yellow", "finished": "green", "cancelled": "bright_black"}
#: Causes that are shown; the others are counted.
_MOST_CAUSES = 5
_WAITING = {
    "providers": "every provider is away: no run is sent until one is back, and then the batch goes on by itself",
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BatchView:
    """A batch at one moment. `counts` has every name of `PARTS`; `failures` are (stage, cause, runs)."""

    batch_id: str
    name: str
    state: str
    pause_cause: str | None
    waiting_for: str | None
    counts: Mapping[str, int]
    duplicates: int
    skipped: int
    spent: Mapping[str, Any]
    budget_usd: float | None
    budget_tokens: int | None
    is_simulated: bool
    runs_per_minute: float | None
    seconds_left: float | None
    failures: Sequence[tuple[str, str, int]]
    started_at: dt.datetime | None
    finished_at: dt.datetime | None

    @classmethod
    def of(cls, detail: Mapping[str, Any]) -> Self:
        """From what `GET /v1/batches/{id}` answers; texts in it are made safe to print."""
        told = clean(dict(detail))
        return cls(
            batch_id=told["id"],
            name=told["name"] or "",
            state=told["state"],
            pause_cause=told["pause_cause"],
            waiting_for=told["waiting"],
            counts={name: told["progress"][name] for name, _, _ in PARTS},
            duplicates=told["duplicates"],
            skipped=told["skipped"],
            spent=told["usage"],
            budget_usd=told["budget_usd"],
            budget_tokens=told["budget_tokens"],
            is_simulated=told["simulated"],
            runs_per_minute=told["runs_per_minute"],
            seconds_left=told["seconds_left"],
            failures=tuple((item["stage"], item["cause"], item["runs"]) for item in told["failures"]),
            started_at=_time(told["started_at"]),
            finished_at=_time(told["finished_at"]),
        )

    @property
    def has_ended(self) -> bool:
        """A cancelled batch has ended when the last of its runs has been closed."""
        return self.finished_at is not None

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    @property
    def ended(self) -> int:
        return sum(self.counts[name] for name in _ENDED)

    def share(self) -> str:
        """How much has ended: `42 %`; 100 only when nothing is left."""
        return f"{100 * self.ended // self.total} %" if self.total else "0 %"


def exit_code(view: BatchView) -> int:
    """0 all accepted, 1 some rejected, 2 some without a full verdict, 4 cancelled; the worst wins (DESIGN §7)."""
    if view.state == "cancelled" or view.counts["cancelled"]:
        return 4
    if view.counts["degraded"]:
        return 2
    return 1 if view.counts["rejected"] else 0


def batch_panel(view: BatchView, *, now: dt.datetime, trouble: str = "") -> RenderableType:
    """The batch in a box: bar, counts, spending, what is in its way, why runs failed. `trouble`: the watcher's own."""
    head = Table.grid(expand=True, padding=(0, 1))
    head.add_column()
    head.add_column(justify="right", style="dim")
    head.add_row(
        Text.assemble(
            (f"{view.ended:,}", "bold"),
            f" of {many(view.total, 'run')} ended",
            (f" · {view.share()}", "dim"),
        ),
        _times(view, now),
    )
    parts: list[RenderableType] = [head, Bar(view.counts), _legend(view), Text(_spending(view), style="dim")]
    parts += [Text(line, style="yellow") for line in [*_notes(view), trouble] if line]
    if view.failures:
        parts += [Text(), _failures(view)]
    style = _STATE_STYLE[view.state]
    simulated = " [magenta]simulated[/]" if view.is_simulated else ""
    return Panel(
        Group(*parts),
        title=f"[bold {style}]{view.state}[/] · {escape(view.name or 'batch')}{simulated}",
        subtitle=view.batch_id,
        border_style=style,
        padding=(0, 1),
    )


def batch_line(view: BatchView) -> str:
    """The batch in one line, for where nothing can be redrawn."""
    parts = [f"{view.ended:,} of {view.total:,} ({view.share()})"]
    parts.append(", ".join(f"{view.counts[name]:,} {name}" for name, _, _ in PARTS if view.counts[name]))
    parts.append(_spending(view))
    line = f"{view.state}: {'; '.join(part for part in parts if part)}"
    if view.seconds_left and view.state == "running":
        line += f"; about {duration(view.seconds_left)} left"
    return (
        line + "".join(f"; {note}" for note in _notes(view)) + (" (simulated)" if view.is_simulated else "")
    )


def duration(seconds: float) -> str:
    """A length of time in its two largest units: `40 s`, `18 min`, `3 h 20 min`, `2 d 4 h`."""
    whole = round(seconds)
    if whole < 120:
        return f"{whole} s"
    minutes = round(seconds / 60)
    if minutes < 120:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


class Bar:
    """A bar in the full width, a stretch for each part."""

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = counts

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        cells = stretches([self._counts[name] for name, _, _ in PARTS], options.max_width)
        yield Text.assemble(
            *((sign * width, style) for (_, sign, style), width in zip(PARTS, cells, strict=True)),
            no_wrap=True,
        )

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(len(PARTS), options.max_width)


def stretches(counts: Sequence[int], width: int) -> list[int]:
    """Cells of a bar of `width` for each count, in proportion; what is there at all gets a cell if they are enough."""
    total = sum(counts)
    if not total:
        return [0] * len(counts)
    exact = [count * width / total for count in counts]
    cells = [max(1, int(share)) if count else 0 for count, share in zip(counts, exact, strict=True)]
    places = range(len(counts))
    while sum(cells) > width:
        # Of the longest the one that stands for the fewest, so that more is never drawn shorter.
        cells[max(places, key=lambda place: (cells[place], -counts[place]))] -= 1
    while sum(cells) < width:
        cells[max(places, key=lambda place: (exact[place] - cells[place], counts[place]))] += 1
    return cells


def _legend(view: BatchView) -> RenderableType:
    entries = []
    for name, sign, style in PARTS:
        if view.counts[name] or name in {"accepted", "rejected", "degraded"}:
            word_style = OUTCOME_STYLE.get(name, style) if view.counts[name] else "dim"
            entries.append(Text.assemble((sign, style), f" {view.counts[name]:,} ", (name, word_style)))
    return Columns(entries, padding=(0, 3))


def _times(view: BatchView, now: dt.datetime) -> str:
    if view.started_at is None:
        return "not started"
    took = duration(((view.finished_at or now) - view.started_at).total_seconds())
    if view.has_ended:
        return f"took {took}"
    if not view.seconds_left or view.state != "running":
        return f"for {took}"
    return f"for {took}, about {duration(view.seconds_left)} left"


def _spending(view: BatchView) -> str:
    text = spending_text(view.spent, budget_usd=view.budget_usd, budget_tokens=view.budget_tokens)
    rate = view.runs_per_minute
    return text + (f" · {rate:,.{0 if rate >= 10 else 1}f} runs/min" if rate else "")


def _notes(view: BatchView) -> list[str]:
    """What is in the batch's way, and what was not taken as it came."""
    notes = []
    if view.state == "paused" and view.pause_cause == "budget":
        more = f"consensus resume {view.batch_id}{_larger_budget(view)}"
        notes.append(f"paused: its budget is used up; give it more: {more}")
    elif view.state == "paused":
        notes.append(f"paused by hand; go on: consensus resume {view.batch_id}")
    elif view.state == "cancelled" and not view.has_ended:
        notes.append("cancelled: nothing more is asked; its runs are being closed")
    if view.waiting_for and not view.has_ended:
        notes.append(_WAITING.get(view.waiting_for, f"waits for {view.waiting_for}"))
    if view.duplicates:
        notes.append(f"{many(view.duplicates, 'line')} said the same as an earlier one and ran once with it")
    if view.skipped:
        notes.append(f"{many(view.skipped, 'bad line')} left out")
    return notes


def _larger_budget(view: BatchView) -> str:
    """The options for the budgets that the batch has: which of two ran out is not told."""
    usd = " --budget-usd USD" if view.budget_usd is not None else ""
    return usd + (" --budget-tokens N" if view.budget_tokens is not None else "")


def _failures(view: BatchView) -> RenderableType:
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right")
    table.add_column()
    table.add_column()
    for stage, cause, runs in view.failures[:_MOST_CAUSES]:
        table.add_row(f"{runs:,}", Text(stage, style="dim"), Text(cause.replace("_", " ")))
    others = view.failures[_MOST_CAUSES:]
    if others:
        more = sum(runs for _, _, runs in others)
        table.add_row(f"{more:,}", Text("…", style="dim"), Text(f"{len(others)} other causes", style="dim"))
    return Group(Text("why seats gave up, in the degraded runs", style="dim"), table)


def many(number: int, noun: str) -> str:
    """`1 run`, `10,000 runs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _time(text: str | None) -> dt.datetime | None:
    return None if text is None else dt.datetime.fromisoformat(text)
