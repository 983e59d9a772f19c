"""Commands that look: teams, providers, and whether everything needed is there."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from workers import log
from workers.cli.reach import connected
from workers.cli.view import counted
from workers.core.team import family_of
from workers.errors import ManifestError, UnavailableError
from workers.providers.registry import PROVIDERS, SIMULATOR, enabled
from workers.settings import environment, load
from workers.teams import check_team, expand, load_team, load_teams, schema_text, team_files

_MARK = {"ok": "[green]ok[/]", "note": "[yellow]note[/]", "missing": "[bold red]missing[/]"}


def register(app: typer.Typer) -> None:
    teams = typer.Typer(help="Teams: list, show, validate, and the schema for editors.", no_args_is_help=True)
    teams.command(name="list")(list_teams)
    teams.command(name="show")(show_team)
    teams.command(name="validate")(validate_teams)
    teams.command(name="schema")(print_schema)
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
            f"[bold]{team.name}[/]" + "".join(f", {escape(alias)}" for alias in team.aliases),
            ", ".join(team.reviewers),
            ", ".join(sorted(families)),
            f"{counted(quorum.heads, 'head')}, {counted(quorum.families, 'family', 'families')}",
            str(entry.path),
        )
    table_console().print(table)
    return 0


def show_team(name: Annotated[str, typer.Argument(help="a team's name")]) -> int:
    """Print one team as YAML, with every default filled in."""
    entry = load_team(name, load().teams)
    print(yaml.safe_dump(entry.team.manifest(), sort_keys=False, allow_unicode=True, width=100), end="")  # noqa: T201
    return 0


def validate_teams(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="team files or folders; default: all that are known")
    ] = None,
) -> int:
    """Check team files. Every fault gets file, line, field and what is allowed; exit 3."""
    console = Console(highlight=False, soft_wrap=True)
    faults = 0
    for path in expand(paths) if paths else team_files(load().teams):
        try:
            team = check_team(path).team
        except ManifestError as error:
            faults += len(error.faults)
            for fault in error.faults:
                console.print(f"[bold red]bad[/]  {escape(fault)}")
        else:
            console.print(f"[green]good[/] {escape(str(path))}: {team.name}, {len(team.reviewers)} reviewers")
    return 3 if faults else 0


def print_schema() -> int:
    """Print the JSON Schema of team files, as it stands in teams/schema.json."""
    print(schema_text(), end="")  # noqa: T201
    return 0


def list_providers(
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table")] = False,
) -> int:
    """List the providers, how their accounts are doing, and how to turn the others on. Keys are never shown.

    What a running server knows is asked of it; without one, what this shell's environment says is shown.
    """
    try:
        with connected(may_start=False) as client:
            entries = client.providers()
    except UnavailableError as error:
        entries = _providers_of_this_shell()
        Console(stderr=True, highlight=False, soft_wrap=True).print(
            f"[yellow]note:[/] {escape(str(error))}; shown is what this shell's environment turns on"
        )
    if as_json:
        print(json.dumps(entries, indent=2))  # noqa: T201
        return 0
    print_providers(entries, table_console(), now=dt.datetime.now(dt.UTC))
    return 0


def print_providers(entries: Sequence[Mapping[str, Any]], console: Console, *, now: dt.datetime) -> None:
    """A table of what `GET /v1/providers` lists, and whether low-quota mode is on."""
    table = Table(box=None, pad_edge=False)
    for column in ("provider", "state", "wire", "address", "turned on by"):
        table.add_column(column, overflow="fold")
    for entry in entries:
        spec = PROVIDERS[entry["name"]]
        variable = spec.key_variables[0] if spec.needs_key else spec.url_variable
        table.add_row(
            f"[bold]{entry['name']}[/]",
            _state(entry, now),
            entry["wire"],
            escape(entry["address"]),
            "no other being on" if entry["name"] == SIMULATOR else variable,
        )
    console.print(table)
    for entry in entries:
        account = entry["account"]
        if entry["on"] and account and account["state"] in ("low", "quota") and not _is_over(account, now):
            reason = escape(str(account["reason"]))
            console.print(
                f"[yellow]low-quota mode is on[/] ({entry['name']}: {reason}): cheap models for everyone but the lead"
            )
            break


def _state(entry: Mapping[str, Any], now: dt.datetime) -> str:
    if not entry["on"]:
        return "[dim]off[/]"
    account = entry["account"]
    if account is None or account["state"] == "good":
        return "[green]on[/]"
    if account["state"] == "low":
        return f"[yellow]low quota {_until(account)}[/]"
    when = "the next call tries it" if _is_over(account, now) else _until(account)
    return f"[red]left alone: {escape(account['state'])}, {when}[/]"


def _until(account: Mapping[str, Any]) -> str:
    return f"until {dt.datetime.fromisoformat(account['until']).astimezone(dt.UTC):%H:%M} UTC"


def _is_over(account: Mapping[str, Any], now: dt.datetime) -> bool:
    """Whether the time for which the account was to be left alone has passed."""
    return account["until"] is None or dt.datetime.fromisoformat(account["until"]) <= now


def _providers_of_this_shell() -> list[dict[str, Any]]:
    """As `GET /v1/providers` lists them, with nothing known of their accounts."""
    on = enabled(environment())
    return [
        {
            "name": name,
            "on": name in on,
            "wire": spec.wire,
            "address": on[name].base_url if name in on else spec.base_url,
            "cheap_model": spec.cheap_model,
            "account": None,
        }
        for name, spec in PROVIDERS.items()
    ]


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
