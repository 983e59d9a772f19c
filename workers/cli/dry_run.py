"""`run --dry-run`: what a run will cost. Asks the API that serves, else works it out here; starts nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from workers.cli.client import Client
from workers.cli.money import money
from workers.cli.reach import serving_url
from workers.core.budget import Budget, PriceOf
from workers.core.diff import parse_diff
from workers.providers.prices import price_of
from workers.settings import environment, load


def estimated(body: Mapping[str, Any]) -> dict[str, Any]:
    """The estimate of a request body, as `POST /v1/runs` with `dry_run` gives it. Raises: ConsensusError."""
    settings = load()
    url = serving_url(settings)
    if url is None:
        return estimate_here(body, environment())
    with Client(url, api_key=settings.api_key) as client:
        return client.create_run({**body, "dry_run": True})


def estimate_here(
    body: Mapping[str, Any], variables: Mapping[str, str], price_of: PriceOf = price_of
) -> dict[str, Any]:
    """The same without an API. With no provider on, the simulator answers, as it would if the run were started.

    Raises: InputError.
    """
    from workers.estimate import Submitted, check_priced, estimate, estimate_data
    from workers.providers.registry import PROVIDERS, SIMULATOR, enabled
    from workers.teams import load_team, prompt_environment

    simulator = PROVIDERS[SIMULATOR]
    prompts = prompt_environment()
    usd = body.get("budget_usd")
    budget = Budget(usd=None if usd is None else Decimal(str(usd)), tokens=body.get("budget_tokens"))
    result = estimate(
        load_team(body["team"], load().teams).team,
        Submitted(
            spec=body["spec"],
            files=parse_diff(body["diff"]).files if "diff" in body else body.get("files", {}),
            is_review=body.get("review", False),
            has_alarms="sarif" in body,
        ),
        enabled=enabled(variables) or enabled({simulator.url_variable: simulator.base_url}),
        price_of=price_of,
        render=lambda name, **values: prompts.get_template(name).render(**values),
    )
    check_priced(result, budget)
    return estimate_data(result, budget)


def print_estimate(estimate: Mapping[str, Any], console: Console) -> None:
    """A table that fits 80 columns: a row a seat, likely and worst case, and the totals."""
    table = Table(box=None, pad_edge=False, collapse_padding=True)
    # Names give way to numbers where the terminal is narrow.
    table.add_column("seat", overflow="fold", max_width=12)
    table.add_column("model", overflow="fold")
    for column in ("in", "out", "max out", "cost", "max cost"):
        table.add_column(column, justify="right", no_wrap=True)
    for seat in estimate["seats"]:
        model = seat["model"] if estimate["simulated"] else f"{seat['provider']}/{seat['model']}"
        table.add_row(escape(seat["seat"]), escape(model), *_cells(seat))
    table.add_section()
    table.add_row("[bold]total[/]", "", *_cells(estimate["total"]), style="bold")
    console.print(table)
    console.print(f"[dim]{_notes(estimate)}[/]")
    if estimate["simulated"]:
        console.print("[magenta]simulated[/] [dim]models, and prices made up for them[/]")
    verdict = _budget_line(estimate)
    if verdict:
        console.print(verdict)


def _cells(figures: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        f"{figures['input_tokens']:,}",
        f"{figures['output_tokens']:,}",
        f"{figures['worst_output_tokens']:,}",
        money(figures["cost_usd"]),
        money(figures["worst_cost_usd"]),
    )


def _notes(estimate: Mapping[str, Any]) -> str:
    note = "tokens and US dollars for one call a seat; asking again costs more. Nothing was sent."
    unpriced = estimate["unpriced"]
    if unpriced:
        models = "these models" if len(unpriced) > 3 else ", ".join(unpriced)
        note += f" No price is known for {'some of ' if len(unpriced) > 3 else ''}{escape(models)}."
    return note


def _budget_line(estimate: Mapping[str, Any]) -> str:
    limits = [money(estimate["budget_usd"])] if estimate["budget_usd"] is not None else []
    limits += [f"{estimate['budget_tokens']:,} tokens"] if estimate["budget_tokens"] is not None else []
    if not limits:
        return ""
    if estimate["fits_budget"]:
        return f"[green]fits[/] the budget of {' and '.join(limits)}, even at the worst"
    starved = _starved(estimate)
    if starved:
        return (
            f"[red]does not fit[/] the budget of {' and '.join(limits)}: beside the lead's share there is no room for "
            f"{starved}, and the run would end degraded"
        )
    return f"[yellow]may not fit[/] the budget of {' and '.join(limits)}; seats that do not will be left out"


def _starved(estimate: Mapping[str, Any]) -> str:
    """Whom the budget leaves out from the start, where no run goes on without them; else empty. A call is let
    through if its worst case fits beside the lead's (`workers.core.budget.refusal`)."""
    by_stage: dict[str, list[Mapping[str, Any]]] = {}
    for seat in estimate["seats"]:
        by_stage.setdefault(seat["stage"], []).append(seat)
    leads = by_stage.get("lead", [])
    for stage, name in (("coder", "the coder"), ("panel", "any reviewer")):
        seats = by_stage.get(stage, [])
        if seats:
            return "" if any(_has_room(estimate, [seat, *leads]) for seat in seats) else name
    return ""


def _has_room(estimate: Mapping[str, Any], seats: Sequence[Mapping[str, Any]]) -> bool:
    usd, tokens = estimate["budget_usd"], estimate["budget_tokens"]
    worst_tokens = sum(seat["worst_input_tokens"] + seat["worst_output_tokens"] for seat in seats)
    # Half a millionth: what adding rounded dollars as binary fractions may be off by.
    worst_usd = sum(seat["worst_cost_usd"] or 0.0 for seat in seats) - 5e-7
    return (tokens is None or worst_tokens <= tokens) and (usd is None or worst_usd <= usd)
