from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from workers.core.reply import CompletionRequest, Message, Usage
from workers.providers.attempts import AttemptCounter
from workers.providers.base import CallTimeoutError
from workers.providers.compat import Compat
from workers.providers.http import HttpClient
from workers.providers.registry import ProviderConfig
from workers.providers.usage import usage_scope
from workers.providers.wire_provider import WireProvider

REQUEST = CompletionRequest(
    model="m", messages=(Message(role="user", content="1234"),), max_tokens=9, temperature=0.0, json_mode=True
)
GOOD = {"choices": [{"index": 0, "message": {"content": "ok"}, "finish_reason": "stop"}]}
FIELDS = ("max_tokens", "max_completion_tokens", "temperature", "response_format")


class HalfThenSilence(httpx.AsyncByteStream):
    """One event of eight characters, then nothing; `was_read` is set once the reader has taken it."""

    def __init__(self) -> None:
        self.was_read = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b'data: {"choices": [{"index": 0, "delta": {"content": "12345678"}}]}\n\n'
        self.was_read.set()
        await asyncio.Event().wait()


def provider(http: HttpClient) -> WireProvider:
    config = ProviderConfig(name="p", wire="openai", base_url="http://peer/v1", compat=Compat())
    return WireProvider(config, http)


def client(handle: Callable[[httpx.Request], httpx.Response]) -> HttpClient:
    return HttpClient(transport=httpx.MockTransport(handle))


async def test_a_cancelled_stream_is_paid_for() -> None:
    half = HalfThenSilence()
    async with client(lambda _: httpx.Response(200, stream=half)) as http:
        with usage_scope() as scope:
            request = CompletionRequest(model="m", messages=REQUEST.messages, max_tokens=9, stream=True)
            call = asyncio.create_task(provider(http).complete(request, AttemptCounter(1)))
            await half.was_read.wait()
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
    # 4 characters in, 8 out.
    assert scope.total == Usage(input_tokens=1, output_tokens=2, is_estimated=True)


async def test_a_stream_that_outlives_its_deadline_is_paid_for() -> None:
    async with client(lambda _: httpx.Response(200, stream=HalfThenSilence())) as http:
        request = CompletionRequest(
            model="m", messages=REQUEST.messages, max_tokens=9, stream=True, timeout_seconds=0.05
        )
        with pytest.raises(CallTimeoutError, match=r"within 0\.05 s") as caught:
            await provider(http).complete(request, AttemptCounter(1))
    assert caught.value.usage == Usage(input_tokens=1, output_tokens=2, is_estimated=True)


def refuse_one_by_one(request: httpx.Request) -> httpx.Response:
    """Refuses the first optional field it finds, naming it."""
    body = json.loads(request.content)
    for field in FIELDS:
        if field in body:
            return httpx.Response(422, json={"detail": [{"loc": ["body", field], "msg": "Extra inputs"}]})
    return httpx.Response(200, json=GOOD)


async def test_every_optional_field_may_be_refused_one_after_the_other() -> None:
    seen = 0

    def handle(request: httpx.Request) -> httpx.Response:
        nonlocal seen
        seen += 1
        return refuse_one_by_one(request)

    counter = AttemptCounter(2)
    async with client(handle) as http:
        asked = provider(http)
        assert (await asked.complete(REQUEST, counter)).text == "ok"
        assert (seen, counter.used) == (len(FIELDS) + 1, 1)
        await asked.complete(REQUEST, counter)
    assert (seen, counter.used) == (len(FIELDS) + 2, 2)


async def test_calls_side_by_side_learn_together() -> None:
    async with client(refuse_one_by_one) as http:
        asked = provider(http)
        counters = [AttemptCounter(1) for _ in range(5)]
        replies = await asyncio.gather(*(asked.complete(REQUEST, counter) for counter in counters))
        assert [reply.text for reply in replies] == ["ok"] * 5
        last = AttemptCounter(1)
        await asked.complete(REQUEST, last)


async def test_the_request_id_of_the_header_is_kept() -> None:
    headers = {"X-Request-Id": "req-7"}
    async with client(lambda _: httpx.Response(200, json={**GOOD, "id": "body-1"}, headers=headers)) as http:
        assert (await provider(http).complete(REQUEST, AttemptCounter(1))).request_id == "req-7"
