"""How many values a JSON text has, before it is parsed: each takes tens of times the bytes that it has there."""

from __future__ import annotations

import re
from typing import Final

from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

#: Of one body or line. A hundred thousand small specs have half as many; that many empty objects take 70 MB.
MAX_JSON_VALUES: Final = 1_000_000

_VALUE_SIGNS: Final = (b",", b":", b"[", b"{")
#: The text's end ends its last string too: looked for from each quote in turn, that would take the square of the time.
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
#: These read their lines themselves.
_COUNTED_BY_THEIR_ROUTE: Final = frozenset({"/v1/batches", "/v1/trajectories"})


def has_too_many_values(text: bytes, most: int = MAX_JSON_VALUES) -> bool:
    """Whether a JSON text has more values than this, the keys of objects counted too. What is no JSON may have as many
    as it likes: its parser stops."""
    if _signs(text) <= most:
        return False
    if b"\0" in text:
        # UTF-16, in which a byte that looks like a quote need not be one.
        return True
    # Each string has two quotes that no backslash stands before, and is a value.
    if text.count(b'"') - text.count(b'\\"') > 2 * most:
        return True
    # Code is full of these signs, but stands in strings.
    return _signs(_STRING.sub(b"", text)) > most


def _signs(text: bytes) -> int:
    return sum(map(text.count, _VALUE_SIGNS))


class JsonSize:
    """Middleware. Refuses a JSON body of too many values where the framework would parse it."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in _COUNTED_BY_THEIR_ROUTE:
            await self._app(scope, receive, send)
            return
        is_json = "json" in Headers(scope=scope).get("content-type", "json").lower()
        parts: list[bytes] = []

        async def counted() -> Message:
            message = await receive()
            if is_json and message["type"] == "http.request":
                parts.append(message.get("body", b""))
                # The smallest value has a byte, and a comma behind it.
                if not message.get("more_body", False) and sum(map(len, parts)) > MAX_JSON_VALUES:
                    await run_in_threadpool(_refuse, b"".join(parts))
            return message

        await self._app(scope, counted, send)


def _refuse(body: bytes) -> None:
    if has_too_many_values(body):
        raise HTTPException(
            413, f"the body's JSON has more than {MAX_JSON_VALUES:,} values; send fewer, or longer texts"
        )
