"""The only table from errors to HTTP statuses. Every error is an RFC 9457 problem document."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match

from api.security_headers import HEADERS
from workers.errors import (
    BodyTooLargeError,
    ConsensusError,
    ForbiddenError,
    IdempotencyConflictError,
    InputError,
    KeyRefusedError,
    MediaTypeError,
    NotFoundError,
    SpecLinesError,
    StateError,
    TooManyRequestsError,
    UnavailableError,
)
from workers.key_text import hide_keys

log = structlog.get_logger(__name__)

_STATUS: tuple[tuple[type[ConsensusError], int, str], ...] = (
    (KeyRefusedError, 401, "A key is needed"),
    (ForbiddenError, 403, "Not allowed"),
    (TooManyRequestsError, 429, "Too many requests"),
    (NotFoundError, 404, "Not found"),
    (IdempotencyConflictError, 422, "Idempotency key used with another body"),
    (StateError, 409, "Not in this state"),
    (MediaTypeError, 415, "Media type not known"),
    (BodyTooLargeError, 413, "Too large"),
    (InputError, 422, "The input cannot be used"),
    (UnavailableError, 503, "A service is away"),
)


class Problem(BaseModel):
    """RFC 9457."""

    type: str = "about:blank"
    title: str
    status: int
    detail: str = Field(description="one sentence: what was wrong, and what would be right")
    errors: list[dict[str, str]] | None = Field(default=None, description="every wrong field and its message")
    bad_lines: int | None = Field(
        default=None, description="of a batch: how many lines cannot be used; `errors` has the first of them"
    )


class ProblemResponse(JSONResponse):
    media_type = "application/problem+json"

    def render(self, content: Any) -> bytes:
        # Escaped to ASCII, because a sentence may quote input that UTF-8 cannot hold (a lone surrogate).
        return hide_keys(json.dumps(content)).encode("ascii")


def described(titles: Mapping[int, str]) -> dict[int | str, dict[str, Any]]:
    """Which problems an endpoint may answer with, for the OpenAPI document."""
    return {
        status: {
            "description": title,
            "content": {ProblemResponse.media_type: {"schema": Problem.model_json_schema()}},
        }
        for status, title in titles.items()
    }


#: What every endpoint may answer with.
DESCRIBED = described(
    {
        400: "The body is not JSON",
        401: "A key is needed, or the one that came does not hold",
        403: "The key may not do this",
        404: "Not found",
        408: "The body stopped coming",
        413: "The body is too large",
        415: "The body's type or coding is not known here",
        422: "The input cannot be used",
        429: "The key asks more often than it may; Retry-After says when it may again",
        431: "The request has too many headers",
        503: "A service is away",
    }
)


def problem(
    status: int, title: str, detail: str, *, headers: Mapping[str, str] | None = None, **extra: Any
) -> ProblemResponse:
    """`application/problem+json` with type, title, status and detail."""
    return ProblemResponse(
        {"type": "about:blank", "title": title, "status": status, "detail": detail, **extra},
        status_code=status,
        headers={**(headers or {}), **({"Retry-After": "5"} if status == 503 else {})},
    )


def install(app: FastAPI) -> None:
    app.add_exception_handler(ConsensusError, _consensus)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(HTTPException, http_problem)
    app.add_exception_handler(Exception, _unexpected)


async def _consensus(_: Request, error: Exception) -> ProblemResponse:
    if isinstance(error, SpecLinesError):
        errors = [{"field": f"line {line}", "message": message} for line, message in error.faults]
        return problem(422, _CANNOT_BE_USED, str(error), errors=errors, bad_lines=error.count)
    if not isinstance(error, ConsensusError) or (known := status_of(error)) is None:
        return await _unexpected(_, error)
    return problem(*known, str(error), headers=headers_of(error))


def headers_of(error: ConsensusError) -> dict[str, str]:
    """What an answer with this error says beside its body."""
    if isinstance(error, KeyRefusedError):
        return {"WWW-Authenticate": "Bearer"}
    if isinstance(error, TooManyRequestsError):
        return {"Retry-After": str(max(1, math.ceil(error.retry_after_seconds)))}
    return {}


def status_of(error: ConsensusError) -> tuple[int, str] | None:
    """Status and title of an error; None for one that no answer should name."""
    return next(((status, title) for kind, status, title in _STATUS if isinstance(error, kind)), None)


async def _validation(_: Request, error: Exception) -> ProblemResponse:
    """One sentence for the first fault, all of them in `errors`."""
    faults = error.errors() if isinstance(error, RequestValidationError) else []
    not_json = next((fault for fault in faults if fault["type"] == "json_invalid"), None)
    if not_json is not None:
        place = f"{not_json['ctx']['error']} at character {not_json['loc'][-1]}"
        return problem(400, _CANNOT_BE_USED, f"the body is not JSON ({place}); {_SEND}")
    errors = [{"field": _field(fault["loc"]), "message": _message(fault)} for fault in faults]
    detail = sentence_of(faults) if faults else "the request cannot be read"
    return problem(422, _CANNOT_BE_USED, detail, errors=errors)


def sentence_of(faults: Sequence[Mapping[str, Any]]) -> str:
    """The first fault of Pydantic's list, with the field where it is."""
    message = _message(faults[0])
    return f"{_field(faults[0]['loc'])}: {message}" if faults[0]["loc"] else message


_CANNOT_BE_USED = "The request cannot be used"
_SEND = "send a JSON object in UTF-8, as described at /docs"


def _message(fault: Mapping[str, Any]) -> str:
    if tuple(fault["loc"]) == ("body",) and fault["type"] != "value_error":
        return f"there is no JSON object; {_SEND}"
    return str(fault["msg"]).removeprefix("Value error, ")


def _field(place: tuple[Any, ...]) -> str:
    # Pydantic also names the kind of an enumeration (`str-enum[RunState]`), which is no part of the request.
    parts = [
        str(part)
        for part in place
        if part not in {"body", "query", "path", "header"} and "-enum[" not in str(part)
    ]
    return ".".join(parts) or str(place[0] if place else "body")


async def http_problem(request: Request, error: Exception) -> ProblemResponse:
    """What the framework refused: an unknown address, a wrong method, a body that is none."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    titles = {
        404: "Not found",
        405: "Method not allowed",
        408: "Too slow",
        413: "Too large",
        400: _CANNOT_BE_USED,
    }
    detail = str(error.detail) if isinstance(error, HTTPException) else "unexpected error"
    headers = error.headers if isinstance(error, HTTPException) else None
    path = request.scope["path"][:200]
    if status == 404 and detail == "Not Found":
        detail = f"there is nothing at {path}; the interface is described at /docs"
    if status == 405:
        allowed = ", ".join(_methods_of(request))
        detail = f"{request.method} is not possible on {path}, which takes {allowed}"
        headers = {"Allow": allowed}
    if status == 400 and isinstance(error.__cause__, UnicodeDecodeError):
        detail = f"the body is not UTF-8 text (byte {error.__cause__.start}); {_SEND}"
    elif status == 400 and isinstance(error.__cause__, RecursionError):
        detail = f"the body's JSON nests too deeply; {_SEND}"
    elif status == 400 and type(error.__cause__) is ValueError:
        detail = f"the body's JSON has a number of too many digits; {_SEND}"
    return problem(status, titles.get(status, _CANNOT_BE_USED), detail, headers=headers)


def _methods_of(request: Request) -> list[str]:
    """What the address takes. The framework's own list has those of the first route alone."""
    found = {
        method
        for route in request.app.routes
        for method in ("DELETE", "GET", "PATCH", "POST", "PUT")
        if route.matches({**request.scope, "method": method})[0] is Match.FULL
    }
    return sorted(found | ({"HEAD"} if "GET" in found else set()))


async def _unexpected(_: Request, error: Exception) -> ProblemResponse:
    log.error("api.unexpected", error=type(error).__name__, exc_info=error)
    # It is answered outside of all middleware.
    return problem(500, "Unexpected error", "an unexpected error; it is in the server's log", headers=HEADERS)
