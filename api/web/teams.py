"""Teams: who sits where, and what is wrong with a manifest."""

from __future__ import annotations

from fastapi import APIRouter, Response

from api.dependencies import ServicesHere
from api.routers import teams
from api.web.rendering import PageRoute, render

router = APIRouter(prefix="/teams", route_class=PageRoute)


@router.get("")
def list_page(services: ServicesHere) -> Response:
    return render("teams.html", values={"teams": teams.list_teams(services)})
