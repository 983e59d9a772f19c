"""How long a reply is waited for, in virtual time: bytes and tokens have timers of their own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable

import httpx
import pytest

from tests.unit.governor.virtual_time import run_in_virtual_time
from workers.core.reply import Completion, CompletionRequest, Message, Usage
from workers.providers.attempts import AttemptCounter
from workers.providers.base import CallTimeoutError, TransportError
from workers.providers.compat import Compat
from workers.providers.http import HttpClient
from workers.providers.registry import ProviderConfig
from workers.providers.wire_provider import WireProvider

#: A pause of so many seconds, or bytes.
Step = float | bytes


def chunk(content: str = "", finish: str | None = None, **more: object) -> bytes:
    choice = {"index": 0, "delta": {"content": content} if content else {}, "finish_reason": finish}
    return f"data: {json.dumps({'choices': [choice], **more})}\n\n".encode()


HELLO, END = chunk("hello"), chunk(finish="stop")
KEEP_ALIVE = b": keep-alive\n\n"
WHOLE = json.dumps({"choices": [{"message": {"content": "hello"}, "finish_reason": "stop"}]}).encode()


class Steps(httpx.AsyncByteStream):
    def __init__(self, steps: list[Step]) -> None:
        self._steps = steps

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for step in self._steps:
            if isinstance(step, bytes):
                yield step
            else:
                await asyncio.sleep(step)


def ask(
    steps: list[Step], check: Callable[[Awaitable[Completion]], Awaitable[None]], **request: object
) -> float:
    """What one question takes in virtual seconds; `check` gets the answer to be awaited."""
    took = 0.0

    async def scenario() -> None:
        nonlocal took
        kind = "text/event-stream" if request.get("stream", True) else "application/json"
        answer = httpx.Response(200, stream=Steps(steps), headers={"content-type": kind})
        async with HttpClient(transport=httpx.MockTransport(lambda _: answer)) as http:
            config = ProviderConfig(name="p", wire="openai", base_url="http://peer/v1", compat=Compat())
            asked = CompletionRequest(
                model="m",
                messages=(Message(role="user", content="12345678"),),
                max_tokens=9,
                **{"stream": True, "timeout_seconds": 600.0, **request},  # type: ignore[arg-type]
            )
            await check(WireProvider(config, http).complete(asked, AttemptCounter(1)))
            took = asyncio.get_running_loop().time()

    run_in_virtual_time(scenario())
    return took


async def says_hello(answer: Awaitable[Completion]) -> None:
    assert (await answer).text == "hello"


def test_75_seconds_of_silence_are_survived() -> None:
    assert ask([75.0, HELLO, 75.0, END], says_hello) == pytest.approx(150.0, abs=6.0)
    assert ask([75.0, WHOLE], says_hello, stream=False) == pytest.approx(75.0)


def test_two_minutes_of_silence_are_a_broken_connection() -> None:
    async def breaks(answer: Awaitable[Completion]) -> None:
        with pytest.raises(TransportError, match="silent for 120 s"):
            await answer

    assert ask([HELLO, 121.0, END], breaks) == pytest.approx(120.0)


@pytest.mark.parametrize("noise", [KEEP_ALIVE, b"\n", b": OPENROUTER PROCESSING\r\n\r\n"])
def test_signs_of_life_are_waited_on_for_four_minutes_and_no_longer(noise: bytes) -> None:
    lively: list[Step] = [noise, 10.0]

    async def ends(answer: Awaitable[Completion]) -> None:
        with pytest.raises(TransportError, match="nothing but signs of life came for 240 s"):
            await answer

    assert ask([*lively * 23, HELLO, END], says_hello) == pytest.approx(230.0, abs=6.0)
    assert ask(lively * 100, ends) == pytest.approx(240.0)
    # Every token sets the timer back: 230 s to the first, 230 more to the end.
    assert ask([*lively * 23, HELLO, *lively * 23, END], says_hello) == pytest.approx(460.0, abs=6.0)


def test_an_event_without_a_token_is_a_sign_of_life_only() -> None:
    async def ends(answer: Awaitable[Completion]) -> None:
        with pytest.raises(TransportError, match="signs of life"):
            await answer

    assert ask([chunk(id="c"), 10.0] * 100, ends) == pytest.approx(240.0)


def test_blank_lines_before_a_whole_body_are_signs_of_life_too() -> None:
    async def ends(answer: Awaitable[Completion]) -> None:
        with pytest.raises(TransportError, match="signs of life"):
            await answer

    blank: list[Step] = [b"\n", 10.0]
    assert ask([*blank * 23, WHOLE], says_hello, stream=False) == pytest.approx(230.0)
    assert ask(blank * 100, ends, stream=False) == pytest.approx(240.0)


def test_after_the_finish_reason_no_chatter_is_waited_for() -> None:
    assert ask([HELLO, END, *([KEEP_ALIVE, 1.0] * 500)], says_hello) < 10.0


def test_the_deadline_of_the_call_ends_what_the_timers_would_allow() -> None:
    async def ends(answer: Awaitable[Completion]) -> None:
        with pytest.raises(CallTimeoutError, match="within 30 s"):
            await answer

    assert ask([KEEP_ALIVE, 5.0] * 100, ends, timeout_seconds=30.0) == pytest.approx(30.0)


@pytest.mark.parametrize("stream", [True, False])
def test_what_was_begun_and_never_ended_is_billed_by_estimate(stream: bool) -> None:
    """8 characters in are 2 tokens; streamed, "hello" is 5 characters, 2 tokens; whole, what came of the body is
    counted: `{"choices": [` is 13 characters, 4 tokens."""

    async def ends(answer: Awaitable[Completion]) -> None:
        with pytest.raises(CallTimeoutError) as caught:
            await answer
        assert caught.value.usage == Usage(
            input_tokens=2, output_tokens=2 if stream else 4, is_estimated=True
        )

    ask([HELLO if stream else WHOLE[:13], 100.0], ends, stream=stream, timeout_seconds=30.0)
