"""Headers that tell browsers what an answer may not do, on every answer that does not say so itself."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Of data: nothing in it is to be run or shown in a frame, whatever a browser takes it for.
DATA_POLICY = "default-src 'none'; frame-ancestors 'none'"

#: What every answer carries.
HEADERS = {
    "Content-Security-Policy": DATA_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}
#: What a tenant may read is not for whoever shares a cache.
_PRIVATE = "no-store"


class SecurityHeaders:
    """Middleware."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if not scope["path"].startswith("/static"):
                    headers.setdefault("Cache-Control", _PRIVATE)
            await send(message)

        await self._app(scope, receive, guarded if scope["type"] == "http" else send)
