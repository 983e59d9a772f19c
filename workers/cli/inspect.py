"""Commands that look: teams, providers, and whether everything needed is there."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from workers import log
from workers.core.team import SeatAt, family_of
from workers.errors import ManifestError
from workers.providers.chain import check_chain
from workers.providers.registry import PROVIDERS, SIMULATOR, enabled
from workers.settings import environment, load
from workers.teams import load_team, load_teams, read_team, team_files

_MARK = {"ok": "[green]ok[/]", "note": "[yellow]note[/]", "missing": "[bold red]missing[/]"}


def register(app: typer.Typer) -> None:
    teams = typer.Typer(help="Teams: list, show, validate.", no_args_is_help=True)
    teams.command(name="list")(list_teams)
    teams.command(name="show")(show_team)
    teams.command(name="validate")(validate_teams)
    app.add_typer(teams, name="teams")
    providers = typer.Typer(help="Model providers.", no_args_is_help=True)
    providers.command(name="list")(list_providers)
    app.add_typer(providers, name="providers")
    app.command()(doctor)


def table_console() -> Console:
    """The terminal, or for a pipe one so wide that no word is broken."""
    return Console(highlight=False) if sys.stdout.isatty() else Console(highlight=False, width=250)


def list_teams() -> int:
    """List the teams and who sits in them."""
    table = Table(box=None, pad_edge=False)
    for column in ("team", "reviewers", "families", "quorum", "file"):
        table.add_column(column, overflow="fold")
    for entry in load_teams(load().teams):
        team = entry.team
        families = {family_of(seat.models[0]) for seat in team.reviewers.values()}
        quorum = team.policy.quorum
        table.add_row(
            f"[bold]{team.name}[/]",
            ", ".join(team.reviewers),
            ", ".join(sorted(families)),
            f"{quorum.heads} heads, {quorum.families} families",
            str(entry.path),
        )
    table_console().print(table)
    return 0


def show_team(name: Annotated[str, typer.Argument(help="a team's name")]) -> int:
    """Print one team as YAML, with every default filled in."""
    entry = load_team(name, load().teams)
    print(yaml.safe_dump(entry.team.as_data(), sort_keys=False, allow_unicode=True, width=100), end="")  # noqa: T201
    return 0


def validate_teams(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="team files; default: all that are known")
    ] = None,
) -> int:
    """Check team files. A bad one gets file, line, field and what is allowed; exit 3."""
    console = Console(highlight=False, soft_wrap=True)
    faults = 0
    for path in paths or team_files(load().teams):
        try:
            entry = read_team(path)
            for place in entry.team.seats():
                _check_providers(path, place)
        except ManifestError as error:
            faults += 1
            console.print(f"[bold red]bad[/]  {escape(str(error))}")
        else:
            console.print(
                f"[green]good[/] {escape(str(path))}: {entry.team.name}, {len(entry.team.reviewers)} reviewers"
            )
    return 3 if faults else 0


def _check_providers(path: Path, place: SeatAt) -> None:
    """Raises: ManifestError for a link whose provider nobody knows."""
    try:
        check_chain(place.seat.models)
    except ManifestError as error:
        raise ManifestError(f"{path}: seat {place.name}: {error}") from None


def list_providers() -> int:
    """List the providers, which are on, and how to turn the others on. Keys are never shown."""
    on = enabled(environment())
    table = Table(box=None, pad_edge=False)
    for column in ("provider", "state", "wire", "address", "limits", "turned on by"):
        table.add_column(column, overflow="fold")
    for name, spec in PROVIDERS.items():
        config = on.get(name)
        variable = spec.key_variables[0] if spec.needs_key else spec.url_variable
        limits = [f"{spec.requests_per_minute:g} requests/min"] if spec.requests_per_minute else []
        limits += [f"{spec.concurrency} at once"] if spec.concurrency else []
        table.add_row(
            f"[bold]{name}[/]",
            "[green]on[/]" if config else "[dim]off[/]",
            spec.wire,
            config.base_url if config else spec.base_url,
            ", ".join(limits) or "none",
            "no real provider being on" if name == SIMULATOR else variable,
        )
    table_console().print(table)
    return 0


def doctor() -> int:
    """Say in plain words what is missing and how to get it. Exit 0 when runs can work, 3 otherwise."""
    from workers.cli.doctor import examine

    console = Console(highlight=False, soft_wrap=True)
    settings = load()
    # What a check logs, it also says.
    log.configure("ERROR", as_json=False)
    findings = examine(settings)
    for finding in findings:
        console.print(f"{_MARK[finding.state]:>8} {escape(finding.text)}")
    return 3 if any(finding.state == "missing" for finding in findings) else 0
