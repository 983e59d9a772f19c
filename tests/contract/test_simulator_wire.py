"""Both wire formats of the simulator, streaming and not: one suite over the application itself."""

from __future__ import annotations

import asyncio
import json
import math
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contract.simulator_client import (
    CLIENTS,
    SYSTEM,
    USER,
    WHOLE_ANSWER,
    Anthropic,
    Client,
    Heard,
    events,
)
from tests.unit.simulator.rehearsal import ROOT
from workers.errors import InputError
from workers.providers.simulator.app import MAX_BODY_BYTES, Clocks, create_app
from workers.providers.simulator.latency import (
    MAX_LATENCY_SECONDS,
    MIN_LATENCY_SECONDS,
    spread_latency,
)
from workers.providers.simulator.problem import MODELS
from workers.providers.simulator.server import serve


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    wire: Client = request.param
    return wire


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    async with connect() as connected:
        yield connected


def connect(*, seed: int = 0) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=create_app(seed=seed, latency=0))
    return httpx.AsyncClient(transport=transport, base_url="http://simulator")


async def heard(http: httpx.AsyncClient, client: Client, *, stream: bool, **fields: Any) -> Heard:
    response = await http.post(client.path, json=client.body(stream=stream, **fields))
    assert response.status_code == 200, response.text
    return client.hear_stream(events(response)) if stream else client.hear(response.json())


@pytest.mark.parametrize("stream", [False, True])
async def test_a_reply_is_whole_and_says_what_it_used(
    http: httpx.AsyncClient, client: Client, stream: bool
) -> None:
    reply = await heard(http, client, stream=stream)
    assert (reply.text, reply.finish) == (WHOLE_ANSWER, client.stop)
    assert reply.input_tokens == math.ceil((len(SYSTEM) + len(USER)) / 4)
    assert reply.output_tokens == math.ceil(len(WHOLE_ANSWER) / 4)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_reply_longer_than_max_tokens_is_cut_and_says_so(
    http: httpx.AsyncClient, client: Client, stream: bool
) -> None:
    reply = await heard(http, client, stream=stream, max_tokens=64)
    assert (reply.text, reply.finish) == (WHOLE_ANSWER[: 64 * 4], client.cut)
    assert reply.output_tokens == 64


@pytest.mark.parametrize("stream", [False, True])
async def test_a_reply_of_exactly_max_tokens_is_not_cut(
    http: httpx.AsyncClient, client: Client, stream: bool
) -> None:
    enough = math.ceil(len(WHOLE_ANSWER) / 4)
    assert (await heard(http, client, stream=stream, max_tokens=enough)).finish == client.stop
    assert (await heard(http, client, stream=stream, max_tokens=enough - 1)).finish == client.cut


async def test_asking_again_after_a_torn_reply_with_more_tokens_gives_the_whole_answer(
    http: httpx.AsyncClient, client: Client
) -> None:
    torn = await heard(http, client, stream=False, max_tokens=64)
    messages = [
        *client.body(stream=False)["messages"],
        {"role": "assistant", "content": torn.text},
        {"role": "user", "content": "Your reply was cut. Answer again, as one JSON object."},
    ]
    again = await heard(http, client, stream=False, messages=messages)
    assert (again.text, again.finish) == (WHOLE_ANSWER, client.stop)


@pytest.mark.parametrize("stream", [False, True])
async def test_the_same_request_and_seed_give_the_same_bytes(client: Client, stream: bool) -> None:
    body = client.body(stream=stream)
    answers = []
    for seed in (0, 0, 1):
        async with connect(seed=seed) as http:
            answers.append((await http.post(client.path, json=body)).content)
    assert answers[0] == answers[1]
    assert answers[0] != answers[2]


async def test_another_request_or_seed_gets_another_id(http: httpx.AsyncClient, client: Client) -> None:
    async with connect(seed=1) as other:
        ids = {(await other.post(client.path, json=client.body(stream=False, temperature=0))).json()["id"]}
    for temperature in (0, 1):
        response = await http.post(client.path, json=client.body(stream=False, temperature=temperature))
        ids.add(response.json()["id"])
    assert len(ids) == 3


@pytest.mark.parametrize("stream", [False, True])
async def test_every_body_and_event_carries_the_mark(
    http: httpx.AsyncClient, client: Client, stream: bool
) -> None:
    response = await http.post(client.path, json=client.body(stream=stream))
    documents = events(response) if stream else [response.json()]
    assert len(documents) > 5 or not stream
    assert all(document["simulated"] is True for document in documents)


async def test_models_health_and_refusals_carry_the_mark(http: httpx.AsyncClient, client: Client) -> None:
    listed = (await http.get("/v1/models")).json()
    assert [model["id"] for model in listed["data"]] == list(MODELS)
    assert listed["object"] == "list"
    health = await http.get("/healthz")
    refused = await http.post(client.path, content=b"{")
    assert (health.status_code, refused.status_code) == (200, 400)
    assert all(document["simulated"] is True for document in (listed, health.json(), refused.json()))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"messages": []}, "messages: at least one"),
        ({"messages": None}, "messages: at least one"),
        ({"messages": ["hello"]}, "messages.0.role: must be one of"),
        ({"messages": [{"role": ["user"]}]}, "messages.0.role: must be one of"),
        ({"messages": [{"role": "user", "content": 3}]}, "messages.0.content"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "role user"),
        ({"model": None}, "model: a model's name"),
        ({"max_tokens": 0}, "max_tokens: must be a whole number"),
        ({"max_tokens": True}, "max_tokens: must be a whole number"),
        ({"stream": "yes"}, "stream: must be true or false"),
    ],
)
async def test_a_wrong_field_is_named_in_the_providers_grammar(
    http: httpx.AsyncClient, client: Client, fields: dict[str, Any], sentence: str
) -> None:
    response = await http.post(client.path, json=client.body(stream=False) | fields)
    word, message = client.fault(response.json())
    assert (response.status_code, word) == (400, "invalid_request_error")
    assert sentence in message


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"\xff\xfe", b"3", b"[" * 100_000])
async def test_a_body_that_is_no_json_object_is_a_400(
    http: httpx.AsyncClient, client: Client, body: bytes
) -> None:
    response = await http.post(client.path, content=body)
    word, message = client.fault(response.json())
    assert (response.status_code, word) == (400, "invalid_request_error")
    assert "JSON" in message


async def test_an_unknown_model_is_a_404_that_lists_the_known_ones(http: httpx.AsyncClient) -> None:
    for client, expected in zip(CLIENTS, ("model_not_found", "not_found_error"), strict=True):
        response = await http.post(client.path, json=client.body(stream=False, model="gpt-99"))
        word, message = client.fault(response.json())
        assert (response.status_code, word) == (404, expected)
        assert "gpt-99" in message
        assert MODELS[-1] in message


async def test_a_body_over_four_mebibytes_is_a_413(http: httpx.AsyncClient, client: Client) -> None:
    assert MAX_BODY_BYTES == 4 * 2**20
    body = json.dumps(client.body(stream=False)).encode()
    fits = await http.post(client.path, content=body + b" " * (MAX_BODY_BYTES - len(body)))
    assert fits.status_code == 200
    for size in (MAX_BODY_BYTES + 1, 5 * MAX_BODY_BYTES):
        response = await http.post(client.path, content=body + b" " * (size - len(body)))
        word, _ = client.fault(response.json())
        assert (response.status_code, word) == (413, "request_too_large")


async def test_a_path_or_method_that_is_not_served_is_refused_in_the_same_grammar(
    http: httpx.AsyncClient, client: Client
) -> None:
    for response, status in (
        (await http.get(client.path), 405),
        (await http.post(client.path + "/batches", json={}), 404),
    ):
        _, message = client.fault(response.json())
        assert response.status_code == status
        assert client.path in message


async def test_anthropic_requires_max_tokens_and_openai_takes_either_name_or_none(
    http: httpx.AsyncClient,
) -> None:
    openai, anthropic = CLIENTS
    bodies = {client.name: client.body(stream=False) for client in CLIENTS}
    for body in bodies.values():
        del body["max_tokens"]
    response = await http.post(anthropic.path, json=bodies["anthropic"])
    assert response.status_code == 400
    assert "max_tokens: field required" in anthropic.fault(response.json())[1]
    unlimited = (await http.post(openai.path, json=bodies["openai"])).json()
    assert openai.hear(unlimited).text == WHOLE_ANSWER
    newer = (await http.post(openai.path, json=bodies["openai"] | {"max_completion_tokens": 10})).json()
    assert openai.hear(newer).finish == "length"


async def test_text_may_come_in_blocks(http: httpx.AsyncClient, client: Client) -> None:
    halves = [{"type": "text", "text": half} for half in (USER[:100], USER[100:])]
    messages = [*client.body(stream=False)["messages"][:-1], {"role": "user", "content": halves}]
    system = {"system": [{"type": "text", "text": SYSTEM}]} if client.name == "anthropic" else {}
    assert (await heard(http, client, stream=False, messages=messages, **system)).text == WHOLE_ANSWER


async def test_openai_streams_usage_only_when_asked(http: httpx.AsyncClient) -> None:
    openai = CLIENTS[0]
    response = await http.post(openai.path, json=openai.body(stream=True, stream_options=None))
    assert response.text.endswith("data: [DONE]\n\n")
    assert all("usage" not in chunk and chunk["choices"] for chunk in events(response))


async def test_request_ids_come_in_the_providers_header(http: httpx.AsyncClient) -> None:
    for client, header in zip(CLIENTS, ("x-request-id", "request-id"), strict=True):
        response = await http.post(client.path, json=client.body(stream=False))
        assert response.headers[header].startswith("req_")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60)
@given(
    field=st.sampled_from(["model", "messages", "max_tokens", "stream", "system", "stream_options"]),
    value=JSON,
)
def test_no_value_of_a_field_is_a_server_error(field: str, value: Any) -> None:
    async def statuses() -> list[int]:
        async with connect() as http:
            bodies = [(client.path, client.body(stream=False) | {field: value}) for client in CLIENTS]
            return [(await http.post(path, json=body)).status_code for path, body in bodies]

    assert all(status in {200, 400, 404} for status in asyncio.run(statuses()))


def test_latency_is_spread_by_request_within_its_bounds() -> None:
    assert spread_latency("0" * 24) == MIN_LATENCY_SECONDS
    assert spread_latency("f" * 24) == pytest.approx(MAX_LATENCY_SECONDS)
    assert spread_latency("f" * 20 + "8000") == pytest.approx(0.7, abs=1e-4)


async def test_a_reply_takes_its_latency_and_a_stream_spreads_it(client: Client) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    app = create_app(latency=lambda digest: 3.0 if digest else 0.0, clocks=Clocks(sleep=sleep))
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://simulator") as http:
        await http.post(client.path, json=client.body(stream=False))
        assert slept == [3.0]
        slept.clear()
        await http.post(client.path, json=client.body(stream=True))
    assert slept[0] == 1.5
    assert len(slept) > 5
    assert sum(slept) == pytest.approx(3.0)


@pytest.mark.parametrize("seconds", [-1, math.nan, math.inf])
def test_an_impossible_latency_is_refused(seconds: float) -> None:
    with pytest.raises(InputError, match="it must be 0 or more"):
        create_app(latency=seconds)


def test_an_address_that_is_taken_is_refused_with_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"cannot listen on 127.0.0.1 port {port}.*choose another"):
            serve(create_app(), "127.0.0.1", port)
    with pytest.raises(InputError, match="port 70000"):
        serve(create_app(), "127.0.0.1", 70_000)


def test_the_server_tells_its_address_answers_and_ends_cleanly_on_an_interrupt(tmp_path: Path) -> None:
    program = (
        "from workers.providers.simulator.app import create_app\n"
        "from workers.providers.simulator.server import serve\n"
        "serve(create_app(latency=0), on_listening=lambda url: print(url, flush=True))\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        response = httpx.post(f"{url}/messages", json=Anthropic().body(stream=True), timeout=20)
        assert Anthropic().hear_stream(events(response)).text == WHOLE_ANSWER
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert (process.returncode, errors) == (0, "")
