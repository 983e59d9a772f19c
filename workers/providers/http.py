"""The one HTTP client of a process and the only place that retries because of HTTP (DESIGN §4).

What is retried here and nowhere else: 429 and broken connections, because only this layer sees Retry-After.
What is never retried here: everything else, however hopeful it looks. The semantic layer retries those."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import random
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from types import TracebackType
from typing import Any, Literal, Self, TypeVar

import aiohttp
import httpx
import orjson
from httpx_aiohttp import HttpxAiohttpClient

from workers.errors import SlotTimeoutError
from workers.providers.base import (
    AttemptsExhaustedError,
    BadRequestError,
    BeforeAttempt,
    BeforeRepeat,
    CallTimeoutError,
    MalformedResponseError,
    RateLimitedError,
    TransportError,
)
from workers.providers.retry_plan import is_worth_waiting, wait_before_retry

T = TypeVar("T")
#: Told the seconds that a 429 asks for, so that nobody else starts on that key meanwhile.
OnRateLimited = Callable[[float], Awaitable[None]]

#: A worker thread pool holds hundreds of calls; the library's default of 100 would queue the rest silently.
MAX_CONNECTIONS = 2048
_CONNECT_SECONDS = 10.0
_KEEPALIVE_SECONDS = 30.0
#: An error page is read only this far, and only this long.
_ERROR_BODY_BYTES = 65_536
_ERROR_BODY_SECONDS = 5.0
#: How long the end of a finished stream is waited for, so that its connection can serve the next call.
_DRAIN_SECONDS = 1.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class HttpCall:
    """One call to make, over as many requests as it takes. `timeout_seconds` bounds all of them together,
    the waits between them included. Headers carry keys, so they never show in a repr."""

    url: str
    timeout_seconds: float
    method: Literal["GET", "POST"] = "POST"
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict, repr=False)
    json_body: Mapping[str, Any] | None = dataclasses.field(default=None, repr=False)


class HttpReply:
    """An answer whose body is still on its way. Valid only while the `read` function given it runs."""

    def __init__(
        self,
        response: httpx.Response,
        *,
        idle_seconds: float,
        token_idle_seconds: float,
        max_body_bytes: int,
    ) -> None:
        self.status = response.status_code
        self.headers: Mapping[str, str] = response.headers
        self.token_idle_seconds = token_idle_seconds
        self.received_bytes = 0
        self._chunks = response.aiter_bytes().__aiter__()
        self._idle_seconds = idle_seconds
        self._max_body_bytes = max_body_bytes

    async def chunk(self, *, at_most_seconds: float = float("inf")) -> bytes | None:
        """The next piece of the body, None at its end.

        Comments and blank lines count as life here: they are bytes. Whether they are worth waiting for is for the
        reader to say, who knows a token when it sees one (`token_idle_seconds`, `at_most_seconds`).
        Raises: TransportError when the connection breaks, or is silent for the client's `idle_seconds` or for
        `at_most_seconds`; MalformedResponseError when the body grows beyond the client's limit.
        """
        limit_seconds = min(self._idle_seconds, at_most_seconds)
        silence = asyncio.timeout(limit_seconds)
        try:
            async with silence:
                with _provider_errors():
                    piece = await anext(self._chunks, None)
        except TimeoutError:
            if not silence.expired():
                raise
            raise TransportError(
                f"the reply fell silent for {limit_seconds:g} s", status=self.status
            ) from None
        if piece is not None:
            self.received_bytes += len(piece)
            if self.received_bytes > self._max_body_bytes:
                raise MalformedResponseError(
                    f"the reply is larger than {self._max_body_bytes} bytes", status=self.status
                )
        return piece

    async def body(self) -> bytes:
        """All of it. Raises as `chunk`, and TransportError when nothing but blank lines comes for
        `token_idle_seconds`: some send them while the reply is still being thought of."""
        pieces = []
        watch = TokenWatch(self.token_idle_seconds)
        while (piece := await watch.next_chunk(self)) is not None:
            pieces.append(piece)
            if piece.strip():
                watch.saw_token()
        return b"".join(pieces)

    async def error_body(self) -> bytes:
        """As much of an error page as comes quickly: the status already decides, so nothing here raises."""
        pieces: list[bytes] = []
        with contextlib.suppress(TransportError, MalformedResponseError, TimeoutError):
            async with asyncio.timeout(_ERROR_BODY_SECONDS):
                while sum(map(len, pieces)) < _ERROR_BODY_BYTES and (piece := await self.chunk()) is not None:
                    pieces.append(piece)
        return b"".join(pieces)

    async def drain(self) -> None:
        """Read the few bytes after the last event, or give the connection up. Never raises."""
        with contextlib.suppress(TransportError, MalformedResponseError, TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                while await self.chunk() is not None:
                    pass


class TokenWatch:
    """The timer of the last token, beside that of the last byte: a peer may keep a connection alive for ever and
    say nothing on it."""

    def __init__(self, limit_seconds: float) -> None:
        self._clock = asyncio.get_running_loop().time
        self._limit_seconds = limit_seconds
        self._ends_at = self._clock() + limit_seconds

    def saw_token(self) -> None:
        self._ends_at = self._clock() + self._limit_seconds

    async def next_chunk(self, reply: HttpReply) -> bytes | None:
        """Raises: as `HttpReply.chunk`, and TransportError once no token has come for the limit."""
        left_seconds = self._ends_at - self._clock()
        if left_seconds > 0:
            try:
                return await reply.chunk(at_most_seconds=left_seconds)
            except TransportError:
                if self._clock() < self._ends_at:
                    raise
        raise TransportError(
            f"nothing but signs of life came for {self._limit_seconds:g} s", status=reply.status
        )


class HttpClient:
    """One `httpx.AsyncClient` on the aiohttp transport, shared by every provider of the process.

    Create it inside the event loop that will use it, after any fork, and close it there: connections belong
    to one loop. `idle_seconds`: a connection this silent is broken; `token_idle_seconds`: so is one on which
    nothing but signs of life came for so long (a model that thinks in silence needs its time). `sleep`, `jitter`
    (uniform in [0, 1)) and `clock` (epoch seconds) are passed in for tests.
    """

    def __init__(
        self,
        *,
        max_wait_seconds: float = 20.0,
        idle_seconds: float = 120.0,
        token_idle_seconds: float = 240.0,
        max_body_bytes: int = 16 * 1024 * 1024,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        jitter: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.time,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.clock = clock
        self._loop = asyncio.get_running_loop()
        self._max_wait_seconds = max_wait_seconds
        self._idle_seconds = idle_seconds
        self._token_idle_seconds = token_idle_seconds
        self._max_body_bytes = max_body_bytes
        self._sleep = sleep
        self._jitter = jitter
        # httpx's own pool recounts its idle connections on every request: 24 times the CPU at 256 in flight
        # (reference/celery.md §2.1). A limit of None would fall back to aiohttp's 100.
        self._client = HttpxAiohttpClient(
            limits=httpx.Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=_KEEPALIVE_SECONDS),
            timeout=httpx.Timeout(None, connect=_CONNECT_SECONDS),
            follow_redirects=False,
            transport=transport,
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        await self._client.aclose()

    async def send(
        self,
        call: HttpCall,
        read: Callable[[HttpReply], Awaitable[T]],
        before_attempt: BeforeAttempt,
        on_rate_limited: OnRateLimited | None = None,
        before_repeat: BeforeRepeat | None = None,
    ) -> T:
        """Send `call` until `read` returns, and return that.

        `read` gets each answer, whatever its status, and turns it into a value or a ProviderError. It runs
        inside the retry loop, so a 429 written into a 200 and a stream cut in the middle are retried like a
        plain 429 and a refused connection. Nobody may have consumed what a failed `read` saw. `before_repeat`
        is awaited after the wait and before every request but the first.

        Raises: RateLimitedError, TransportError (retries ended, or the stated wait is above
        `max_wait_seconds`); CallTimeoutError; AttemptsExhaustedError if not even one request was left;
        anything that `read` or `before_attempt` raises.
        """
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("this HttpClient belongs to another event loop; create one per loop")
        deadline = asyncio.timeout(call.timeout_seconds)
        try:
            async with deadline:
                return await self._send_until_read(
                    call, read, before_attempt, on_rate_limited, before_repeat, deadline
                )
        except TimeoutError:
            if not deadline.expired():
                raise
            raise CallTimeoutError(f"no complete answer within {call.timeout_seconds:g} s") from None

    async def _send_until_read(
        self,
        call: HttpCall,
        read: Callable[[HttpReply], Awaitable[T]],
        before_attempt: BeforeAttempt,
        on_rate_limited: OnRateLimited | None,
        before_repeat: BeforeRepeat | None,
        deadline: asyncio.Timeout,
    ) -> T:
        # THE (N+1)² TRAP. It is tempting to bound this loop by a retry count of its own, or to let it retry a
        # 500 "just once". The semantic layer calls us up to N+1 times; if each call could send N+1 requests,
        # one dead provider would cost (N+1)² of them. So this loop has no count: `before_attempt` is the one
        # counter of both layers, and the two layers retry disjoint sets of errors.
        content = _encode(call.json_body)
        await before_attempt()
        retry_index = 0
        while True:
            try:
                return await self._send_once(call, content, read)
            except (RateLimitedError, TransportError) as error:
                failure = error
                wait_seconds = wait_before_retry(error, retry_index=retry_index, jitter=self._jitter())
                if on_rate_limited is not None and isinstance(error, RateLimitedError):
                    await on_rate_limited(wait_seconds)
                if not is_worth_waiting(
                    error,
                    wait_seconds=wait_seconds,
                    max_wait_seconds=self._max_wait_seconds,
                    remaining_seconds=(deadline.when() or float("inf")) - self._loop.time(),
                ):
                    raise
                # Booked before the wait: with nothing left to send, there is nothing to wait for.
                try:
                    await before_attempt()
                except AttemptsExhaustedError:
                    raise error from None
            await self._sleep(wait_seconds)
            if before_repeat is not None:
                try:
                    await before_repeat()
                except SlotTimeoutError:
                    raise failure from None
            retry_index += 1

    async def _send_once(
        self, call: HttpCall, content: bytes | None, read: Callable[[HttpReply], Awaitable[T]]
    ) -> T:
        headers = (
            {"content-type": "application/json", **call.headers} if content is not None else call.headers
        )
        async with self._open(call, headers, content) as response:
            return await read(
                HttpReply(
                    response,
                    idle_seconds=self._idle_seconds,
                    token_idle_seconds=self._token_idle_seconds,
                    max_body_bytes=self._max_body_bytes,
                )
            )

    @contextlib.asynccontextmanager
    async def _open(
        self, call: HttpCall, headers: Mapping[str, str], content: bytes | None
    ) -> AsyncIterator[httpx.Response]:
        with _provider_errors():
            request = self._client.build_request(call.method, call.url, headers=headers, content=content)
            response = await self._client.send(request, stream=True)
        try:
            yield response
        finally:
            # The answer is already known; a connection that breaks while being put away changes nothing.
            with contextlib.suppress(httpx.HTTPError, aiohttp.ClientError, OSError):
                await response.aclose()


@contextlib.contextmanager
def _provider_errors() -> Iterator[None]:
    """The library's errors in our words.

    The aiohttp transport reports a connection dropped by the peer as a *connect timeout* and lets a few
    aiohttp errors through untranslated, so the groups below are wider than httpx's own documentation.
    """
    try:
        yield
    except httpx.TransportError as error:
        raise TransportError(f"the connection failed: {_describe(error)}") from error
    except (httpx.DecodingError, httpx.InvalidURL, aiohttp.ClientError) as error:
        raise MalformedResponseError(f"the answer is not HTTP we can read: {_describe(error)}") from error
    except (ConnectionError, ssl.SSLError) as error:
        raise TransportError(f"the connection failed: {_describe(error)}") from error


def _describe(error: Exception) -> str:
    origin = error.__cause__ or error
    return f"{type(origin).__name__}: {origin}" if str(origin) else type(origin).__name__


def _encode(json_body: Mapping[str, Any] | None) -> bytes | None:
    if json_body is None:
        return None
    try:
        return orjson.dumps(json_body)
    except TypeError as error:
        raise BadRequestError(f"the request cannot be written as JSON: {error}") from error
