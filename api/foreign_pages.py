"""Keeps other sites' pages from acting here: a browser sends their forms and fetches along with ours."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from api.errors import problem

_HARMLESS = frozenset({"GET", "HEAD", "OPTIONS"})
#: What a browser says of a request by a page of ours, or by nobody's page (an address that was typed).
_OURS = frozenset({"same-origin", "none"})


class ForeignPages:
    """Refuses what changes something and was begun by a page of another origin. Programs send neither header and are
    not meant."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] not in _HARMLESS and is_foreign(Headers(scope=scope)):
            refusal = problem(403, "Not from another site", "a page of another site may not do this here")
            await refusal(scope, receive, send)
            return
        await self._app(scope, receive, send)


def is_foreign(headers: Headers) -> bool:
    """By what the browser says itself; by the origin where it does not (it is silent on plain HTTP in a network)."""
    told = headers.get("sec-fetch-site")
    if told is not None:
        return told not in _OURS
    origin = headers.get("origin")
    if origin is None:
        return False
    return urlsplit(origin).netloc not in {headers.get("host"), headers.get("x-forwarded-host")}
