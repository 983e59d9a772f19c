"""Heads of requests that two readers could read in two ways, or that go on and on."""

from __future__ import annotations

from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from api import errors

#: Browsers send some twenty, and proxies add a few.
MAX_HEADERS: Final = 200
#: What is meant by two of these depends on who reads them; the framework takes one, a proxy perhaps the other.
_ONCE: Final = (
    b"authorization",
    b"content-encoding",
    b"content-type",
    b"host",
    b"idempotency-key",
    b"last-event-id",
)


class RequestHead:
    """Middleware. Refuses such a request before anything of it is believed; the connection is closed behind it, as what
    follows may be another's."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = _problem(scope["headers"]) if scope["type"] == "http" else None
        if refused is None:
            await self._app(scope, receive, send)
            return
        status, title, detail = refused
        answer = errors.problem(status, title, detail, headers={"Connection": "close"})
        await answer(scope, receive, send)


def _problem(headers: list[tuple[bytes, bytes]]) -> tuple[int, str, str] | None:
    """Status, title and sentence, for headers with names in lower case; None if they can be used."""
    if len(headers) > MAX_HEADERS:
        return (
            431,
            "Too many headers",
            f"the request has {len(headers):,} headers; at most {MAX_HEADERS} are taken",
        )
    names = [name for name, _ in headers]
    if b"content-length" in names and b"transfer-encoding" in names:
        # Whoever goes by the length takes a part of the body for the next request, or the other way round.
        detail = "the body has both a Content-Length and a Transfer-Encoding; send one of them"
        return 400, "The request cannot be used", detail
    twice = next((name for name in _ONCE if names.count(name) > 1), None)
    if twice is not None:
        detail = f"the header {twice.decode().title()} is there {names.count(twice)} times; send it once"
        return 400, "The request cannot be used", detail
    return None
