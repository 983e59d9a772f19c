"""The simulator as an ASGI application: both wire formats over one set of answers.

It is Starlette and not FastAPI on purpose: a provider knows no more of the API's framework than a real
provider's server would, and a benchmark runs this on the cores that it measures."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import math
from collections.abc import AsyncIterator, Callable

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from workers.errors import InputError
from workers.providers.simulator.anthropic_wire import AnthropicWire
from workers.providers.simulator.catalogue import Catalogue, load_catalogue
from workers.providers.simulator.openai_wire import OpenAiWire
from workers.providers.simulator.problem import MODELS
from workers.providers.simulator.roles import answer
from workers.providers.simulator.wire import Call, Reply, RequestError, Wire, reply_to, signed

#: A longer body is refused with 413.
MAX_BODY_BYTES = 4 * 1024 * 1024
#: This much of a body that is too long is still read, so that its sender gets to see the refusal.
MAX_DRAINED_BYTES = 4 * MAX_BODY_BYTES
MIN_LATENCY_SECONDS = 0.2
MAX_LATENCY_SECONDS = 1.2
#: The share of a streamed reply's latency that passes before its first piece.
FIRST_PIECE_SHARE = 0.5

#: From the request's digest (hex) to the seconds that its reply takes.
Latency = Callable[[str], float]


def spread_latency(digest: str) -> float:
    """Between `MIN_LATENCY_SECONDS` and `MAX_LATENCY_SECONDS` by the request, so that a person sees
    reviewers arrive one by one."""
    share = int(digest[-4:], 16) / 0xFFFF
    return MIN_LATENCY_SECONDS + share * (MAX_LATENCY_SECONDS - MIN_LATENCY_SECONDS)


def fixed_latency(seconds: float) -> Latency:
    """The same for every request. Raises: InputError."""
    if not (math.isfinite(seconds) and seconds >= 0):
        raise InputError(f"the latency is {seconds} seconds; it must be 0 or more")
    return lambda _digest: seconds


def create_app(*, seed: int = 0, latency: Latency | float | None = None) -> Starlette:
    """The simulator. The same request to the same seed gives the same bytes.

    `latency`: seconds that each reply takes, or a function from the request's digest to them; None spreads
    them. Raises: InputError (a negative latency), KnowledgeError (a problem's folder is not in order).
    """
    if latency is None:
        latency = spread_latency
    elif not callable(latency):
        latency = fixed_latency(latency)
    simulator = _Simulator(seed=seed, latency=latency, catalogue=load_catalogue())
    return Starlette(
        routes=[
            Route("/v1/chat/completions", simulator.chat_completions, methods=["POST"]),
            Route("/v1/messages", simulator.messages, methods=["POST"]),
            Route("/v1/models", _models),
            Route("/healthz", _healthz),
        ],
        exception_handlers={HTTPException: _no_such_route},
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Simulator:
    seed: int
    latency: Latency
    catalogue: Catalogue

    async def chat_completions(self, request: Request) -> Response:
        return await self._serve(request, OpenAiWire())

    async def messages(self, request: Request) -> Response:
        return await self._serve(request, AnthropicWire())

    async def _serve(self, request: Request, wire: Wire) -> Response:
        body = await _body(request)
        digest = hashlib.blake2b(body, digest_size=12, salt=_salt(self.seed)).hexdigest()
        headers = {wire.request_id_header: f"req_{digest}"}
        try:
            call = wire.read(_object(body))
        except RequestError as error:
            return _json(wire.error(error), status=error.status, headers=headers)
        text = answer(call.system, call.user, model=call.model, seed=self.seed, catalogue=self.catalogue)
        reply = reply_to(call, text, digest=digest)
        seconds = self.latency(digest)
        if call.is_streamed:
            parts = _paced(wire, call, reply, seconds)
            return StreamingResponse(parts, media_type="text/event-stream", headers=headers)
        await _pause(seconds)
        return _json(wire.document(call, reply), headers=headers)


async def _paced(wire: Wire, call: Call, reply: Reply, seconds: float) -> AsyncIterator[bytes]:
    """The events of a streamed reply, spread over its latency."""
    await _pause(seconds * FIRST_PIECE_SHARE)
    gap_seconds = seconds * (1 - FIRST_PIECE_SHARE) / max(1, len(reply.pieces()))
    for number, part in enumerate(wire.events(call, reply)):
        if number > 1:
            await _pause(gap_seconds)
        yield part


async def _pause(seconds: float) -> None:
    if seconds > 0:
        await asyncio.sleep(seconds)


async def _body(request: Request) -> bytes:
    """The request's body; one byte more than allowed where it is too long."""
    read = bytearray()
    drained = 0
    async for chunk in request.stream():
        drained += len(chunk)
        if len(read) <= MAX_BODY_BYTES:
            read += chunk
        if drained > MAX_DRAINED_BYTES:
            break
    return bytes(read[: MAX_BODY_BYTES + 1])


def _object(body: bytes) -> dict[str, object]:
    if len(body) > MAX_BODY_BYTES:
        raise RequestError(
            f"The body is longer than {MAX_BODY_BYTES} bytes.",
            status=413,
            kind="request_too_large",
            code="request_too_large",
        )
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise RequestError(f"The body is not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise RequestError("The body must be a JSON object.")
    return value


def _salt(seed: int) -> bytes:
    return hashlib.blake2b(str(seed).encode(), digest_size=16).digest()


async def _models(_request: Request) -> Response:
    listed = [{"id": model, "object": "model", "created": 0, "owned_by": "simulator"} for model in MODELS]
    return _json(signed({"object": "list", "data": listed}))


async def _healthz(_request: Request) -> Response:
    return _json(signed({"status": "ok"}))


async def _no_such_route(request: Request, error: Exception) -> Response:
    """404 and 405 in the grammar of the format whose path it nearly was."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    wire: Wire = AnthropicWire() if request.url.path.startswith("/v1/messages") else OpenAiWire()
    fault = RequestError(
        f"{request.method} {request.url.path} is not served here.",
        status=status,
        kind="not_found_error" if status == 404 else "invalid_request_error",
    )
    return _json(wire.error(fault), status=status)


def _json(
    document: dict[str, object], *, status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    return Response(
        orjson.dumps(document), status_code=status, media_type="application/json", headers=headers
    )
