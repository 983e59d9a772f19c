"""Whether a form in parts came to its end: its parser takes what there is of one that broke off for all of it."""

from __future__ import annotations

from typing import Final

from fastapi import Request
from python_multipart.multipart import parse_options_header
from starlette.formparsers import MultiPartException
from starlette.types import Message

#: The end and what may stand behind it, which is nothing to speak of.
_KEPT_BYTES: Final = 4096


def whole_form(request: Request) -> Request:
    """The request, whose form is refused by its parser, which closes its files then, if the closing boundary is not
    there."""
    boundary = parse_options_header(request.headers["content-type"])[1].get(b"boundary", b"")
    end = bytearray()

    async def watched() -> Message:
        nonlocal end
        message = await request.receive()
        end += message.get("body", b"")
        del end[:-_KEPT_BYTES]
        is_last = message["type"] == "http.request" and not message.get("more_body", False)
        if is_last and b"--" + boundary + b"--" not in end:
            raise MultiPartException(
                "the form breaks off before its closing boundary; nothing of it was stored, send it again"
            )
        return message

    return Request(request.scope, watched)
