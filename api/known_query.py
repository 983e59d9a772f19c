"""Queries with a name that the route does not have, refused with the one that was probably meant."""

from __future__ import annotations

import difflib

from fastapi import Request

from workers.errors import InputError


def refuse_unknown(request: Request) -> None:
    """Of a query that says `stat=running`, everything would be listed as if it had asked for everything.

    Raises: InputError."""
    if not request.query_params:
        return
    operation = request.app.openapi()["paths"][request.scope["route"].path][request.method.lower()]
    known = [found["name"] for found in operation.get("parameters", ()) if found["in"] == "query"]
    unknown = next((name for name in request.query_params if name not in known), None)
    if unknown is None:
        return
    close = difflib.get_close_matches(unknown, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ";"
    allowed = f"allowed are {', '.join(known)}" if known else "this address takes none"
    raise InputError(f"there is no query parameter {unknown[:80]!r}{hint} {allowed}")
