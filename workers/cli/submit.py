"""`submit`: a file of specs as one batch."""

from __future__ import annotations

import json
import secrets
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

from workers.cli.batch_follow import watch
from workers.cli.batch_view import many
from workers.cli.client import Client
from workers.cli.reach import connected
from workers.cli.run import AsJson, budget_fields, print_json
from workers.cli.specs_file import SpecsFile
from workers.errors import InputError, SpecLinesError

#: Lines left out that are shown one by one.
_MOST_SKIPPED_SHOWN = 20


def register(app: typer.Typer) -> None:
    app.command()(submit)


def submit(
    specs: Annotated[
        str,
        typer.Argument(
            metavar="SPECS.jsonl|-", help="one JSON object a line; may be gzipped; - reads standard input"
        ),
    ],
    team: Annotated[
        str | None, typer.Option(help="which team works on lines that name none; default: consensus")
    ] = None,
    name: Annotated[str | None, typer.Option(help="what you call it")] = None,
    priority: Annotated[
        int | None, typer.Option(min=0, max=9, metavar="0-9", help="lower numbers go first; default: 0")
    ] = None,
    budget_usd: Annotated[
        float | None, typer.Option(metavar="USD", help="all its runs together spend no more than this")
    ] = None,
    budget_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="all its runs together use no more tokens than this")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="the most of its runs under way at once")
    ] = None,
    webhook_url: Annotated[
        str | None, typer.Option(metavar="URL", help="is told when it ends or is paused")
    ] = None,
    skip_bad: Annotated[
        bool,
        typer.Option("--skip-bad", help="leave out lines that cannot be used; otherwise they refuse it all"),
    ] = False,
    again: Annotated[
        bool, typer.Option("--again", help="a new batch, even if the same file was submitted before")
    ] = False,
    watch_it: Annotated[bool, typer.Option("--watch", help="follow it to its end")] = False,
    as_json: AsJson = False,
) -> int:
    """Submit a large batch of specs; prints its id. The same file with the same options is the same batch.

    Exit code: 0 submitted, 3 refused. With --watch: 0 all accepted, 1 some rejected, 2 some degraded, 4 cancelled.
    """
    given = {
        "team": team,
        "name": name,
        "priority": priority,
        "concurrency": concurrency,
        "webhook_url": webhook_url,
        "skip_bad": "true" if skip_bad else None,
        **budget_fields(budget_usd, budget_tokens),
    }
    options = {key: value for key, value in given.items() if value is not None}
    with connected(may_start=False) as client, SpecsFile.opened(specs) as file:
        key = secrets.token_hex(16) if again else _key(file, options)
        batch, is_new = _send(client, file, options, key)
        _report(client, batch, is_new=is_new, as_json=as_json)
        if sys.stdout.isatty() and not as_json:
            _hint(batch["id"], is_watched=watch_it)
        return watch(client, batch["id"], as_json=as_json) if watch_it else 0


def _key(file: SpecsFile, options: Mapping[str, Any]) -> str:
    """What makes a submission the same: what the file says, and the options."""
    asked = json.dumps([file.digest, options], sort_keys=True)
    return f"submit-{sha256(asked.encode()).hexdigest()}"


def _send(
    client: Client, file: SpecsFile, options: Mapping[str, Any], key: str
) -> tuple[dict[str, Any], bool]:
    with _bar(file) as bar:
        try:
            return client.submit_batch(
                bar.pieces,
                size_bytes=file.size_bytes,
                is_packed=file.is_packed,
                options=options,
                idempotency_key=key,
            )
        except SpecLinesError as error:
            refused = error
    raise InputError(_refusal(file.name, refused))


def _refusal(name: str, error: SpecLinesError) -> str:
    """A sentence a line, and what can be done."""
    lines = [f"{name}:{number}: {problem}" for number, problem in error.faults]
    more = error.count - len(error.faults)
    if more:
        lines.append(f"… and {many(more, 'more line')} that cannot be used")
    lines.append(
        f"nothing was stored, because {many(error.count, 'line')} cannot be used; mend "
        f"{'it' if error.count == 1 else 'them'}, or leave {'it' if error.count == 1 else 'them'} out with --skip-bad"
    )
    return "\n".join(lines)


class _Upload:
    """The pieces of a file, told to a progress bar as they go."""

    def __init__(self, file: SpecsFile, bars: Progress) -> None:
        self._file = file
        self._bars = bars
        self._task = bars.add_task("sending", total=file.size_bytes)

    def pieces(self) -> Iterator[bytes]:
        # From the beginning again, when the API went away meanwhile.
        self._bars.reset(self._task, description="sending")
        yield from self._file.pieces(lambda size: self._bars.advance(self._task, size))
        self._bars.update(self._task, description="checking and storing")


@contextmanager
def _bar(file: SpecsFile) -> Iterator[_Upload]:
    console = Console(stderr=True, highlight=False)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        yield _Upload(file, bars)


def _report(client: Client, batch: Mapping[str, Any], *, is_new: bool, as_json: bool) -> None:
    """The id on standard output, alone unless somebody reads it there; the rest for people."""
    if as_json:
        print_json(batch)
    elif not sys.stdout.isatty():
        sys.stdout.write(f"{batch['id']}\n")
        sys.stdout.flush()
    console = Console(stderr=as_json or not sys.stdout.isatty(), highlight=False)
    # A terminal breaks between words, and a file's lines are not broken at all.
    console.soft_wrap = not console.is_terminal
    notes = [many(batch["runs"], "run")]
    if batch["duplicates"]:
        notes.append(f"{many(batch['duplicates'], 'line')} like an earlier one, run once with it")
    if batch["skipped"]:
        notes.append(f"{many(batch['skipped'], 'bad line')} left out")
    before = "" if is_new else " was submitted before (--again makes a new one)"
    console.print(f"[bold]{escape(batch['id'])}[/]{before}: {'; '.join(notes)}")
    if batch["skipped"]:
        skipped = client.batch(batch["id"])["skipped_lines"]
        for item in skipped[:_MOST_SKIPPED_SHOWN]:
            console.print(f"[yellow]left out[/] line {item['line']}: {escape(item['problem'])}")
        if batch["skipped"] > _MOST_SKIPPED_SHOWN:
            console.print(f"[yellow]left out[/] {many(batch['skipped'] - _MOST_SKIPPED_SHOWN, 'more line')}")


def _hint(batch_id: str, *, is_watched: bool) -> None:
    """What to type next."""
    lines = [] if is_watched else [f"follow it: consensus status {batch_id} --watch"]
    lines.append(f"results, at any time: consensus results {batch_id} -o results.jsonl")
    Console(highlight=False).print("\n".join(lines), style="dim")
