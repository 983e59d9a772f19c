"""A stream that a service broke off while it was being sent: a line in the log, and no end of the body."""

from __future__ import annotations

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from workers.errors import UnavailableError

log = structlog.get_logger(__name__)


class CutStreams:
    """The answer has begun, so nothing can be said to the client any more; the server closes the connection when an
    application returns before the end. Each download under a restart of the database was a page of traceback."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        has_begun = False

        async def watched(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            await self._app(scope, receive, watched)
        except Exception as error:
            # Starlette's own error stands around ours, once the answer has begun.
            ours = error if isinstance(error, UnavailableError) else error.__cause__
            if not has_begun or not isinstance(ours, UnavailableError):
                raise
            log.warning("api.cut", path=scope.get("path"), error=str(ours))
