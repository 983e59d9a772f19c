"""A run's record on a terminal: its events, its calls, and where its heads were put on record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from workers.cli.view import clean

#: Columns that a call takes with its id and its digests.
_WIDE = 180
#: What of a payload says in a glance what the event was about.
_TELLING = ("seat", "stage", "provider", "model_served", "outcome", "cause", "why")


def print_record(document: Mapping[str, Any], console: Console) -> None:
    """`document`: an export, unchecked; whatever it says is shown harmlessly."""
    run = document["run"]
    console.print(
        f"[bold]{escape(clean(run['run_id']))}[/] team {escape(clean(run['team']))}, "
        f"{escape(clean(run['outcome'] or run['state']))}, {run['seq']} events, head {escape(str(run['head']))}"
    )
    console.print(_events(document))
    if document["calls"]:
        is_wide = console.width >= _WIDE
        console.print(_calls(document, is_wide=is_wide))
        if not is_wide:
            console.print(
                "[dim]try: pass, place in the chain, attempt. Providers, ids and digests of the calls: "
                f"on {_WIDE} columns, through a pipe, or by `consensus provenance export`[/]"
            )
    for head in document["heads"]:
        signature = head["signature"]
        signed = f"signed by {signature['key_id']}" if signature else "unsigned"
        console.print(f"head after event {head['seq']}: {escape(str(head['head']))} {escape(signed)}")
    console.print("[dim]shown, not checked: `consensus provenance verify` does that[/]")


def _events(document: Mapping[str, Any]) -> Table:
    table = Table("seq", "at", "event", "about", "payload", box=None, pad_edge=False)
    for event in document["events"]:
        digest = event["payload_digest"]
        body = document["payloads"].get(digest)
        table.add_row(
            str(event["seq"]),
            str(event["at"])[:19],
            escape(clean(event["kind"])),
            "[dim]gone[/]" if body is None else escape(_about(body)),
            escape(str(digest)[:12]),
        )
    return table


def _about(body: str) -> str:
    try:
        payload = json.loads(body)
    except ValueError:
        return "cannot be read"
    if not isinstance(payload, dict):
        return ""
    return " ".join(clean(str(payload[name])) for name in _TELLING if payload.get(name))[:100]


def _calls(document: Mapping[str, Any], *, is_wide: bool) -> Table:
    """`is_wide`: there is room for providers, ids and digests; else what tells one call from another at a glance."""
    short = ("seat", "model", "try", "state", "rung", "tokens", "USD")
    table = Table(box=None, pad_edge=False)
    for name in ("call", *short, "prompt", "reply") if is_wide else short:
        table.add_column(name, overflow="fold", min_width=len(name))
    for call in document["calls"]:
        asked, served = call["model_asked"], call["model_served"]
        named = asked if served == asked else f"{asked} → {served or '-'}"
        cells = [
            f"{call['stage']}/{call['seat']}",
            f"{call['provider']}/{named}" if is_wide else named,
            f"{call['pass_number']}.{call['link']}.{call['attempt']}",
            call["error_kind"] or call["state"],
            "-" if call["rung"] is None else call["rung"],
            f"{call['input_tokens']}+{call['output_tokens']}",
            call["cost_usd"] or "-",
        ]
        if is_wide:
            cells = [call["call_id"], *cells, call["request_digest"][:12], (call["reply_digest"] or "-")[:12]]
        table.add_row(*(escape(clean(str(cell))) for cell in cells))
    return table
