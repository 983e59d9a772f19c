"""The only table from errors to HTTP statuses. Every error is an RFC 9457 problem document."""

from __future__ import annotations

from typing import Any

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from workers.errors import (
    ConsensusError,
    IdempotencyConflictError,
    InputError,
    NotFoundError,
    StateError,
    UnavailableError,
)

log = structlog.get_logger(__name__)

_STATUS: tuple[tuple[type[ConsensusError], int, str], ...] = (
    (NotFoundError, 404, "Not found"),
    (IdempotencyConflictError, 422, "Idempotency key used with another body"),
    (StateError, 409, "Not in this state"),
    (InputError, 422, "The input cannot be used"),
    (UnavailableError, 503, "A service is away"),
)


def problem(status: int, title: str, detail: str, **extra: Any) -> JSONResponse:
    """`application/problem+json` with type, title, status and detail."""
    return JSONResponse(
        {"type": "about:blank", "title": title, "status": status, "detail": detail, **extra},
        status_code=status,
        media_type="application/problem+json",
        headers={"Retry-After": "5"} if status == 503 else None,
    )


def install(app: FastAPI) -> None:
    app.add_exception_handler(ConsensusError, _consensus)
    app.add_exception_handler(RequestValidationError, _validation)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(Exception, _unexpected)


async def _consensus(_: Request, error: Exception) -> JSONResponse:
    for kind, status, title in _STATUS:
        if isinstance(error, kind):
            return problem(status, title, str(error))
    return await _unexpected(_, error)


async def _validation(_: Request, error: Exception) -> JSONResponse:
    """One sentence for the first fault, all of them in `errors`."""
    faults = error.errors() if isinstance(error, RequestValidationError) else []
    errors = [{"field": _field(fault["loc"]), "message": fault["msg"]} for fault in faults]
    detail = f"{errors[0]['field']}: {errors[0]['message']}" if errors else "the request cannot be read"
    is_not_json = any(fault["type"] == "json_invalid" for fault in faults)
    return problem(400 if is_not_json else 422, "The request cannot be used", detail, errors=errors)


def _field(place: tuple[Any, ...]) -> str:
    parts = [str(part) for part in place if part not in {"body", "query", "path", "header"}]
    return ".".join(parts) or str(place[0] if place else "body")


async def _http(request: Request, error: Exception) -> JSONResponse:
    status = error.status_code if isinstance(error, HTTPException) else 500
    titles = {
        404: "Not found",
        405: "Method not allowed",
        413: "Too large",
        400: "The request cannot be used",
    }
    detail = str(error.detail) if isinstance(error, HTTPException) else "unexpected error"
    if status == 404 and detail == "Not Found":
        detail = f"there is nothing at {request.url.path}; the interface is described at /docs"
    if status == 405:
        detail = f"{request.method} is not possible on {request.url.path}"
    return problem(status, titles.get(status, "The request cannot be used"), detail)


async def _unexpected(_: Request, error: Exception) -> JSONResponse:
    log.error("api.unexpected", error=type(error).__name__, exc_info=error)
    return problem(500, "Unexpected error", "an unexpected error; it is in the server's log")
