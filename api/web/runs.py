"""Runs: the list, one run live, and the form that submits."""

from __future__ import annotations

import contextlib
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from sqlalchemy import Connection

from api.dependencies import CursorHere, Services, ServicesHere, TenantHere, now
from api.plain_text import PlainText
from api.routers import runs as api_runs
from api.routers import teams as api_teams
from api.web.code_view import MOST_COLOURED, FileView, Pin, difference, file_view
from api.web.rendering import PageRoute, render
from api.web.run_view import Round, fold
from api.web.story import KINDS, story_of
from workers.cli.verdict_panel import NOTE_WORDS
from workers.core.run import Outcome, RunState, Stage
from workers.errors import NotFoundError
from workers.provenance import ledger, payload
from workers.provenance.digest import GENESIS
from workers.provenance.repository import run_titles, runs, seat_times, usage
from workers.provenance.repository.run_titles import first_line

router = APIRouter(route_class=PageRoute)

PAGE_RUNS = 50
#: More files than this are named, not shown.
MOST_FILES = 40

#: What a form sends for a filter that is not set.
_Any = Literal[""]
_TeamName = Annotated[str | None, Query(max_length=100, pattern=r"^([a-z][a-z0-9-]*)?$")]


@router.get("/")
@router.get("/runs")
def list_page(
    services: ServicesHere,
    tenant: TenantHere,
    cursor: CursorHere,
    state: RunState | _Any = "",
    outcome: Outcome | _Any = "",
    team: _TeamName = None,
    batch: Annotated[PlainText | None, Query(max_length=100)] = None,
) -> Response:
    """Newest first; the filters are those of `GET /v1/runs`."""
    found = api_runs.list_runs(
        services, tenant, cursor, PAGE_RUNS, state or None, outcome or None, team or None, batch or None
    )
    filters = {"state": state, "outcome": outcome, "team": team, "batch": batch}
    with services.database.begin() as connection:
        titles = run_titles.of_runs(connection, [run.id for run in found.runs])
    return render(
        "runs.html",
        values={
            "page": found,
            "titles": titles,
            "filters": filters,
            "is_first": cursor is None,
            "states": list(RunState),
            "outcomes": list(Outcome),
            "teams": team_names(services),
        },
    )


@router.get("/submit")
def submit_page(services: ServicesHere, team: _TeamName = None) -> Response:
    teams = [entry for entry in api_teams.list_teams(services) if entry.error is None]
    return render(
        "submit.html",
        values={
            "teams": teams,
            "names": [(e.name, e.description) for e in teams],
            "chosen": team or "consensus",
        },
    )


@router.get("/runs/{run_id}")
def run_page(run_id: str, services: ServicesHere, tenant: TenantHere) -> Response:
    return render("run.html", values=_values(run_id, services, tenant))


@router.get("/runs/{run_id}/live")
def live_part(run_id: str, services: ServicesHere, tenant: TenantHere) -> Response:
    """What of the page changes while the run goes on; the page puts it in place of what it has."""
    return render("run_live.html", values=_values(run_id, services, tenant))


def team_names(services: Services) -> list[str]:
    return [entry.name for entry in api_teams.list_teams(services)]


def _values(run_id: str, services: Services, tenant: str) -> dict[str, Any]:
    with services.database.begin() as connection:
        run = runs.get(connection, run_id, tenant_id=tenant)
        # As far as that head: a run at work may have written more since it was read.
        entries = ledger.read(connection, run_id, limit=run.ledger_seq)
        times = seat_times.of_run(connection, run_id)
        used = usage.usage_of(connection, run_id)
        material = _mapping(connection, run.input_digest)
        team = _mapping(connection, run.team_digest)
        verdict = _mapping(connection, run.verdict_digest) or None
    view = fold(entries, times, reviewers=list(team.get("reviewers", ())), verdict=verdict)
    spec = str(material.get("spec", ""))
    return {
        "run": run,
        "title": run.external_id or first_line(spec) or run.run_id,
        "spec": spec,
        "material": material,
        "team": team,
        "view": view,
        "stages": list(Stage),
        "code": [_code(each) for each in view.rounds],
        "signed": [_signed(each) for each in view.rounds],
        "usage": used,
        "story": story_of(entries),
        "kinds": KINDS,
        "fault": ledger.verify(entries, run_id=run_id, head=run.ledger_head, genesis=GENESIS),
        "note_words": NOTE_WORDS,
        "now": now(),
        "most_files": MOST_FILES,
        "file_view": file_view,
        "verdict_is_there": verdict is not None,
    }


def _mapping(connection: Connection, digest: str | None) -> dict[str, Any]:
    """The object under a digest; empty where there is none, or none any more."""
    if digest is not None:
        with contextlib.suppress(NotFoundError):
            value = payload.load(connection, digest)
            return value if isinstance(value, dict) else {}
    return {}


def _pins(held: Round) -> list[Pin]:
    spans = [(row.claim_id, row.claim["span"]) for row in held.claims]
    return [
        Pin(claim_id=claim_id, path=span["path"], start=span["start"], end=span["end"])
        for claim_id, span in spans
    ]


def _code(held: Round) -> list[FileView]:
    """The files under review: those that claims are about first."""
    pins = _pins(held)
    pinned = {pin.path for pin in pins}
    paths = sorted(held.files, key=lambda path: (path not in pinned, path))
    shown = []
    coloured = 0
    for path in paths[:MOST_FILES]:
        coloured += len(held.files[path])
        shown.append(file_view(path, held.files[path], pins, has_colours=coloured <= 2 * MOST_COLOURED))
    return shown


def _signed(held: Round) -> list[FileView] | None:
    """What the lead changed; None where it has not signed."""
    lead = held.one(Stage.LEAD)
    if lead is None or lead.result is None:
        return None
    return difference(held.files, lead.result["files"])
