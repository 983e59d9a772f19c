"""`results`: a run's claims, or how the runs of a batch ended, in a file format."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)

from workers.cli.batch_view import BatchView, many
from workers.cli.reach import connected
from workers.cli.status import AnyId, is_batch
from workers.errors import InputError


class Format(StrEnum):
    JSONL = "jsonl"
    CSV = "csv"
    SARIF = "sarif"


#: Takes a piece of a file.
Write = Callable[[bytes], object]


def register(app: typer.Typer) -> None:
    app.command()(results)


def results(
    name: AnyId,
    format: Annotated[Format, typer.Option(help="SARIF is what code hosts read")] = Format.JSONL,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="default: standard output")
    ] = None,
) -> int:
    """Write a run's claims, or a line for each run of a batch, those that have not ended too.

    A file is there once it is whole: until then it grows under another name beside it.
    """
    of_batch = is_batch(name)
    with connected(may_start=False) as client:
        view = BatchView.of(client.batch(name)) if of_batch else None
        kind = "batches" if of_batch else "runs"
        with client.results(kind, name, format.value) as pieces, _written_to(output) as write:
            if view is None or output is None:
                for piece in pieces:
                    write(piece)
            else:
                _copy(pieces, write, total=view.total)
    if view is not None and (left := view.total - view.ended):
        Console(stderr=True, highlight=False, soft_wrap=True).print(
            f"[yellow]partial:[/] {many(left, 'run')} of {view.total:,} had not ended"
        )
    return 0


def _copy(pieces: Iterator[bytes], write: Write, *, total: int) -> None:
    console = Console(stderr=True, highlight=False)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[size]}"),
        TimeRemainingColumn(compact=True),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        size_bytes = 0
        task = bars.add_task("runs", total=total, size="")
        for piece in pieces:
            write(piece)
            size_bytes += len(piece)
            # A line a run in every format.
            bars.update(task, advance=piece.count(b"\n"), size=decimal(size_bytes))


@contextlib.contextmanager
def _written_to(output: Path | None) -> Iterator[Write]:
    """Standard output, or the file, which appears when the block has ended well. Raises: InputError."""
    if output is None:
        yield sys.stdout.buffer.write
        sys.stdout.buffer.flush()
        return
    try:
        if _is_special(output):
            with output.open("wb") as there:
                yield there.write
            return
        # Where a link points to, the file is; and only beside it can it be moved in one step.
        target = output.resolve()
        growing = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
        try:
            with growing.open("xb") as new:
                yield new.write
                new.flush()
                os.fsync(new.fileno())
            growing.replace(target)
        finally:
            growing.unlink(missing_ok=True)
    except OSError as error:
        raise InputError(f"-o {output}: cannot be written: {error.strerror}") from None


def _is_special(path: Path) -> bool:
    """Whether this is a device or a pipe, which cannot be replaced."""
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return False
    if stat.S_ISDIR(mode):
        raise InputError(f"-o {path}: is a folder; give the name of a file in it")
    return not stat.S_ISREG(mode)
