"""Queries with a name that the route does not have, refused with the one that was probably meant; names twice; and
values that are no text."""

from __future__ import annotations

import difflib
from collections import Counter
from urllib.parse import unquote_plus, unquote_to_bytes

from fastapi import Request

from workers.errors import InputError


def refuse_unknown(request: Request) -> None:
    """Of a query that says `stat=running`, everything would be listed as if it had asked for everything.

    Raises: InputError."""
    if not request.query_params:
        return
    _refuse_what_is_no_text(request.scope["query_string"])
    operation = request.app.openapi()["paths"][request.scope["route"].path][request.method.lower()]
    known = [found["name"] for found in operation.get("parameters", ()) if found["in"] == "query"]
    counted = Counter(name for name, _ in request.query_params.multi_items())
    unknown = next((name for name in request.query_params if name not in known), None)
    if unknown is None:
        twice = next((name for name, count in counted.items() if count > 1), None)
        if twice is not None:
            raise InputError(f"the query parameter {twice!r} is given {counted[twice]} times; give it once")
        return
    close = difflib.get_close_matches(unknown, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ";"
    allowed = f"allowed are {', '.join(known)}" if known else "this address takes none"
    raise InputError(f"there is no query parameter {unknown[:80]!r}{hint} {allowed}")


def _refuse_what_is_no_text(query: bytes) -> None:
    """The framework would put U+FFFD for what is not UTF-8, and nothing has a name with that in it."""
    for pair in query.split(b"&"):
        name, _, value = pair.partition(b"=")
        try:
            unquote_to_bytes(name).decode()
            unquote_to_bytes(value).decode()
        except UnicodeDecodeError:
            shown = unquote_plus(name.decode("latin-1"))[:80]
            raise InputError(
                f"the query parameter {shown!r} is not UTF-8 text; percent-encode the bytes of its UTF-8"
            ) from None
