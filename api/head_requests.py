"""HEAD wherever there is GET: load balancers and monitors ask with it, and so do download managers."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send


class HeadRequests:
    """Middleware. Asks the application as for GET, and sends the status and the headers of its answer alone."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self._app(scope, receive, send)
            return
        has_answered = False

        async def told() -> Message:
            return {"type": "http.disconnect"} if has_answered else await receive()

        async def without_body(message: Message) -> None:
            nonlocal has_answered
            if message["type"] == "http.response.start":
                await send(message)
                return
            if not has_answered:
                has_answered = True
                await send({"type": "http.response.body", "body": b"", "more_body": False})
            if message.get("more_body"):
                # As to a reader who has left: a stream may have hours to go, or a hundred thousand lines.
                raise OSError("the body of a HEAD request is not sent")

        try:
            await self._app({**scope, "method": "GET"}, told, without_body)
        except Exception:
            if not has_answered:
                raise
