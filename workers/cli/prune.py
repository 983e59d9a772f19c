"""`consensus prune`: what is kept for how long."""

from __future__ import annotations

import datetime as dt
import re
from typing import Annotated

import typer
from rich.console import Console
from sqlalchemy import text

from workers.cli.database import opened
from workers.errors import InputError
from workers.provenance.session import Database
from workers.settings import load

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
#: Longer than there has been anything to keep.
_MOST_DAYS = 36_500


def register(app: typer.Typer) -> None:
    app.command()(prune)


def prune(
    older_than: Annotated[
        str, typer.Option("--older-than", metavar="AGE", help="as 90d: a number and m, h, d or w")
    ],
    is_dry: Annotated[bool, typer.Option("--dry-run", help="say what would go and change nothing")] = False,
) -> int:
    """Drop specs, code, prompts and replies of runs that ended longer ago, and uploads and readings of that age.

    Runs, verdicts, ledgers, digests, scores and reports stay. What a younger or an open run refers to stays too, and
    uploads that a scoring since then used. It works while everything runs, and may be stopped and started again."""
    from workers.provenance.retention.bodies import prune_runs
    from workers.provenance.retention.uploads import prune_uploads

    age = age_of(older_than)
    console = Console(highlight=False, soft_wrap=True)
    with opened(load(), may_create=False) as database:
        before = _now(database) - age
        bodies = prune_runs(database, before=before, is_dry=is_dry)
        uploads = prune_uploads(database, before=before, is_dry=is_dry)
    verb = "would go" if is_dry else "dropped"
    console.print(f"older than {older_than}, that is before {before.astimezone(dt.UTC):%Y-%m-%d %H:%M} UTC:")
    console.print(
        f"{verb}: {bodies.bodies:,} bodies ({size(bodies.bytes)}) of {bodies.runs:,} runs; "
        "verdicts and ledgers stay"
    )
    console.print(
        f"{verb}: {uploads.files:,} uploads, {uploads.blobs:,} files' bytes ({size(uploads.bytes)}), "
        f"{uploads.readings:,} readings; scores and reports stay"
    )
    if bodies.busy_runs:
        console.print(f"left for the next time: {bodies.busy_runs:,} runs, because others were writing")
    if uploads.busy_tenants:
        console.print(
            f"left for the next time: the uploads of {uploads.busy_tenants:,} tenants, because they are scoring"
        )
    return 0


def age_of(text_: str) -> dt.timedelta:
    """`90d` as a span of time. Raises: InputError."""
    found = re.fullmatch(r"([0-9]{1,8})([mhdw])", text_.strip())
    if found is None or int(found[1]) == 0:
        raise InputError(
            f"--older-than {text_[:40]!r}: give a whole number above 0 and a unit, m, h, d or w, as in 90d"
        )
    age = int(found[1]) * dt.timedelta(**{_UNITS[found[2]]: 1})
    if age.days > _MOST_DAYS:
        raise InputError(f"--older-than {text_[:40]}: is more than a hundred years; give less, as in 90d")
    return age


def size(count: int) -> str:
    """Bytes in a unit that suits them."""
    value = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} TB"


def _now(database: Database) -> dt.datetime:
    """By the server's clock, which wrote what is compared with it."""
    with database.single() as connection:
        now: dt.datetime = connection.execute(text("SELECT now()")).scalar_one()
    return now
