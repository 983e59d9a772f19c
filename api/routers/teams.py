"""Teams, as validated."""

from __future__ import annotations

from fastapi import APIRouter

from api.dependencies import ServicesHere
from api.schemas import TeamOut
from workers.teams import TeamFile, load_team, load_teams

router = APIRouter(prefix="/v1/teams", tags=["teams"])


@router.get("", summary="List teams")
def list_teams(services: ServicesHere) -> list[TeamOut]:
    return [_out(entry) for entry in load_teams(services.team_folders)]


@router.get("/{name}", summary="Show one team")
def show(name: str, services: ServicesHere) -> TeamOut:
    return _out(load_team(name, services.team_folders))


def _out(entry: TeamFile) -> TeamOut:
    team = entry.team
    return TeamOut(name=team.name, description=team.description, path=str(entry.path), team=team.as_data())
