"""Templates into answers. What a model or a user wrote reaches a page only through Jinja's escaping."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar
from functools import cache
from typing import Any

import structlog
from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse
from fastapi.routing import APIRoute
from jinja2 import ChainableUndefined, Environment, PackageLoader
from markupsafe import Markup
from starlette.exceptions import HTTPException

from api.errors import sentence_of, status_of
from api.web import static_files
from api.web.wording import FILTERS, plain
from workers.errors import ConsensusError
from workers.key_text import hide_keys

log = structlog.get_logger(__name__)

#: No script and no style but our own files, and nothing from anywhere else.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Cache-Control": "no-store",
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
}


#: What the pages of this request's session send with whatever they change; empty without one.
csrf_token: ContextVar[str] = ContextVar("csrf_token", default="")


@cache
def templates() -> Environment:
    """Every value is escaped. What a ledger of another version does not have costs its own words, not the page."""
    made = Environment(
        loader=PackageLoader("api.web"),
        autoescape=True,
        undefined=ChainableUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(FILTERS)
    made.globals["static"] = static_files.address
    made.globals["csrf_token"] = csrf_token.get
    return made


def _shown(value: Any) -> Any:
    """No text reaches a page with characters that would turn it around; what is markup is our own already."""
    return plain(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def render(template: str, *, status: int = 200, values: Mapping[str, Any]) -> HTMLResponse:
    """A page, or a part of one, with the headers that keep foreign scripts out."""
    return HTMLResponse(
        templates().get_template(template).render(values), status_code=status, headers=_HEADERS
    )


class PageRoute(APIRoute):
    """A page that cannot be shown is a page that says why."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def shown(request: Request) -> Response:
            try:
                return await handler(request)
            except ConsensusError as error:
                if (known := status_of(error)) is None:
                    raise
                return error_page(*known, str(error))
            except RequestValidationError as error:
                return error_page(422, "This cannot be shown", sentence_of(error.errors()))
            except HTTPException as error:
                return error_page(error.status_code, "This cannot be read", f"{error.detail}")
            except Exception as error:
                log.error("web.unexpected", path=request.url.path, exc_info=error)
                return error_page(500, "Unexpected error", "It is in the server's log.")

        return shown


def error_page(status: int, title: str, detail: str) -> HTMLResponse:
    """Raises nothing: it needs neither the database nor a broker."""
    return render(
        "error.html", status=status, values={"title": title, "detail": hide_keys(detail), "status": status}
    )
