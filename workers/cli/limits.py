"""`consensus limits show|set`: what providers may be asked, and what is going on (DESIGN §7)."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.table import Table

from workers.cli.inspect import table_console
from workers.cli.reach import connected
from workers.errors import InputError
from workers.governor.limit_book import ANY_FAMILY

#: Column heads, by the name of the limit.
_NAMES = {
    "requests_per_minute": "requests/min",
    "input_tokens_per_minute": "tokens in/min",
    "output_tokens_per_minute": "tokens out/min",
    "requests_per_day": "requests/day",
    "concurrency": "at once",
}


def register(app: typer.Typer) -> None:
    limits = typer.Typer(help="Limits of the model providers: show, set.", no_args_is_help=True)
    limits.command(name="show")(show)
    limits.command(name="set")(set_limits)
    app.add_typer(limits, name="limits")


def show(
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table")] = False,
) -> int:
    """Show the limits that hold for each provider and family, and what is going on in them."""
    with connected(may_start=False) as client:
        entries = client.limits()
    if as_json:
        print(json.dumps(entries, indent=2))  # noqa: T201
        return 0
    table = Table(box=None, pad_edge=False)
    table.add_column("provider/family", no_wrap=True)
    for head in _NAMES.values():
        table.add_column(head, justify="right")
    table.add_column("now", overflow="fold")
    for entry in entries:
        name = f"{entry['provider']}/{entry['family']}"
        table.add_row(
            f"[bold]{name}[/]" if entry["is_set"] else name,
            *(_number(entry[limit]) for limit in _NAMES),
            _now(entry["live"]),
        )
    console = table_console()
    console.print(table)
    if any(entry["is_set"] for entry in entries):
        console.print("[dim]bold: set by `consensus limits set`; the others are defaults[/]")
    return 0


def set_limits(
    place: Annotated[str, typer.Argument(help="PROVIDER, or PROVIDER/FAMILY for one model family")],
    changes: Annotated[
        list[str],
        typer.Argument(help="NAME=NUMBER, NAME=none for no such limit, or the one word `default`"),
    ],
) -> int:
    """Change limits while everything runs; workers keep to them within seconds.

    Names: requests_per_minute, input_tokens_per_minute, output_tokens_per_minute, requests_per_day, concurrency.
    What is not named stays as it is.
    """
    provider, _, family = place.partition("/")
    family = family or ANY_FAMILY
    with connected(may_start=False) as client:
        if changes == ["default"]:
            client.reset_limits(provider, family)
            table_console().print(f"{provider}/{family}: the defaults hold again")
            return 0
        wanted = dict(map(_change, changes))
        known = {(entry["provider"], entry["family"]): entry for entry in client.limits()}
        before: dict[str, Any] = known.get((provider, family)) or known.get((provider, ANY_FAMILY)) or {}
        kept = {name: before.get(name) for name in _NAMES}
        entry = client.set_limits(provider, family, {**kept, **wanted})
    shown = ", ".join(f"{head} {_number(entry[name])}" for name, head in _NAMES.items())
    table_console().print(f"{provider}/{family}: {shown}")
    return 0


def _change(text: str) -> tuple[str, float | int | None]:
    name, equals, value = text.partition("=")
    if not equals or name not in _NAMES:
        raise InputError(
            f"{text!r} is not a change; write NAME=NUMBER with a name out of {', '.join(_NAMES)}"
        )
    if value == "none":
        return name, None
    is_whole = name in ("requests_per_day", "concurrency")
    try:
        return name, int(value) if is_whole else float(value)
    except ValueError:
        kind = "a whole number" if is_whole else "a number"
        raise InputError(f"{name} is {value!r}; give {kind} above 0, or none") from None


def _number(value: float | None) -> str:
    return "[dim]-[/]" if value is None else f"{value:,.0f}"


def _now(live: dict[str, Any] | None) -> str:
    if live is None:
        return ""
    parts = [f"{live['running']} running"]
    waiting = live["waiting_interactive"] + live["waiting_batch"]
    if waiting:
        parts.append(f"{waiting} waiting")
    if live["blocked_seconds"] > 0:
        parts.append(f"[red]blocked for {live['blocked_seconds']:.0f} s[/]")
    if live["adaptive_concurrency"] is not None:
        parts.append(f"[yellow]slowed to {live['adaptive_concurrency']:.0f} at once[/]")
    if live["requests_today"]:
        parts.append(f"{live['requests_today']:,} today")
    return ", ".join(parts)
