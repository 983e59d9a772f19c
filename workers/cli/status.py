"""`status`, `cancel`, `pause` and `resume`: a run or a batch by its id."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from workers.cli.batch_follow import watch
from workers.cli.batch_view import BatchView, batch_panel, many
from workers.cli.client import Client, RunEvent
from workers.cli.follow import follow_one
from workers.cli.money import usage_line
from workers.cli.reach import connected
from workers.cli.run import EXIT_CODES, AsJson, budget_fields, print_json, print_verdict
from workers.cli.view import RunView, clean, outcome_text
from workers.errors import InputError

BatchId = Annotated[str, typer.Argument(metavar="BATCH", help="a batch's id")]
AnyId = Annotated[str, typer.Argument(metavar="ID", help="a run's or a batch's id")]


def register(app: typer.Typer) -> None:
    app.command()(status)
    app.command()(cancel)
    app.command()(pause)
    app.command()(resume)


def is_batch(name: str) -> bool:
    """Whether this is a batch's id rather than a run's. Raises: InputError if it is neither's."""
    if name.startswith("batch_"):
        return True
    if name.startswith("run_"):
        return False
    raise InputError(
        f"{name[:80]!r} is no id; a run's looks like run_01… and a batch's like batch_01… "
        "(`consensus run` and `consensus submit` print them)"
    )


def status(
    name: AnyId,
    watch_it: Annotated[bool, typer.Option("--watch", help="follow it to its end")] = False,
    as_json: AsJson = False,
) -> int:
    """Show a run or a batch as it is now, or follow it.

    Exit code: 0; with --watch 0 accepted, 1 rejected, 2 degraded, 4 cancelled, of a batch the worst of its runs.
    """
    with connected(may_start=False) as client:
        if not is_batch(name):
            return _run_status(client, name, watch_it=watch_it, as_json=as_json)
        code = watch(client, name, as_json=as_json) if watch_it else 0
        if as_json:
            print_json(client.batch(name))
        elif not watch_it:
            _print_batch(client.batch(name))
    return code


def _print_batch(detail: Mapping[str, Any]) -> None:
    console = Console(highlight=False)
    console.print(batch_panel(BatchView.of(detail), now=dt.datetime.now(dt.UTC)))
    for line in detail["skipped_lines"][:5]:
        console.print(f"[yellow]left out[/] line {line['line']}: {escape(clean(line['problem']))}")


def _run_status(client: Client, run_id: str, *, watch_it: bool, as_json: bool) -> int:
    detail = client.run(run_id)
    view = RunView(title=clean(detail["external_id"] or detail["id"]), run_id=detail["id"])
    code = 0
    if watch_it:
        follow_one(client, view, Console(stderr=as_json, highlight=False))
        detail = client.run(run_id)
        code = EXIT_CODES.get(detail["outcome"] or detail["state"], 2)
    if as_json:
        print_json(detail)
        return code
    if not watch_it:
        for event in client.provenance(run_id)["events"]:
            # Of one whose payload was dropped nothing is left to show.
            if event["payload"] is not None:
                view.apply(_event(event))
    console = Console(highlight=False)
    if detail["state"] in {"finished", "cancelled"}:
        print_verdict(view, detail, console)
    else:
        console.print(_seats(view, detail))
        console.print(f"[dim]{usage_line(detail)}[/]")
    if detail["gone"]:
        console.print(f"[dim]{escape(clean(detail['gone']))}[/]", soft_wrap=True)
    return code


def _event(item: Mapping[str, Any]) -> RunEvent:
    return RunEvent(seq=item["seq"], kind=item["kind"], at=item["at"], payload=item["payload"])


def _seats(view: RunView, detail: Mapping[str, Any]) -> Table:
    table = Table(title=f"{detail['state']}: {detail['id']}", box=None)
    for column in ("stage", "seat", "state", "note"):
        table.add_column(column)
    for seat in view.seats.values():
        table.add_row(seat.stage, seat.name, seat.state, escape(seat.note))
    return table


def cancel(name: AnyId, as_json: AsJson = False) -> int:
    """Cancel a run or a batch; model calls under way are broken off. What has ended stays as it ended."""
    with connected(may_start=False) as client:
        if is_batch(name):
            return _change(client, name, "cancel", as_json=as_json)
        detail = client.cancel(name)
    if as_json:
        print_json(detail)
    elif detail["state"] == "cancelled":
        Console(highlight=False).print(outcome_text("cancelled"), detail["id"])
    else:
        Console(highlight=False).print(detail["id"], "had already ended:", outcome_text(detail["outcome"]))
    return 0


def pause(name: BatchId, as_json: AsJson = False) -> int:
    """Send no more runs of a batch; those under way go on to their end."""
    _check_batch(name, "paused")
    with connected(may_start=False) as client:
        return _change(client, name, "pause", as_json=as_json)


def resume(
    name: BatchId,
    budget_usd: Annotated[
        float | None, typer.Option(metavar="USD", help="the whole batch may spend this; more than before")
    ] = None,
    budget_tokens: Annotated[
        int | None, typer.Option(metavar="N", help="the whole batch may use so many tokens; more than before")
    ] = None,
    as_json: AsJson = False,
) -> int:
    """Let a paused batch go on. One whose budget is used up needs a larger one."""
    _check_batch(name, "resumed")
    budget = budget_fields(budget_usd, budget_tokens)
    with connected(may_start=False) as client:
        return _change(client, name, "resume", as_json=as_json, budget=budget)


def _check_batch(name: str, done: str) -> None:
    if not is_batch(name):
        raise InputError(f"{name} is a run, and only batches can be {done}; a run can be cancelled")


def _change(
    client: Client, name: str, change: str, *, as_json: bool, budget: Mapping[str, Any] | None = None
) -> int:
    detail = client.change_batch(name, change, budget)
    if as_json:
        print_json(detail)
    else:
        Console(highlight=False, soft_wrap=True).print(_changed(change, BatchView.of(detail)))
    return 0


def _changed(change: str, view: BatchView) -> str:
    """What a change came to, in a sentence."""
    under_way, waiting = many(view.counts["running"], "run"), many(view.counts["waiting"], "run")
    if view.state == "paused":
        return f"[yellow]paused[/] {view.batch_id}: {waiting} waiting, {under_way} under way to the end"
    if view.state == "cancelled":
        return f"[dim]cancelled[/] {view.batch_id}: {many(view.ended - view.counts['cancelled'], 'run')} had ended"
    if view.state == "finished":
        return f"{view.batch_id} has ended: nothing to {change}"
    return f"[cyan]running[/] {view.batch_id}: {under_way} under way, {waiting} waiting"
