"""`results`: a run's claims in a file format."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from workers.cli.reach import connected
from workers.errors import InputError


class Format(StrEnum):
    JSONL = "jsonl"
    CSV = "csv"
    SARIF = "sarif"


def register(app: typer.Typer) -> None:
    app.command()(results)


def results(
    run_id: Annotated[str, typer.Argument(metavar="ID", help="a run's id")],
    format: Annotated[Format, typer.Option(help="SARIF is what code hosts read")] = Format.JSONL,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="default: standard output")
    ] = None,
) -> int:
    """Write a run's claims: what stands, what was dismissed and on which ground."""
    with connected(may_start=False) as client:
        body = client.results(run_id, format.value)
    if output is None:
        sys.stdout.buffer.write(body)
        sys.stdout.buffer.flush()
        return 0
    try:
        output.write_bytes(body)
    except OSError as error:
        raise InputError(f"-o {output}: cannot be written: {error.strerror}") from None
    return 0
