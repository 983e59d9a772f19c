"""`consensus limits show|set`: what providers may be asked, and what is going on (DESIGN §7)."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from workers.cli.client import Client
from workers.cli.inspect import table_console
from workers.cli.reach import connected
from workers.errors import InputError
from workers.governor.limit_book import ANY_FAMILY
from workers.providers.registry import PROVIDERS

#: What a limit is called in sentences and over its column, by its name.
_NAMES = {
    "requests_per_minute": ("requests/min", "req/min"),
    "input_tokens_per_minute": ("tokens in/min", "in/min"),
    "output_tokens_per_minute": ("tokens out/min", "out/min"),
    "requests_per_day": ("requests/day", "req/day"),
    "concurrency": ("at once", "at once"),
}
_WHOLE = frozenset({"requests_per_day", "concurrency"})


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
    print_limits(entries, table_console())
    return 0


def print_limits(entries: Sequence[Mapping[str, Any]], console: Console) -> None:
    """A table of what `GET /v1/limits` lists."""
    if not entries:
        console.print("no provider is on where the server runs, and no limits are set")
        return
    table = Table(box=None, pad_edge=False, collapse_padding=True)
    table.add_column("provider/family", overflow="fold")
    for _, head in _NAMES.values():
        table.add_column(head, justify="right", no_wrap=True)
    table.add_column("now", overflow="fold")
    for entry in entries:
        name = f"{entry['provider']}/{entry['family']}"
        table.add_row(
            f"[bold]{name} (set)[/]" if entry["is_set"] else name,
            *(_short(entry[limit]) for limit in _NAMES),
            _now(entry["live"], entry["concurrency"]),
        )
    console.print(table)
    if any(entry["is_set"] for entry in entries):
        console.print("[dim](set): by `consensus limits set`; the others are defaults[/]")


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
    provider, family = _place(place)
    with connected(may_start=False) as client:
        if changes == ["default"]:
            client.reset_limits(provider, family)
            print(f"{provider}/{family}: the defaults hold again")  # noqa: T201
            return 0
        wanted = dict(map(_change, changes))
        entry = client.set_limits(provider, family, {**_held(client, provider, family), **wanted})
    shown = ", ".join(
        f"{name} {'none' if entry[limit] is None else _number(entry[limit])}"
        for limit, (name, _) in _NAMES.items()
    )
    print(f"{provider}/{family}: {shown}")  # noqa: T201
    return 0


def _place(text: str) -> tuple[str, str]:
    """(provider, family) as they were written, the family * where none was."""
    provider, slash, family = text.partition("/")
    if not provider or "/" in family or (slash and not family):
        raise InputError(
            f"{text!r} is no place for limits; write PROVIDER, or PROVIDER/FAMILY as in openai/gpt"
        )
    return provider, family or ANY_FAMILY


def _held(client: Client, provider: str, family: str) -> dict[str, Any]:
    """The limits that hold for the place now. The server lists the providers that are on there; for another one
    they are what it is known to allow."""
    listed = {(entry["provider"], entry["family"]): entry for entry in client.limits()}
    entry = listed.get((provider, family)) or listed.get((provider, ANY_FAMILY))
    if entry is not None:
        return {name: entry[name] for name in _NAMES}
    spec = PROVIDERS.get(provider)
    return {name: getattr(spec, name, None) for name in _NAMES}


def _change(text: str) -> tuple[str, float | int | None]:
    name, equals, value = text.partition("=")
    if not equals or name not in _NAMES:
        raise InputError(
            f"{text!r} is not a change; write NAME=NUMBER with a name out of {', '.join(_NAMES)}"
        )
    if value == "none":
        return name, None
    try:
        number = int(value) if name in _WHOLE else float(value)
    except ValueError:
        number = 0
    if not 0 < number < math.inf:
        kind = "a whole number" if name in _WHOLE else "a number"
        raise InputError(f"{name} is {value[:40]!r}; give {kind} above 0, or none")
    return name, number


def _number(value: float) -> str:
    if value == int(value):
        return f"{value:,.0f}"
    # A small one is never rounded to 0, which would be a limit that lets nobody through.
    return f"{value:,.2f}" if value >= 0.01 else f"{value:.2g}"


def _short(value: float | None) -> str:
    """For a narrow column: round thousands as 500k, round millions as 2M."""
    if value is None:
        return "[dim]-[/]"
    if value >= 1_000_000 and value % 100_000 == 0:
        return f"{value / 1_000_000:,.1f}".removesuffix(".0") + "M"
    if value >= 10_000 and value % 1_000 == 0:
        return f"{value / 1_000:,.0f}k"
    return _number(value)


def _now(live: Mapping[str, Any] | None, concurrency: int | None) -> str:
    if live is None:
        return ""
    parts = [f"{live['running']:,} running"]
    waiting = live["waiting_interactive"] + live["waiting_batch"]
    if waiting:
        parts.append(f"{waiting:,} waiting")
    if live["blocked_seconds"] > 0:
        parts.append(f"[red]blocked {math.ceil(live['blocked_seconds'])} s[/]")
    # Without refusals it is the limit itself.
    adaptive = live["adaptive_concurrency"]
    if adaptive is not None and concurrency is not None and adaptive < concurrency:
        parts.append(f"[yellow]slowed to {adaptive:.0f}[/]")
    if live["requests_today"]:
        parts.append(f"{live['requests_today']:,} today")
    return ", ".join(parts)
