"""`consensus keys create|list|revoke|rotate`: who may use the API. Works on the database, so the first can be made."""

from __future__ import annotations

import datetime as dt
import json
import re
import secrets
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from workers.cli.database import opened
from workers.cli.inspect import table_console
from workers.cli.plain import plain
from workers.core.access import Scope
from workers.errors import InputError
from workers.key_text import KEY_CHANCE_BYTES, KeyText, make_key
from workers.provenance.models import DEFAULT_TENANT
from workers.provenance.repository import api_keys
from workers.provenance.repository.api_keys import ApiKey, NewKey
from workers.settings import load

_UNITS = {"m": "minutes", "h": "hours", "d": "days"}
_LONGEST = dt.timedelta(days=36_500)
_MOST_A_MINUTE = 1_000_000

KeyId = Annotated[str, typer.Argument(metavar="KEY", help="csk_…, as `consensus keys list` shows it")]


def register(app: typer.Typer) -> None:
    keys = typer.Typer(help="API keys: create, list, revoke, rotate.", no_args_is_help=True)
    keys.command(name="create")(create)
    keys.command(name="list")(list_keys)
    keys.command(name="revoke")(revoke)
    keys.command(name="rotate")(rotate)
    app.add_typer(keys, name="keys")


def create(
    name: Annotated[str, typer.Argument(help="what the key is for, in words of your own")],
    scope: Annotated[
        Scope, typer.Option(help="what it may do; each scope includes those before it")
    ] = Scope.SUBMIT,
    tenant: Annotated[
        str, typer.Option(help="whose runs, batches and scorings it sees and makes")
    ] = DEFAULT_TENANT,
    expires: Annotated[str | None, typer.Option(help="after 30m, 12h, 90d …; default: never")] = None,
    per_minute: Annotated[
        int | None, typer.Option(min=1, max=_MOST_A_MINUTE, help="requests a minute; default: no limit")
    ] = None,
) -> int:
    """Make a key and print it, once: only its digest is kept."""
    at = dt.datetime.now(dt.UTC)
    new = NewKey(
        name=_name(name),
        scope=scope,
        tenant_id=_tenant(tenant),
        expires_at=None if expires is None else at + span(expires, "--expires"),
        requests_per_minute=per_minute,
    )
    made = _new_key()
    with opened(load()) as database, database.begin() as connection:
        kept = api_keys.create(connection, new, made, at=at)
    _hand_over(made, kept)
    return 0


def list_keys(
    as_json: Annotated[bool, typer.Option("--json", help="JSON instead of a table")] = False,
) -> int:
    """Show every key but its secret, which nobody has."""
    at = dt.datetime.now(dt.UTC)
    with opened(load()) as database, database.begin() as connection:
        found = api_keys.listed(connection)
    if as_json:
        print(json.dumps([_data(key, at) for key in found], indent=2))  # noqa: T201
        return 0
    _print(found, table_console(), at=at)
    return 0


def revoke(key_id: KeyId) -> int:
    """End a key, and the browser sessions made with it, now."""
    with opened(load()) as database, database.begin() as connection:
        key = api_keys.revoke(connection, _key_id(key_id), at=dt.datetime.now(dt.UTC))
    _say(f"{key.key_id} ({key.name}) opens nothing any more")
    return 0


def rotate(
    key_id: KeyId,
    grace: Annotated[str, typer.Option(help="how long the old one goes on: 0m, 12h, 7d …")] = "24h",
) -> int:
    """Print a new key in the place of an old one, which goes on for a while."""
    made = _new_key()
    with opened(load()) as database, database.begin() as connection:
        old, new = api_keys.rotate(
            connection,
            _key_id(key_id),
            made,
            at=dt.datetime.now(dt.UTC),
            grace=span(grace, "--grace", least=dt.timedelta(0)),
        )
    _hand_over(made, new)
    _say(f"{old.key_id} goes on until {_moment(old.expires_at)}")
    return 0


def span(text: str, what: str, *, least: dt.timedelta = dt.timedelta(minutes=1)) -> dt.timedelta:
    """A number of minutes, hours or days. Raises: InputError."""
    match = re.fullmatch(r"(\d{1,6})([mhd])", text.strip())
    found = dt.timedelta(**{_UNITS[match[2]]: int(match[1])}) if match else None
    if found is None or not least <= found <= _LONGEST:
        raise InputError(f"{what} {text[:40]!r}: write a number and m, h or d, as in 30m, 12h or 90d")
    return found


def _new_key() -> KeyText:
    return make_key(secrets.token_bytes(KEY_CHANCE_BYTES))


def _hand_over(made: KeyText, kept: ApiKey) -> None:
    """The key alone on standard output, so that it can go into a file; what is said of it beside."""
    limit = "" if kept.requests_per_minute is None else f", {kept.requests_per_minute:,} requests a minute"
    end = "" if kept.expires_at is None else f", until {_moment(kept.expires_at)}"
    _say(f"{kept.key_id} ({kept.name}): {kept.scope} for the tenant {kept.tenant_id}{limit}{end}")
    _say(
        "This is the only time that it is shown; commands take it from CONSENSUS_API_KEY or CONSENSUS_API_KEY_FILE."
    )
    print(made.text)  # noqa: T201


def _say(text: str) -> None:
    Console(stderr=True, highlight=False, soft_wrap=True).print(escape(plain(text)))


def _name(text: str) -> str:
    name = text.strip()
    if not 1 <= len(name) <= 100 or not name.isprintable():
        raise InputError("a key's name must have 1 to 100 printable characters")
    if "csk_" in name:
        raise InputError("this name holds a key; write what the key is for")
    return name


def _tenant(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,62}", text):
        raise InputError(
            f"--tenant {text[:40]!r}: write 1 to 63 of a-z, 0-9 and -, not beginning with -, as in acme"
        )
    return text


def _key_id(text: str) -> str:
    """Also of a whole key, so that one that leaked can be pasted."""
    return "_".join(text.strip().split("_")[:2])


def _data(key: ApiKey, at: dt.datetime) -> dict[str, object]:
    return {
        "id": key.key_id,
        "name": key.name,
        "scope": key.scope.value,
        "tenant": key.tenant_id,
        "state": key.state(at),
        "requests_per_minute": key.requests_per_minute,
        "created_at": key.created_at.isoformat(),
        "expires_at": None if key.expires_at is None else key.expires_at.isoformat(),
        "revoked_at": None if key.revoked_at is None else key.revoked_at.isoformat(),
        "last_used_at": None if key.last_used_at is None else key.last_used_at.isoformat(),
        "replaced_by": key.replaced_by,
    }


def _print(found: Sequence[ApiKey], console: Console, *, at: dt.datetime) -> None:
    if not found:
        console.print("there is no key; `consensus keys create NAME` makes one")
        return
    table = Table(box=None, pad_edge=False, collapse_padding=True)
    for head in ("key", "name", "scope", "tenant", "state", "a minute", "last used", "until"):
        table.add_column(head, overflow="fold", justify="right" if head == "a minute" else "left")
    for key in found:
        table.add_row(
            key.key_id,
            escape(plain(key.name)),
            key.scope,
            key.tenant_id,
            key.state(at),
            "" if key.requests_per_minute is None else f"{key.requests_per_minute:,}",
            _moment(key.last_used_at) if key.last_used_at else "never",
            _moment(key.expires_at) if key.expires_at else "",
        )
    console.print(table)


def _moment(at: dt.datetime | None) -> str:
    return "" if at is None else at.astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
