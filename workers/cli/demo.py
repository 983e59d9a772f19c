"""`demo`: what `make run` does. Sends files of specs, shows them at work, prints a closing table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from workers.cli.client import Client
from workers.cli.follow import follow_many
from workers.cli.reach import connected
from workers.cli.view import RunView, clean, overview
from workers.core.submission import check_spec
from workers.errors import InputError


def register(app: typer.Typer) -> None:
    app.command()(demo)


def demo(
    specs: Annotated[list[Path] | None, typer.Argument(help="files of specs, one JSON object a line")] = None,
    team: Annotated[str, typer.Option(help="which team works on specs that name none")] = "consensus",
) -> int:
    """Send small files of specs, follow all of them, and show how they ended. Exit 0 when every run ended."""
    bodies = [body for path in specs or [Path("examples/specs.jsonl")] for body in read_specs(path, team)]
    console = Console(highlight=False)
    with connected(may_start=True) as client:
        views = [_submit(client, body, number) for number, body in enumerate(bodies, start=1)]
        follow_many(client, views, console)
    console.print(overview(views, is_final=True, width=console.width))
    counts = ", ".join(
        f"{sum(view.outcome == outcome for view in views)} {outcome}"
        for outcome in ("accepted", "rejected", "degraded", "cancelled")
        if any(view.outcome == outcome for view in views)
    )
    simulated = "   [magenta]answers were simulated[/]" if any(view.is_simulated for view in views) else ""
    console.print(f"{len(views)} runs ended: {counts}{simulated}")
    return 0


def read_specs(path: Path, team: str) -> list[dict[str, Any]]:
    """The lines as request bodies. Raises: InputError naming the line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read: {error}; give a JSONL file of specs") from None
    bodies: list[dict[str, Any]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            body = json.loads(line)
        except ValueError as error:
            raise InputError(f"{path}:{number}: not JSON: {error}") from None
        if not isinstance(body, dict) or not isinstance(body.get("spec"), str):
            raise InputError(f'{path}:{number}: a line is an object with "spec", a text')
        try:
            check_spec(body["spec"])
        except InputError as error:
            raise InputError(f"{path}:{number}: {error}") from None
        bodies.append({"team": team, **body})
    if not bodies:
        raise InputError(f"{path}: holds no spec")
    return bodies


def _submit(client: Client, body: dict[str, Any], number: int) -> RunView:
    created = client.create_run(body)
    return RunView(title=clean(str(body.get("id") or f"line {number}")), run_id=created["id"])
