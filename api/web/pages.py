"""Every page, in one router."""

from __future__ import annotations

from fastapi import APIRouter, FastAPI, Request, Response
from starlette.exceptions import HTTPException

from api import errors
from api.web import batches, login, runs, scorings, static_files, teams, trajectories
from api.web.rendering import error_page

router = APIRouter(include_in_schema=False)
router.include_router(static_files.router)
for module in (runs, batches, teams, trajectories, scorings, login):
    router.include_router(module.router)


def install(app: FastAPI) -> None:
    """The pages, and a page for an address where there is none, or none for the method."""
    app.include_router(router)
    app.add_exception_handler(HTTPException, _nothing_here)


async def _nothing_here(request: Request, error: Exception) -> Response:
    """A page for whoever looks with a browser, a problem document for everybody else."""
    answer = await errors.http_problem(request, error)
    path = request.scope["path"]
    if "text/html" not in request.headers.get("accept", "") or path.startswith("/v1/"):
        return answer
    if answer.status_code == 404:
        return error_page(404, "Not found", f"There is no page at {path[:200]}.")
    if answer.status_code == 405:
        page = error_page(405, "Method not allowed", f"{request.method} is not possible on {path[:200]}.")
        page.headers["Allow"] = answer.headers["Allow"]
        return page
    return answer
