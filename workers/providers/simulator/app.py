"""The simulator as an ASGI application: both wire formats over one set of answers.

It is Starlette and not FastAPI on purpose: a provider knows no more of the API's framework than a real
provider's server would, and a benchmark runs this on the cores that it measures."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import time
from collections.abc import Callable, Sequence
from functools import lru_cache

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from workers.providers.simulator.anthropic_wire import AnthropicWire
from workers.providers.simulator.arrivals import MAX_ARRIVALS, Arrivals
from workers.providers.simulator.catalogue import Catalogue, load_catalogue
from workers.providers.simulator.desk import Decision, Desk, Letter
from workers.providers.simulator.faults.rule import Faults, Rule
from workers.providers.simulator.latency import Latency, Timing, fixed_latency, spread_latency
from workers.providers.simulator.limits import Limiter, Limits
from workers.providers.simulator.openai_wire import OpenAiWire
from workers.providers.simulator.performance import Performance, Sleep
from workers.providers.simulator.problem import MODELS
from workers.providers.simulator.stand_in import any_model, known_model
from workers.providers.simulator.wire import Wire, signed
from workers.providers.simulator.wire_error import RequestError

#: A longer body is refused with 413.
MAX_BODY_BYTES = 4 * 1024 * 1024
#: This much of a body that is too long is still read, so that its sender gets to see the refusal.
MAX_DRAINED_BYTES = 4 * MAX_BODY_BYTES


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Clocks:
    """Time as the simulator knows it, passed in for tests: seconds since 1970, seconds of the machine's
    monotonic clock, and how to wait."""

    epoch: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    sleep: Sleep = asyncio.sleep


def create_app(
    *,
    seed: int = 0,
    latency: Latency | float | None = None,
    first_piece: Latency | None = None,
    limits: Limits | None = None,
    faults: Sequence[Rule] = (),
    accepts_any_model: bool = False,
    max_arrivals: int = MAX_ARRIVALS,
    clocks: Clocks | None = None,
    catalogue: Catalogue | None = None,
) -> Starlette:
    """The simulator. The same request to the same seed gives the same bytes.

    `latency`: seconds that each reply takes, or a function from the request's digest to them; None spreads
    them. `first_piece`: the same for a stream's first piece; None: half of the latency. `limits`: None is
    none. `faults`: rules, the first that fits wins. `accepts_any_model`: a name that is not the simulator's
    is answered by one of its models, which the reply names, instead of with a 404.
    `catalogue`: the problems that it knows; None: those of the package.
    Raises: InputError (a negative latency), KnowledgeError (a problem's folder is not in order).
    """
    if latency is None:
        latency = spread_latency
    elif not callable(latency):
        latency = fixed_latency(latency)
    clocks = clocks or Clocks()
    desk = Desk(
        seed=seed,
        timing=Timing(total=latency, first=first_piece),
        limiter=Limiter(limits) if limits is not None and limits.any_is_set else None,
        faults=Faults(faults),
        resolve=any_model if accepts_any_model else known_model,
        started_seconds=clocks.monotonic(),
        catalogue=catalogue or load_catalogue(),
    )
    simulator = _Simulator(
        desk=desk, arrivals=Arrivals(capacity=max_arrivals), clocks=clocks, salt=_salt(seed)
    )
    return Starlette(
        routes=[
            Route("/v1/chat/completions", simulator.chat_completions, methods=["POST"]),
            Route("/v1/messages", simulator.messages, methods=["POST"]),
            Route("/v1/models", _models),
            Route("/simulator/arrivals", simulator.list_arrivals, methods=["GET"]),
            Route("/simulator/arrivals", simulator.clear_arrivals, methods=["DELETE"]),
            Route("/simulator/stats", simulator.stats),
            Route("/healthz", _healthz),
        ],
        exception_handlers={HTTPException: _no_such_route},
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Simulator:
    desk: Desk
    arrivals: Arrivals
    clocks: Clocks
    salt: bytes

    async def chat_completions(self, request: Request) -> Performance:
        return await self._serve(request, _OPENAI)

    async def messages(self, request: Request) -> Performance:
        return await self._serve(request, _ANTHROPIC)

    async def list_arrivals(self, _request: Request) -> Response:
        return _json(signed(self.arrivals.listed()))

    async def clear_arrivals(self, _request: Request) -> Response:
        self.arrivals.clear()
        return Response(status_code=204)

    async def stats(self, _request: Request) -> Response:
        return _json(signed({**self.arrivals.stats(), "in_flight": self.desk.running}))

    async def _serve(self, request: Request, wire: Wire) -> Performance:
        arrived_seconds = self.clocks.monotonic()
        body = await _body(request)
        letter = Letter(
            wire=wire,
            body=body,
            digest=hashlib.blake2b(body, digest_size=12, salt=self.salt).hexdigest(),
            key_digest=key_digest(_api_key(request)),
            arrived_seconds=arrived_seconds,
            is_too_long=len(body) > MAX_BODY_BYTES,
        )
        decision = self.desk.decide(letter, self.clocks.epoch())
        self.arrivals.record(decision.arrival)
        return Performance(
            decision.plan,
            request_id=(wire.request_id_header, f"req_{letter.digest}"),
            sleep=self.clocks.sleep,
            on_end=lambda: self._end(decision),
        )

    def _end(self, decision: Decision) -> None:
        self.desk.end(decision, self.clocks.epoch())


_OPENAI = OpenAiWire()
_ANTHROPIC = AnthropicWire()


@lru_cache(maxsize=1024)
def key_digest(api_key: str) -> str:
    """How a key is told from others without being shown: 8 hex digits, or "nokey"."""
    return hashlib.blake2b(api_key.encode("utf-8", "surrogatepass")).hexdigest()[:8] if api_key else "nokey"


def _api_key(request: Request) -> str:
    """The key in either format's header; formats are told apart by the path, so that a key is a key."""
    headers = request.headers
    stated = headers.get("authorization")
    return stated.removeprefix("Bearer ").strip() if stated else headers.get("x-api-key", "").strip()


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
    wire: Wire = _ANTHROPIC if request.url.path.startswith("/v1/messages") else _OPENAI
    fault = RequestError(
        f"{request.method} {request.url.path} is not served here.",
        status=status,
        kind="not_found_error" if status == 404 else "invalid_request_error",
    )
    return _json(wire.error(fault), status=status)


def _json(document: dict[str, object], *, status: int = 200) -> Response:
    return Response(orjson.dumps(document), status_code=status, media_type="application/json")
