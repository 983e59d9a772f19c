"""Scorings: list and start, one while it runs and when it has finished, the leaderboard, nights."""

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from api.dependencies import InspectorHere, ScoringCursorHere, Services, ServicesHere, TenantHere
from api.plain_text import PlainText
from api.routers import scoring_reports, scoring_runs, scorings
from api.scoring_schemas import ScoringDetail, ScoringSummary
from api.web.rendering import PageRoute, render
from api.web.trajectories import upload_sets
from workers.core.scoring import OPEN_STATES, STAGES, ScoringState
from workers.inspection.figures import figures
from workers.provenance.repository import assessments
from workers.provenance.repository import scorings as scoring_rows
from workers.provenance.repository.scored_runs import Order

router = APIRouter(route_class=PageRoute)

_SCORINGS_AT_ONCE = 30
_RUNS_AT_ONCE = 50
_PROBLEMS_SHOWN = 200
_SKIPPED_SHOWN = 50
_NIGHTS_SHOWN = 60
TIERS = ("ideal", "solid", "lucky", "partial_failure", "off_track")


@router.get("/scorings")
def list_page(services: ServicesHere, tenant: TenantHere, cursor: ScoringCursorHere) -> Response:
    page = scorings.list_scorings(services, tenant, cursor, limit=_SCORINGS_AT_ONCE)
    return render(
        "scorings.html",
        values={
            "scorings": page.scorings,
            "next_cursor": page.next_cursor,
            "is_first": cursor is None,
            "sets": upload_sets(services, tenant),
            "is_open": any(scoring.state in OPEN_STATES for scoring in page.scorings),
        },
    )


@router.get("/scorings/{scoring_id}")
def scoring_page(
    scoring_id: str,
    services: ServicesHere,
    inspector: InspectorHere,
    tenant: TenantHere,
    cursor: Annotated[str | None, Query(max_length=60)] = None,
    order: Order = Order.WORST,
    tier: Annotated[str, Query(max_length=40)] = "",
    model: Annotated[str, Query(max_length=500)] = "",
    mechanism: Annotated[str, Query(max_length=10)] = "",
    outcome: Annotated[str, Query(max_length=10)] = "",
) -> Response:
    scoring = scorings.show(scoring_id, services, tenant)
    if scoring.state is not ScoringState.FINISHED:
        return _unfinished(scoring, services, tenant)
    summary = _summary(services, scoring_id)
    runs = scoring_runs.list_runs(
        scoring_id,
        services,
        tenant,
        cursor=cursor,
        limit=_RUNS_AT_ONCE,
        order=order,
        tier=tier or None,
        model=model or None,
        mechanism=mechanism or None,
        outcome=outcome or None,
    )
    return render(
        "scoring.html",
        values={
            "scoring": scoring,
            "summary": summary,
            "figures": figures(summary),
            "charts": inspector.charts(scoring_id, tenant_id=tenant),
            "skipped": _skipped(services, scoring_id),
            "runs": runs,
            "filters": {
                "tier": tier,
                "model": model,
                "mechanism": mechanism,
                "outcome": outcome,
                "order": order.value,
            },
            "tiers": TIERS,
        },
    )


def _unfinished(scoring: ScoringDetail, services: Services, tenant: str) -> Response:
    problems = scorings.problems(scoring.id, services, tenant, limit=_PROBLEMS_SHOWN)
    return render(
        "scoring_open.html",
        values={
            "scoring": scoring,
            "stages": [
                (stage, next((of for of in scoring.progress if of.stage is stage), None)) for stage in STAGES
            ],
            "problems": problems.problems,
            "is_open": scoring.state in OPEN_STATES,
        },
    )


def _summary(services: Services, scoring_id: str) -> dict[str, Any]:
    with services.database.begin() as connection:
        summary: dict[str, Any] = scoring_rows.texts(connection, scoring_id)["summary"]
    return summary


def _skipped(services: Services, scoring_id: str) -> dict[str, Any]:
    with services.database.begin() as connection:
        body = b"".join(assessments.report(connection, scoring_id, "skipped"))
    found = json.loads(body or b"[]")
    return {"total": len(found), "shown": found[:_SKIPPED_SHOWN]}


@router.get("/leaderboard")
def leaderboard_page(
    services: ServicesHere,
    inspector: InspectorHere,
    tenant: TenantHere,
    scoring: Annotated[str | None, Query(max_length=100)] = None,
) -> Response:
    finished = scorings.list_scorings(
        services, tenant, None, limit=_SCORINGS_AT_ONCE, state=ScoringState.FINISHED
    )
    if scoring is None and not finished.scorings:
        return render("leaderboard_empty.html", values={})
    board = scoring_reports.leaderboard(services, tenant, scoring)
    summary = _summary(services, board.scoring_id)
    return render(
        "leaderboard.html",
        values={
            "board": board,
            "summary": summary,
            "figures": figures(summary),
            "charts": inspector.charts(board.scoring_id, tenant_id=tenant),
            "finished": finished.scorings,
            "tiers": TIERS,
        },
    )


@router.get("/nights")
def nights_page(
    services: ServicesHere,
    inspector: InspectorHere,
    tenant: TenantHere,
    schedule: Annotated[PlainText | None, Query(max_length=63)] = None,
) -> Response:
    with services.database.begin() as connection:
        known = scoring_rows.schedule_names(connection, tenant_id=tenant)
    chosen = schedule or (known[0] if known else None)
    found = [] if chosen is None else inspector.nights(chosen, tenant_id=tenant, limit=_NIGHTS_SHOWN)
    drawn = [night for night in reversed(found) if night.runs is not None]
    return render(
        "nights.html",
        values={
            "schedules": known,
            "chosen": chosen,
            "nights": found,
            "lines": [
                _line(
                    "pass rate", "pass", [None if n.pass_rate is None else 100 * n.pass_rate for n in drawn]
                ),
                _line("mean score", "score", [n.mean_score for n in drawn]),
                _line(
                    "Lucky share of passes",
                    "lucky",
                    [None if n.lucky_share is None else 100 * n.lucky_share for n in drawn],
                ),
            ],
            "drawn": drawn,
            "tiers": TIERS,
        },
    )


def _line(title: str, name: str, values: list[float | None]) -> dict[str, Any]:
    """A line over nights: x in percent of the width, y from 0 (below) to 100."""
    last = max(1, len(values) - 1)
    points = [
        (round(100 * place / last, 3) if len(values) > 1 else 50.0, round(value, 2), place)
        for place, value in enumerate(values)
        if value is not None
    ]
    return {"title": title, "name": name, "points": points}


def took_seconds(scoring: ScoringSummary) -> float | None:
    """How long a scoring took; None until it has ended."""
    if scoring.started_at is None or scoring.finished_at is None:
        return None
    return (scoring.finished_at - scoring.started_at).total_seconds()
