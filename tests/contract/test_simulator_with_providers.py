"""The project's own providers read the simulator: both sides of each wire format were written by hand, and
here they meet."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.contract.simulator_client import MODEL, SYSTEM, USER, WHOLE_ANSWER
from workers.core.reply import CompletionRequest, FinishReason, Message
from workers.providers.attempts import AttemptCounter
from workers.providers.base import BadRequestError, ContextTooLongError
from workers.providers.compat import Compat
from workers.providers.http import HttpClient
from workers.providers.registry import ProviderConfig, WireName
from workers.providers.simulator.app import MAX_BODY_BYTES, create_app
from workers.providers.simulator.problem import MODELS
from workers.providers.wire_provider import WireProvider


@pytest.fixture(params=["openai", "anthropic"])
async def provider(request: pytest.FixtureRequest) -> AsyncIterator[WireProvider]:
    wire: WireName = request.param
    config = ProviderConfig(
        name="simulator", wire=wire, base_url="http://simulator/v1", compat=Compat(has_json_mode=False)
    )
    async with HttpClient(transport=httpx.ASGITransport(app=create_app(latency=0))) as http:
        yield WireProvider(config, http)


def question(
    *, stream: bool = False, max_tokens: int = 4096, user: str = USER, model: str = MODEL
) -> CompletionRequest:
    messages = (Message(role="system", content=SYSTEM), Message(role="user", content=user))
    return CompletionRequest(model=model, messages=messages, max_tokens=max_tokens, stream=stream)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_completion_is_whole_signed_and_billed(provider: WireProvider, stream: bool) -> None:
    completion = await provider.complete(question(stream=stream), AttemptCounter(1))
    assert completion.text == WHOLE_ANSWER
    assert "roman.py" in json.loads(completion.text)["files"]
    assert completion.is_simulated
    assert completion.finish_reason is FinishReason.STOP
    assert completion.model_served == MODEL
    assert completion.usage.output_tokens == -(-len(WHOLE_ANSWER) // 4)
    assert not completion.usage.is_estimated


@pytest.mark.parametrize("stream", [False, True])
async def test_a_cut_reply_is_known_as_cut(provider: WireProvider, stream: bool) -> None:
    completion = await provider.complete(question(stream=stream, max_tokens=64), AttemptCounter(1))
    assert (completion.text, completion.finish_reason) == (WHOLE_ANSWER[:256], FinishReason.LENGTH)


async def test_refusals_arrive_as_their_own_errors(provider: WireProvider) -> None:
    with pytest.raises(BadRequestError, match="gpt-99"):
        await provider.complete(question(model="gpt-99"), AttemptCounter(1))
    with pytest.raises(ContextTooLongError):
        await provider.complete(question(user="x" * MAX_BODY_BYTES), AttemptCounter(1))


async def test_the_models_are_listed_in_order(provider: WireProvider) -> None:
    assert await provider.list_models() == MODELS
