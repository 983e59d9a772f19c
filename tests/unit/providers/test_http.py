from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import httpx
import pytest

from workers.providers.attempts import AttemptCounter
from workers.providers.base import (
    BadRequestError,
    CallTimeoutError,
    MalformedResponseError,
    OverloadedError,
    RateLimitedError,
    TransportError,
)
from workers.providers.http import HttpCall, HttpClient, HttpReply

CALL = HttpCall(
    url="http://peer/v1/x", timeout_seconds=30.0, headers={"x-api-key": "hush"}, json_body={"a": 1}
)


async def body_of(reply: HttpReply) -> bytes:
    if reply.status == 429:
        raise RateLimitedError("slow down", status=429)
    return await reply.body()


class Chunks(httpx.AsyncByteStream):
    def __init__(self, *chunks: bytes, then: Exception | None = None) -> None:
        self._chunks = chunks
        self._then = then

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            yield chunk
        if self._then is not None:
            raise self._then


def client(
    *answers: httpx.Response | Exception, sleeps: list[float] | None = None, **options: object
) -> HttpClient:
    """Answers in order; the last one for ever."""
    remaining = list(answers)

    def handle(_: httpx.Request) -> httpx.Response:
        answer = remaining.pop(0) if len(remaining) > 1 else remaining[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def sleep(seconds: float) -> None:
        if sleeps is not None:
            sleeps.append(seconds)

    return HttpClient(transport=httpx.MockTransport(handle), sleep=sleep, jitter=lambda: 0.5, **options)  # type: ignore[arg-type]


async def test_waits_grow_and_are_told_to_the_callback() -> None:
    """429s without a statement: (1, 2, 4 s) · (½ + ½ · 0.5) = 0.75, 1.5, 3 s. The last is told, not slept."""
    sleeps: list[float] = []
    told: list[float] = []

    async def tell(seconds: float) -> None:
        told.append(seconds)

    async with client(httpx.Response(429), sleeps=sleeps) as http:
        with pytest.raises(RateLimitedError):
            await http.send(CALL, body_of, AttemptCounter(3), tell)
    assert sleeps == [0.75, 1.5]
    assert told == [0.75, 1.5, 3.0]


async def test_broken_connections_are_not_told_as_rate_limits() -> None:
    async def tell(seconds: float) -> None:
        raise AssertionError(seconds)

    async with client(httpx.ConnectError("refused"), httpx.Response(200, content=b"ok")) as http:
        assert await http.send(CALL, body_of, AttemptCounter(2), tell) == b"ok"


@pytest.mark.parametrize(
    "error",
    [
        httpx.ConnectError("x"),
        httpx.ConnectTimeout("x"),
        httpx.ReadError("x"),
        httpx.RemoteProtocolError("x"),
        ConnectionResetError("x"),
    ],
)
async def test_each_way_to_lose_a_connection_is_one_class(error: Exception) -> None:
    counter = AttemptCounter(3)
    async with client(error) as http:
        with pytest.raises(TransportError, match=type(error).__name__):
            await http.send(CALL, body_of, counter)
    assert counter.used == 3


async def test_what_cannot_be_decoded_is_malformed_and_not_retried() -> None:
    counter = AttemptCounter(3)
    broken = httpx.Response(200, headers={"content-encoding": "gzip"}, stream=Chunks(b"not gzip"))
    async with client(broken) as http:
        with pytest.raises(MalformedResponseError):
            await http.send(CALL, body_of, counter)
    assert counter.used == 1


async def test_a_body_is_bounded() -> None:
    async with client(
        httpx.Response(200, stream=Chunks(b"12345", b"67890", b"!")), max_body_bytes=10
    ) as http:
        with pytest.raises(MalformedResponseError, match="larger than 10 bytes"):
            await http.send(CALL, body_of, AttemptCounter(1))
    async with client(httpx.Response(200, stream=Chunks(b"12345", b"67890")), max_body_bytes=10) as http:
        assert await http.send(CALL, body_of, AttemptCounter(1)) == b"1234567890"


async def test_an_error_page_is_read_as_far_as_it_comes() -> None:
    async def error_page(reply: HttpReply) -> bytes:
        return await reply.error_body()

    async with client(httpx.Response(500, stream=Chunks(b"half a", then=httpx.ReadError("cut")))) as http:
        assert await http.send(CALL, error_page, AttemptCounter(1)) == b"half a"
    async with client(httpx.Response(500, stream=Chunks(*[b"x" * 40_000] * 9))) as http:
        assert len(await http.send(CALL, error_page, AttemptCounter(1))) == 80_000


async def test_the_deadline_covers_the_waits_between_requests() -> None:
    async def sleep_for_ever(_: float) -> None:
        await asyncio.Event().wait()

    async def refused(_: HttpReply) -> bytes:
        raise RateLimitedError("slow down", retry_after_seconds=0.0)

    transport = httpx.MockTransport(lambda _: httpx.Response(429))
    call = HttpCall(url="http://peer/", timeout_seconds=0.05)
    async with HttpClient(transport=transport, sleep=sleep_for_ever, jitter=lambda: 0.0) as http:
        with pytest.raises(CallTimeoutError, match=r"within 0\.05 s"):
            await http.send(call, refused, AttemptCounter(9))


async def test_a_timeout_of_the_callers_own_is_not_taken_for_ours() -> None:
    async def slow_store() -> None:
        raise TimeoutError("the database is slow")

    async with client(httpx.Response(200)) as http:
        with pytest.raises(TimeoutError, match="the database is slow"):
            await http.send(CALL, body_of, slow_store)


async def test_errors_that_read_raises_pass_through_unretried() -> None:
    async def overloaded(_: HttpReply) -> bytes:
        raise OverloadedError("busy")

    counter = AttemptCounter(3)
    async with client(httpx.Response(200)) as http:
        with pytest.raises(OverloadedError):
            await http.send(CALL, overloaded, counter)
    assert counter.used == 1


async def test_a_prompt_that_is_not_unicode_is_a_bad_request_that_never_leaves() -> None:
    counter = AttemptCounter(1)
    call = HttpCall(url="http://peer/", timeout_seconds=1.0, json_body={"text": "\ud800"})
    async with client(httpx.Response(200)) as http:
        with pytest.raises(BadRequestError, match="cannot be written as JSON"):
            await http.send(call, body_of, counter)
    assert counter.used == 0


def test_a_client_belongs_to_the_loop_it_was_made_in() -> None:
    async def make() -> HttpClient:
        return client(httpx.Response(200))

    async def use(http: HttpClient) -> None:
        with pytest.raises(RuntimeError, match="another event loop"):
            await http.send(CALL, body_of, AttemptCounter(1))

    made = asyncio.run(make())
    asyncio.run(use(made))
    with pytest.raises(RuntimeError):
        HttpClient()


def test_keys_and_prompts_are_in_no_repr() -> None:
    assert "hush" not in repr(CALL)
    assert "{'a'" not in repr(CALL)
