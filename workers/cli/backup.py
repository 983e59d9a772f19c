"""`consensus backup|restore`: everything that an installation keeps, as one file, and back."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer
from rich.console import Console

from workers.cli.database import opened
from workers.cli.destination import destination
from workers.errors import InputError
from workers.settings import load

_PIPE = "-"


def register(app: typer.Typer) -> None:
    app.command()(backup)
    app.command()(restore)


def backup(
    file: Annotated[str, typer.Argument(help="where to write it; - for standard output")],
) -> int:
    """Write the whole database to a file while everything runs: all of it as of one moment.

    The file holds every spec, prompt, reply and setting in the database: keep it as safe as that. It appears when it
    is whole, readable by its owner alone. Settings in the environment and what Redis holds are not in it."""
    from workers.provenance.backup.dump import dump

    console = _console()
    with opened(load(), may_create=False, any_schema=True) as database, _written(file) as out:
        done = dump(database, out, say=lambda table: _progress(console, table))
    console.print(
        f"{done.rows:,} rows of {done.tables} tables at schema {done.head.revision}, as of {done.head.at}: {file}"
    )
    return 0


def restore(
    file: Annotated[str, typer.Argument(help="what `consensus backup` wrote; - for standard input")],
    replace: Annotated[
        bool, typer.Option("--replace", help="remove what the database holds; in the same transaction")
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="read the file to its end and change nothing; needs no database")
    ] = False,
) -> int:
    """Fill an empty database from a backup, all or nothing, and bring it to this version's schema.

    Stop workers, API and beat first. What ran after the backup is not in it: runs that were under way then go on from
    there, and webhooks that were waiting then are sent (again), with the ids they had."""
    from workers.provenance.backup import restore as restoring

    console = _console()
    with _read(file) as source, _named(file):
        if check:
            done = restoring.check(source)
            console.print(
                f"{file}: whole; {done.rows:,} rows of {done.tables} tables at schema {done.revision}, "
                f"as of {done.head.at}"
            )
            return 0
        with opened(load(), any_schema=True) as database:
            done = restoring.restore(
                database, source, replace=replace, say=lambda table: _progress(console, table)
            )
    migrated = "" if done.revision == done.head.revision else f" (it was made at {done.head.revision})"
    console.print(
        f"{done.rows:,} rows of {done.tables} tables are there, as of {done.head.at}; schema {done.revision}{migrated}"
    )
    return 0


def _console() -> Console:
    # Standard output may be the backup itself.
    return Console(stderr=True, highlight=False, soft_wrap=True)


def _progress(console: Console, table: str) -> None:
    if console.is_terminal:
        console.print(f"[dim]{table}[/]")


@contextmanager
def _named(file: str) -> Iterator[None]:
    """Say of which file it is that it cannot be used."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{'standard input' if file == _PIPE else file}: {error}") from None


@contextmanager
def _read(file: str) -> Iterator[BinaryIO]:
    if file == _PIPE:
        yield sys.stdin.buffer
        return
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except OSError as error:
        raise InputError(f"{file}: cannot be read: {error.strerror}") from None
    with os.fdopen(descriptor, "rb") as source:
        yield source


@contextmanager
def _written(file: str) -> Iterator[BinaryIO]:
    """A file of its owner's alone that appears when all of it is on the disk."""
    if file == _PIPE:
        if sys.stdout.isatty():
            raise InputError("a backup is no text for a terminal; name a file, or pipe it on")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    with destination(Path(file), option="", permissions=0o600) as out:
        yield out
