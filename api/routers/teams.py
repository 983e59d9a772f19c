"""Teams, as validated."""

from __future__ import annotations

from pathlib import Path

from fastapi import APIRouter

from api.dependencies import ServicesHere
from api.schemas import TeamOut
from workers.errors import ManifestError, NotFoundError, UnknownTeamError
from workers.teams import TeamFile, load_team, read_team, team_files

router = APIRouter(prefix="/v1/teams", tags=["teams"])


@router.get("", summary="List teams")
def list_teams(services: ServicesHere) -> list[TeamOut]:
    """The first file of a name wins. A wrong file is listed under its own name with what is wrong in it, so
    that it hides no other team."""
    teams: dict[str, TeamOut] = {}
    for path in team_files(services.team_folders):
        entry = _read(path)
        teams.setdefault(entry.name, entry)
    return sorted(teams.values(), key=lambda entry: entry.name)


@router.get("/{name}", summary="Show one team")
def show(name: str, services: ServicesHere) -> TeamOut:
    try:
        return _out(load_team(name, services.team_folders))
    except UnknownTeamError as error:
        raise NotFoundError(str(error)) from None


def _read(path: Path) -> TeamOut:
    try:
        return _out(read_team(path))
    except ManifestError as error:
        return TeamOut(name=path.stem, description="", path=str(path), team=None, error=str(error))


def _out(entry: TeamFile) -> TeamOut:
    team = entry.team
    return TeamOut(name=team.name, description=team.description, path=str(entry.path), team=team.manifest())
