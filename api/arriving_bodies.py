"""Bodies on their way: in a coding that the route unpacks, and without long silences."""

from __future__ import annotations

import asyncio

from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api import errors

#: So long a client may send nothing while it owes the rest of its body. A slow line sends a little all the time.
SILENCE_SECONDS = 30.0
#: These look at the coding themselves.
_UNPACKED_BY_THEIR_ROUTE = frozenset({"/v1/batches", "/v1/trajectories"})


class ArrivingBodies:
    """Middleware. A connection whose body never comes is a descriptor less; a packed body would be no text to its
    reader, and no word of why."""

    def __init__(self, app: ASGIApp, *, silence_seconds: float = SILENCE_SECONDS) -> None:
        self._app = app
        self._silence_seconds = silence_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        coding = Headers(scope=scope).get("content-encoding", "").strip().lower() or "identity"
        if coding != "identity" and scope["path"] not in _UNPACKED_BY_THEIR_ROUTE:
            detail = f"Content-Encoding {coding[:40]!r} is not known here; send the body as it is"
            await errors.problem(415, "Media type not known", detail)(scope, receive, send)
            return
        is_whole = False

        async def promptly() -> Message:
            nonlocal is_whole
            if is_whole:
                # What is waited for now is the client's leaving, which takes as long as the answer does.
                return await receive()
            try:
                async with asyncio.timeout(self._silence_seconds):
                    message = await receive()
            except TimeoutError:
                raise HTTPException(
                    408, f"nothing of the body came for {self._silence_seconds:g} s; send it again, all of it"
                ) from None
            is_whole = not message.get("more_body", False)
            return message

        await self._app(scope, promptly, send)
