"""Any server of the OpenAI format works through LOCAL_BASE_URL, without code: shown with the simulator as a server of
its own, which is then a local model server like any other, but for what its replies say of themselves."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator

import pytest
import uvicorn

from tests.contract.providers.dialects import MODES
from tests.contract.providers.fault_server import FaultServer
from tests.contract.simulator_client import MODEL, SYSTEM, USER, WHOLE_ANSWER
from workers.core.reply import CompletionRequest, Message
from workers.providers.attempts import AttemptCounter
from workers.providers.chain import Link, default_models, resolve_chain
from workers.providers.http import HttpClient
from workers.providers.prices import listing_of
from workers.providers.registry import enabled
from workers.providers.simulator.app import create_app
from workers.providers.simulator.problem import MODELS
from workers.providers.wire_provider import WireProvider


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(create_app(latency=0), log_config=None, lifespan="off")
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, args=([listening],), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    running.should_exit = True
    thread.join(timeout=5)
    listening.close()


def question(*, model: str, stream: bool) -> CompletionRequest:
    messages = (Message(role="system", content=SYSTEM), Message(role="user", content=USER))
    return CompletionRequest(model=model, messages=messages, max_tokens=4096, json_mode=True, stream=stream)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_local_server_is_listed_asked_and_read(base_url: str, stream: bool) -> None:
    configs = enabled({"LOCAL_BASE_URL": base_url})
    async with HttpClient() as http:
        provider = WireProvider(configs["local"], http)
        listed = await provider.list_models()
        assert listed == MODELS
        (link, *_) = resolve_chain(
            ["openai/gpt-5"], configs, {"local": default_models("local", listed)}, seat_index=0
        )
        assert link == Link(provider="local", model=MODELS[0], family="sim-alder")
        completion = await provider.complete(question(model=MODEL, stream=stream), AttemptCounter(1))
    assert completion.text == WHOLE_ANSWER
    assert not completion.usage.is_estimated
    # The reply says so itself.
    assert completion.is_simulated


async def test_a_local_server_is_not_the_simulator_by_its_address(base_url: str) -> None:
    configs = enabled({"LOCAL_BASE_URL": base_url, "CONSENSUS_SIMULATOR_URL": base_url})
    assert list(configs) == ["local"]
    # One model of its list, as of any real server; the simulator gives one of each family.
    assert default_models("local", MODELS) == MODELS[:1]
    listing = listing_of("local", MODEL)
    assert listing is not None
    assert not listing.is_simulated


async def test_a_reply_that_does_not_say_so_is_not_simulated() -> None:
    server = FaultServer()
    try:
        script = server.script(MODES["openai-whole"].good(json.dumps({"a": 1})))
        async with HttpClient() as http:
            provider = WireProvider(enabled({"LOCAL_BASE_URL": script.base_url})["local"], http)
            completion = await provider.complete(question(model=MODEL, stream=False), AttemptCounter(1))
    finally:
        server.stop()
    assert not completion.is_simulated
    assert script.seen[0].headers.get("authorization") is None
