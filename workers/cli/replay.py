"""`replay`: compute a run's verdict once more from its ledger and compare it byte for byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from workers.cli.reach import connected
from workers.cli.view import OUTCOME_STYLE
from workers.errors import InputError


def register(app: typer.Typer) -> None:
    app.command()(replay)


def replay(
    run: Annotated[str, typer.Argument(help="a run's id, or a file that `provenance export` wrote")],
) -> int:
    """Recompute a verdict from the run's ledger: no model, no cage.

    Exit code: 0 it matches byte for byte, 1 it differs, 3 there is none to compare or the input is refused.
    """
    from workers.provenance.export import FORMAT, replayable
    from workers.stages.replay import replay as recompute

    document = _document(run)
    try:
        replayed = recompute(replayable(document) if document.get("format") == FORMAT else document)
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(
            f"{run}: is no provenance of a run ({type(error).__name__}: {error}); "
            "give what `consensus provenance export` wrote"
        ) from None
    if not replayed.is_compared:
        raise InputError(f"{run}: {replayed.problem}")
    console = Console(highlight=False, soft_wrap=True)
    if replayed.problem is not None:
        console.print(f"[bold red]differs[/] {escape(replayed.problem)}")
        return 1
    style = OUTCOME_STYLE[replayed.outcome]
    console.print(
        f"[green]matches[/] [{style}]{replayed.outcome}[/] from {replayed.events} events, "
        f"verdict sha256 {replayed.digest}"
    )
    return 0


def _document(run: str) -> dict[str, Any]:
    path = Path(run)
    if not path.is_file():
        if path.suffix or len(path.parts) > 1:
            raise InputError(
                f"{run}: no such file; give a run's id, or a file with what GET /v1/runs/{{id}}/provenance answers"
            )
        with connected(may_start=True) as client:
            document = client.provenance(run)
        if document.get("run_id") != run:
            raise InputError(
                f"the server gave the record of run {str(document.get('run_id'))[:80]!r} for {run}"
            )
        return document
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as JSON: {error}") from None
    if not isinstance(document, dict):
        raise InputError(f"{path}: must be a JSON object, as GET /v1/runs/{{id}}/provenance answers")
    return document
