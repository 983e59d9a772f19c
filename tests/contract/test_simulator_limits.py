"""The simulator's own limits as a client meets them: statuses, headers and bodies of both formats, over a real
server whose clock stands still; and what it tells of its arrivals."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from datetime import datetime

import httpx
import pytest

from tests.contract.simulator_client import CLIENTS, MODEL, WHOLE_ANSWER, Anthropic, Client, OpenAi
from tests.contract.simulator_stage import NOW_EPOCH_SECONDS, Stage, raised_stage
from tests.contract.test_simulator_faults import ask
from workers.providers.base import OverloadedError, QuotaError, RateLimitedError
from workers.providers.http import HttpClient
from workers.providers.registry import WireName
from workers.providers.retry_after import retry_after_seconds
from workers.providers.simulator.app import Clocks, create_app, key_digest
from workers.providers.simulator.limits import Limits
from workers.providers.simulator.server import SimulatorServer, listening_socket


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with raised_stage() as raised:
        yield raised


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    wire: Client = request.param
    return wire


def post(stage: Stage, client: Client, *, key: str = "one", model: str = MODEL) -> httpx.Response:
    header = {"authorization": f"Bearer {key}"} if client.name == "openai" else {"x-api-key": key}
    return stage.http.post(
        client.path, json=client.body(stream=False, model=model), headers=header if key else {}
    )


def test_without_limits_no_answer_speaks_of_any(stage: Stage, client: Client) -> None:
    stage.play()
    response = post(stage, client)
    assert not [name for name in response.headers if "ratelimit" in name or "retry" in name]


def test_beyond_its_requests_a_minute_a_key_and_family_gets_429(stage: Stage, client: Client) -> None:
    stage.play(limits=Limits(requests_per_minute=2))
    assert [post(stage, client).status_code for _ in range(3)] == [200, 200, 429]
    # Another key, and another family of the same key, have limits of their own; another size has not.
    assert post(stage, client, key="two").status_code == 200
    assert post(stage, client, model="sim-birch-large").status_code == 200
    assert post(stage, client, model="sim-alder-small").status_code == 429


def test_a_429_says_when_the_next_request_fits(stage: Stage, client: Client) -> None:
    # Two a minute refill one in 30 s.
    stage.play(limits=Limits(requests_per_minute=2))
    post(stage, client)
    post(stage, client)
    refused = post(stage, client)
    word, message = client.fault(refused.json())
    assert word == ("rate_limit_exceeded" if client.name == "openai" else "rate_limit_error")
    assert "requests per minute, limit 2" in message
    assert refused.headers["retry-after"] == "30"
    wait_seconds = retry_after_seconds(refused.headers, refused.content, now_epoch_seconds=NOW_EPOCH_SECONDS)
    assert wait_seconds == 30
    if client.name == "openai":
        assert refused.headers["retry-after-ms"] == "30000"
        assert refused.json()["error"]["type"] == "requests"


def test_a_wait_is_rounded_up_so_that_nobody_comes_back_too_early(stage: Stage, client: Client) -> None:
    # Seven a minute are one in 60 / 7 = 8.5714… s.
    stage.play(limits=Limits(requests_per_minute=7, burst_seconds=1))
    post(stage, client)
    refused = post(stage, client)
    assert refused.headers["retry-after"] == "9"
    assert refused.headers.get("retry-after-ms") == ("8572" if client.name == "openai" else None)


def test_openai_headers_tell_durations(stage: Stage) -> None:
    stage.play(limits=Limits(requests_per_minute=60, input_tokens_per_minute=60_000))
    response = post(stage, OpenAi())
    used = response.json()["usage"]["prompt_tokens"]
    told = {name: value for name, value in response.headers.items() if name.startswith("x-ratelimit")}
    # One of 60 requests comes back in 1 s; 60,000 tokens a minute are one a millisecond.
    assert told == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": "60000",
        "x-ratelimit-remaining-tokens": str(60_000 - used),
        "x-ratelimit-reset-tokens": f"{used}ms",
    }


def test_anthropic_headers_tell_times(stage: Stage) -> None:
    stage.play(
        limits=Limits(requests_per_minute=2, input_tokens_per_minute=60_000, output_tokens_per_minute=8_000)
    )
    response = post(stage, Anthropic())
    usage = response.json()["usage"]
    told = {
        name.removeprefix("anthropic-ratelimit-"): value
        for name, value in response.headers.items()
        if name.startswith("anthropic-ratelimit")
    }
    assert told["requests-limit"] == "2"
    assert told["requests-remaining"] == "1"
    assert told["requests-reset"] == "2025-06-30T12:00:30Z"
    assert told["input-tokens-remaining"] == str(60_000 - usage["input_tokens"])
    # The answer's own tokens are known at its end; until then `max_tokens` are held.
    assert told["output-tokens-remaining"] == str(8_000 - 4_096)
    assert (told["tokens-limit"], told["tokens-remaining"]) == ("8000", str(8_000 - 4_096))
    assert datetime.fromisoformat(told["tokens-reset"]).timestamp() == NOW_EPOCH_SECONDS + 31


def test_output_that_was_reserved_and_not_used_comes_back(stage: Stage) -> None:
    stage.play(limits=Limits(output_tokens_per_minute=5_000))
    used = -(-len(WHOLE_ANSWER) // 4)
    first, second = post(stage, Anthropic()), post(stage, Anthropic())
    left = [int(answer.headers["anthropic-ratelimit-output-tokens-remaining"]) for answer in (first, second)]
    assert left == [5_000 - 4_096, 5_000 - used - 4_096]


@pytest.mark.parametrize("meter", ["input", "output"])
def test_tokens_are_limited_as_well(stage: Stage, client: Client, meter: str) -> None:
    stage.play(limits=Limits(**{f"{meter}_tokens_per_minute": 100}))
    # A call larger than the whole limit is let in once, and the debt keeps the next one out.
    first, second = post(stage, client), post(stage, client)
    assert (first.status_code, second.status_code) == (200, 429)
    assert f"{meter} tokens per minute, limit 100" in client.fault(second.json())[1]
    assert int(second.headers["retry-after"]) > 60


def test_a_day_has_its_requests_until_midnight_utc(stage: Stage, client: Client) -> None:
    stage.play(limits=Limits(requests_per_day=1))
    post(stage, client)
    refused = post(stage, client)
    # It is noon.
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "43200")
    if client.name == "openai":
        assert refused.headers["x-ratelimit-reset-requests"] == "12h0m0s"


def test_openai_shows_the_scarcer_of_the_minutes_and_the_days_requests(stage: Stage) -> None:
    for per_minute, per_day, shown in ((10, 5, "4"), (5, 10, "4")):
        stage.play(limits=Limits(requests_per_minute=per_minute, requests_per_day=per_day))
        response = post(stage, OpenAi())
        assert response.headers["x-ratelimit-remaining-requests"] == shown
        assert response.headers["x-ratelimit-limit-requests"] == "5"


@pytest.mark.parametrize(
    "allowance", [Limits(allowance_tokens=1), Limits(allowance_usd=0.000001)], ids=["tokens", "dollars"]
)
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_a_key_whose_allowance_is_used_up_has_no_quota(
    stage: Stage, wire: WireName, allowance: Limits
) -> None:
    stage.play(limits=allowance)
    async with HttpClient() as http:
        await ask(http, stage, wire, stream=False)
        with pytest.raises(QuotaError) as raised:
            await ask(http, stage, wire, stream=False)
    assert raised.value.status == (429 if wire == "openai" else 402)
    # It is the key's, over all families.
    client = CLIENTS[0] if wire == "openai" else CLIENTS[1]
    response = stage.http.post(client.path, json=client.body(stream=False, model="sim-cedar-small"))
    assert response.status_code == raised.value.status


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
async def test_our_providers_read_a_429_of_the_limits(stage: Stage, wire: WireName) -> None:
    stage.play(limits=Limits(requests_per_minute=1))
    async with HttpClient(clock=lambda: NOW_EPOCH_SECONDS) as http:
        await ask(http, stage, wire, stream=True)
        with pytest.raises(RateLimitedError) as raised:
            await ask(http, stage, wire, stream=True)
    assert raised.value.retry_after_seconds == 60


class Gate:
    """A server whose answers wait until they are let go."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.is_open = threading.Event()

    async def sleep(self, _seconds: float) -> None:
        self.entered.release()
        while not self.is_open.is_set():
            await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    ("limits", "statuses"),
    [(Limits(concurrency=1), (429, 429)), (Limits(overload_above=1), (503, 529))],
    ids=["concurrency", "overload"],
)
def test_a_place_is_taken_until_the_answer_has_ended(
    stage: Stage, client: Client, limits: Limits, statuses: tuple[int, int]
) -> None:
    gate = Gate()
    stage.play(limits=limits, latency=1, clocks=Clocks(sleep=gate.sleep))
    first = threading.Thread(target=lambda: post(stage, client))
    first.start()
    assert gate.entered.acquire(timeout=20)
    response = post(stage, client)
    assert response.status_code == statuses[client.name == "anthropic"]
    assert response.headers["retry-after"] == "1"
    gate.is_open.set()
    first.join()
    assert post(stage, client).status_code == 200


def test_a_caller_who_leaves_gives_its_place_back(stage: Stage, client: Client) -> None:
    gate = Gate()
    stage.play(limits=Limits(concurrency=1), latency=1, clocks=Clocks(sleep=gate.sleep))
    body = json.dumps(client.body(stream=True)).encode()
    head = f"POST {client.path} HTTP/1.1\r\nhost: simulator\r\ncontent-length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", stage.port), timeout=20) as connection:
        connection.sendall(head.encode() + body)
        assert gate.entered.acquire(timeout=20)
    in_flight = [stage.http.get("/simulator/stats").json()["in_flight"] for _ in range(100)]
    gate.is_open.set()
    # The server has seen the connection close long before it has answered a hundred questions.
    assert in_flight[-1] == 0
    assert post(stage, client).status_code == 200


async def test_overload_is_read_as_overload(stage: Stage) -> None:
    gate = Gate()
    stage.play(limits=Limits(overload_above=1), latency=1, clocks=Clocks(sleep=gate.sleep))
    first = threading.Thread(target=lambda: post(stage, OpenAi()))
    first.start()
    assert await asyncio.to_thread(gate.entered.acquire, timeout=20)
    async with HttpClient() as http:
        with pytest.raises(OverloadedError):
            await ask(http, stage, "anthropic", stream=False)
    gate.is_open.set()
    await asyncio.to_thread(first.join)


def test_arrivals_tell_each_request_and_can_be_cleared(stage: Stage) -> None:
    monotonic = iter(range(100))
    stage.play(
        "- {fault: unauthorized, when: {nth: 3}}",
        limits=Limits(requests_per_minute=2),
        clocks=Clocks(monotonic=lambda: float(next(monotonic)), epoch=lambda: NOW_EPOCH_SECONDS),
    )
    for key in ("one", "one", "", "one"):
        post(stage, OpenAi(), key=key)
    told = stage.http.get("/simulator/arrivals").json()
    assert told["simulated"] is True
    assert told["dropped"] == 0
    arrivals = told["arrivals"]
    assert [arrival["status"] for arrival in arrivals] == [200, 200, 401, 429]
    # The clock was read once when the simulator was made.
    assert [arrival["arrived_seconds"] for arrival in arrivals] == [1.0, 2.0, 3.0, 4.0]
    assert [arrival["fault"] for arrival in arrivals] == [None, None, "unauthorized", None]
    assert {arrival["model"] for arrival in arrivals} == {MODEL}
    assert [arrival["key_digest"] for arrival in arrivals] == [
        key_digest("one"),
        key_digest("one"),
        "nokey",
        key_digest("one"),
    ]
    assert len(key_digest("one")) == 8
    assert [arrival["output_tokens"] for arrival in arrivals] == [-(-len(WHOLE_ANSWER) // 4)] * 2 + [0] * 2
    stats = stage.http.get("/simulator/stats").json()
    assert stats["by_status"] == {"200": 2, "401": 1, "429": 1}
    assert (stats["requests"], stats["in_flight"]) == (4, 0)
    assert stage.http.delete("/simulator/arrivals").status_code == 204
    assert stage.http.get("/simulator/arrivals").json()["arrivals"] == []
    assert stage.http.get("/simulator/stats").json()["requests"] == 0


def test_only_the_last_arrivals_are_remembered(stage: Stage) -> None:
    stage.play(max_arrivals=2)
    for model in ("sim-alder-large", "sim-birch-large", "sim-cedar-large"):
        post(stage, OpenAi(), model=model)
    told = stage.http.get("/simulator/arrivals").json()
    assert [arrival["model"] for arrival in told["arrivals"]] == ["sim-birch-large", "sim-cedar-large"]
    assert told["dropped"] == 1


def test_any_model_is_answered_by_a_stand_in_that_says_so(stage: Stage, client: Client) -> None:
    stage.play(accepts_any_model=True)
    for asked in ("gpt-5", "claude-sonnet-4-5", "gemini-2.5-flash", MODEL):
        response = post(stage, client, model=asked)
        assert response.status_code == 200
        assert response.json()["model"].startswith("sim-")
        assert response.json()["simulated"] is True
    assert post(stage, client, model=MODEL).json()["model"] == MODEL
    listed = stage.http.get("/simulator/arrivals").json()["arrivals"]
    assert [arrival["model"] for arrival in listed][:2] == ["gpt-5", "claude-sonnet-4-5"]
    assert post(stage, client, model="").status_code == 400


def test_a_model_is_strange_unless_any_is_welcome(stage: Stage, client: Client) -> None:
    stage.play()
    response = post(stage, client, model="gpt-5")
    assert response.status_code == 404
    assert "--any-model" in client.fault(response.json())[1]


def test_connections_are_refused_in_their_window_and_then_accepted_again() -> None:
    waits: list[float] = []
    go_on = threading.Semaphore(0)
    asked = threading.Semaphore(0)

    async def sleep(seconds: float) -> None:
        waits.append(seconds)
        asked.release()
        while not go_on.acquire(blocking=False):
            await asyncio.sleep(0.001)

    with listening_socket("127.0.0.1", 0) as listening:
        port = listening.getsockname()[1]
        server = SimulatorServer(
            create_app(latency=0), refused_windows=[(30.0, 45.0), (60.0, None)], sleep=sleep
        )
        thread = threading.Thread(target=lambda: server.run(sockets=[listening]), daemon=True)
        thread.start()
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=20) as http:
            assert asked.acquire(timeout=20)
            assert http.get("/healthz").status_code == 200
            for expected in ("refused", "accepted", "refused"):
                go_on.release()
                if expected == "refused":
                    with pytest.raises(httpx.TransportError):
                        _until_it_fails(http)
                    with pytest.raises(httpx.ConnectError):
                        http.get("/healthz")
                if len(waits) < 3:
                    assert asked.acquire(timeout=20)
                if expected == "accepted":
                    assert http.get("/healthz").status_code == 200
        server.should_exit = True
        thread.join(timeout=20)
    # To the first window, through it, and from its end to the second, which never ends.
    assert waits == [30.0, 15.0, 15.0]
    assert not thread.is_alive()


def _until_it_fails(http: httpx.Client) -> None:
    while True:
        http.get("/healthz")
