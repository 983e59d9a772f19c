"""Faults that refuse the call: a status, an error body in the wire's grammar, and how long to wait."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Mapping

from workers.providers.simulator.faults.kind import Fault
from workers.providers.simulator.plan import Plan, plan_body, plan_error
from workers.providers.simulator.retry_statement import GRAMMARS, Statement
from workers.providers.simulator.wire import Wire, WireName
from workers.providers.simulator.wire_error import RequestError

_HTML = (
    "<!DOCTYPE html>\n<html><head><title>{status} Simulated gateway</title></head>\n"
    "<body><h1>{status}</h1><p>This page is simulated: some gateway answered in the provider's place.</p>"
    "</body></html>\n"
)


def refuse(fault: Fault, wire: Wire, *, now_epoch_seconds: float) -> Plan:
    """The answer of a fault of the group `refusal`."""
    stated = statement(fault, wire.name, now_epoch_seconds)
    if fault.kind == "html-page":
        status = fault.status or 502
        page = _HTML.format(status=status).encode()
        return plan_body(page, status=status, media_type="text/html; charset=utf-8")
    error = _ERRORS[fault.kind](fault, wire)
    return plan_error(wire, with_wait(error, stated), stated.headers)


def statement(fault: Fault, wire_name: WireName, now_epoch_seconds: float) -> Statement:
    """The wait that a fault states."""
    if fault.retry_after_as is None or fault.retry_after_seconds is None:
        return Statement()
    stated = GRAMMARS[fault.retry_after_as](fault.retry_after_seconds, now_epoch_seconds)
    if wire_name == "anthropic":
        headers = {_anthropic_name(name): value for name, value in stated.headers.items()}
        return dataclasses.replace(stated, headers=headers)
    return stated


def _anthropic_name(header: str) -> str:
    """`x-ratelimit-reset-requests` is `anthropic-ratelimit-requests-reset` there."""
    if not header.startswith("x-ratelimit-"):
        return header
    state, meter = header.removeprefix("x-ratelimit-").split("-", 1)
    return f"anthropic-ratelimit-{meter}-{state}"


def with_wait(error: RequestError, stated: Statement) -> RequestError:
    """The same error with the wait in its body, for grammars that state it there."""
    waiting = copy.copy(error)
    waiting.message += stated.sentence
    waiting.extra = {**error.extra, **stated.extra}
    return waiting


def rate_limited() -> RequestError:
    return RequestError(
        "Simulated: the rate limit is reached.",
        status=429,
        kind="rate_limit_error",
        openai_type="requests",
        code="rate_limit_exceeded",
    )


def overloaded(wire: Wire, status: int | None = None) -> RequestError:
    return RequestError(
        "Simulated: the model is overloaded.",
        status=status or wire.overloaded_status,
        kind="overloaded_error",
        openai_type="server_error",
        code="service_unavailable",
    )


def out_of_quota(wire: Wire) -> RequestError:
    """An account whose credit is used up, as each maker says it."""
    if wire.name == "anthropic":
        return RequestError(
            "Simulated: your credit balance is too low to use this service.",
            status=402,
            kind="billing_error",
        )
    return RequestError(
        "Simulated: this account has used up its quota; check its plan and billing.",
        status=429,
        openai_type="insufficient_quota",
        code="insufficient_quota",
    )


def _payment_required(_fault: Fault, _wire: Wire) -> RequestError:
    return RequestError(
        "Simulated: insufficient balance.",
        status=402,
        kind="billing_error",
        openai_type="billing_error",
        code=402,
    )


def _spend_limit(_fault: Fault, wire: Wire) -> RequestError:
    code = None if wire.name == "anthropic" else "billing_hard_limit_reached"
    return RequestError("Simulated: this workspace has reached its spend limit.", code=code)


def _server_error(fault: Fault, _wire: Wire) -> RequestError:
    return RequestError(
        "Simulated: the server had an error.",
        status=fault.status or 500,
        kind="timeout_error" if fault.status == 504 else "api_error",
        openai_type="server_error",
    )


def _bad_request(fault: Fault, _wire: Wire) -> RequestError:
    status = fault.status or 400
    kind = "not_found_error" if status == 404 else "invalid_request_error"
    return RequestError("Simulated: this request is not valid.", status=status, kind=kind)


def _refused_field(fault: Fault, wire: Wire) -> RequestError:
    status = fault.status or 400
    field = fault.field or ""
    if wire.name == "anthropic":
        return RequestError(f"{field}: Extra inputs are not permitted (simulated)", status=status)
    if status == 422:
        # As Mistral refuses a field that it does not know.
        place = {"type": "extra_forbidden", "loc": ["body", field], "msg": "Extra inputs are not permitted"}
        return RequestError("", status=status, instead={"object": "error", "detail": [place]})
    return RequestError(
        f"Simulated: unsupported parameter: '{field}' does not work with this model.",
        status=status,
        param=field,
        code="unsupported_parameter",
    )


def _unauthorized(_fault: Fault, _wire: Wire) -> RequestError:
    return RequestError(
        "Simulated: this API key is not valid.",
        status=401,
        kind="authentication_error",
        code="invalid_api_key",
    )


def _forbidden(_fault: Fault, _wire: Wire) -> RequestError:
    return RequestError(
        "Simulated: this API key may not use the model.",
        status=403,
        kind="permission_error",
        code="permission_denied",
    )


def _context_too_long(fault: Fault, wire: Wire) -> RequestError:
    if fault.status == 413:
        return RequestError(
            "Simulated: the request is larger than allowed.",
            status=413,
            kind="request_too_large",
            code="request_too_large",
        )
    if wire.name == "anthropic":
        return RequestError("Simulated: prompt is too long: 250000 tokens > 200000 maximum")
    return RequestError(
        "Simulated: these messages are longer than the model's maximum context length.",
        param="messages",
        code="context_length_exceeded",
    )


_ERRORS: Mapping[str, Callable[[Fault, Wire], RequestError]] = {
    "rate-limit": lambda _fault, _wire: rate_limited(),
    "payment-required": _payment_required,
    "insufficient-quota": lambda _fault, wire: out_of_quota(wire),
    "spend-limit": _spend_limit,
    "overloaded": lambda fault, wire: overloaded(wire, fault.status),
    "server-error": _server_error,
    "bad-request": _bad_request,
    "refused-field": _refused_field,
    "unauthorized": _unauthorized,
    "forbidden": _forbidden,
    "context-too-long": _context_too_long,
}
