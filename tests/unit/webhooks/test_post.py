"""One attempt, against real receivers on loopback; names are resolved as a test says."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import httpx
import pytest

from tests.unit.webhooks.certificate import contexts_for
from tests.unit.webhooks.receiver import Act, Receiver, flood, raw, receiver, silence, status
from workers.core.webhook import Answer
from workers.guarded_http import SystemNames, guarded_client
from workers.webhooks.post import post

#: 2026-01-02 03:04:05 UTC.
NOW = 1_767_323_045.0
TIMEOUT_SECONDS = 5.0


class Names:
    """Answers with the next list of addresses, the last one for ever; counts how often it was asked."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = answers or (["127.0.0.1"],)
        self.asked: list[str] = []

    async def __call__(self, host: str) -> Sequence[str]:
        self.asked.append(host)
        answer = self._answers[min(len(self.asked), len(self._answers)) - 1]
        if not answer:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return answer


@contextlib.asynccontextmanager
async def client_of(
    names: Names | SystemNames | None = None,
    *,
    allow_private: bool = True,
    certificates: ssl.SSLContext | None = None,
) -> AsyncIterator[httpx.AsyncClient]:
    client = guarded_client(
        names or Names(),
        allow_private=allow_private,
        most_connections=10,
        timeout_seconds=TIMEOUT_SECONDS,
        certificates=certificates,
    )
    async with client:
        yield client


async def sent(
    client: httpx.AsyncClient, url: str, timeout_seconds: float = TIMEOUT_SECONDS, body: bytes = b"{}"
) -> Answer:
    return await post(
        client,
        url,
        body=body,
        headers={"webhook-id": "whd_1"},
        now_epoch_seconds=NOW,
        timeout_seconds=timeout_seconds,
    )


async def answer_to(*acts: Act, timeout_seconds: float = TIMEOUT_SECONDS) -> tuple[Answer, Receiver]:
    with receiver(*acts) as served:
        async with client_of() as client:
            return await sent(client, served.url, timeout_seconds), served


async def test_the_body_arrives_byte_for_byte_with_its_headers() -> None:
    with receiver() as served:
        async with client_of() as client:
            answer = await sent(client, served.url + "?token=1", body=b'{"type":"x"}')

    (request,) = served.requests
    assert answer == Answer(status=204)
    assert (request.path, request.body) == ("/hook?token=1", b'{"type":"x"}')
    assert request.headers["webhook-id"] == "whd_1"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["content-length"] == "12"
    assert request.headers["host"] == f"127.0.0.1:{served.port}"


async def test_a_redirect_is_a_failure_and_is_not_followed() -> None:
    with receiver() as elsewhere:
        answer, served = await answer_to(status(302, location=elsewhere.url))
        assert elsewhere.requests == []
    assert answer == Answer(status=302, problem="answered 302; redirects are not followed")
    assert len(served.requests) == 1


async def test_what_a_receiver_writes_is_not_kept() -> None:
    answer, _ = await answer_to(status(500, b"a secret in a traceback"))
    assert answer == Answer(status=500, problem="answered 500")


@pytest.mark.parametrize(
    ("header", "seconds"),
    [("120", 120.0), ("Fri, 02 Jan 2026 03:06:05 GMT", 120.0), ("nonsense", None)],
)
async def test_retry_after_is_read_in_both_its_grammars(header: str, seconds: float | None) -> None:
    answer, _ = await answer_to(status(503, retry_after=header))
    assert answer.retry_after_seconds == seconds


async def test_a_body_without_end_costs_no_more_than_its_beginning() -> None:
    answer, _ = await answer_to(flood)
    assert answer == Answer(status=200)


async def test_a_success_whose_body_never_comes_is_a_success() -> None:
    answer, _ = await answer_to(
        raw(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", hangs=True), timeout_seconds=0.3
    )
    assert answer == Answer(status=200)


async def test_a_success_whose_body_is_cut_is_a_success() -> None:
    answer, _ = await answer_to(raw(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab"))
    assert answer == Answer(status=200)


async def test_a_silent_receiver_is_left_after_the_time_in_all() -> None:
    answer, _ = await answer_to(silence, timeout_seconds=0.3)
    assert answer == Answer(problem="no answer within 0.3 s")


async def test_a_step_that_takes_too_long_is_told_like_the_whole() -> None:
    with receiver(silence) as served:
        client = guarded_client(Names(), allow_private=True, most_connections=1, timeout_seconds=0.2)
        async with client:
            answer = await sent(client, served.url, timeout_seconds=5.0)
    assert answer == Answer(problem="no answer within 5 s")


async def test_a_receiver_that_dribbles_is_left_after_the_time_in_all() -> None:
    async def dribble(writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nx: ")
        while True:
            writer.write(b"y")
            await writer.drain()
            await asyncio.sleep(0.05)

    answer, _ = await answer_to(dribble, timeout_seconds=0.3)
    assert answer == Answer(problem="no answer within 0.3 s")


@pytest.mark.parametrize(
    ("act", "problem"),
    [
        (raw(b""), "it hung up without an answer"),
        (raw(b"no http at all\r\n\r\n"), "it answered something that is not HTTP"),
        (raw(b"HTTP/1.1 200 OK\r\nx: " + b"y" * 100_000), "it answered something that is not HTTP"),
    ],
)
async def test_a_broken_answer_is_told_in_our_words(act: Act, problem: str) -> None:
    answer, _ = await answer_to(act)
    assert answer == Answer(problem=problem)


async def test_a_port_where_nothing_listens_is_told_as_that() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
    async with client_of() as client:
        answer = await sent(client, f"http://127.0.0.1:{port}/hook/secret")
    assert answer == Answer(problem="nothing listens there: connection refused")


async def test_a_name_that_does_not_exist_is_told_as_that() -> None:
    async with client_of(Names([])) as client:
        answer = await sent(client, "http://nowhere.example/")
    assert answer == Answer(problem="its host name leads nowhere")


async def test_a_url_that_the_client_cannot_read_is_a_failure_like_any_other() -> None:
    async with client_of() as client:
        answer = await sent(client, "http://receiver.example:port/")
    assert answer.problem == "the connection broke off (InvalidURL)"


async def test_a_name_with_a_private_address_is_refused_and_nothing_is_sent() -> None:
    with receiver() as served:
        async with client_of(Names(["127.0.0.1"]), allow_private=False) as client:
            answer = await sent(client, f"http://rebound.example:{served.port}/")
        assert served.connections == 0
    assert answer.is_refused
    assert answer.problem == "the URL leads into a closed network: 127.0.0.1 is a loopback address"


async def test_one_private_address_among_public_ones_refuses_the_name() -> None:
    with receiver() as served:
        async with client_of(Names(["93.184.216.34", "127.0.0.1"]), allow_private=False) as client:
            answer = await sent(client, f"http://mixed.example:{served.port}/")
        assert served.connections == 0
    assert answer.is_refused


async def test_a_name_that_changes_its_address_after_a_good_one_is_refused() -> None:
    names = Names(["127.0.0.1"], ["169.254.169.254"])
    with receiver() as served:
        async with client_of(names) as client:
            url = f"http://rebinding.example:{served.port}/"
            first, second = await sent(client, url), await sent(client, url)
        assert served.connections == 1
    assert first == Answer(status=204)
    assert second.is_refused
    # Each connection looked the name up once, and connected to what it then saw.
    assert names.asked == ["rebinding.example", "rebinding.example"]


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "[::ffff:127.0.0.1]"])
async def test_a_literal_address_does_not_get_around_the_check(host: str) -> None:
    with receiver() as served:
        names = Names()
        async with client_of(names, allow_private=False) as client:
            answer = await sent(client, f"http://{host}:{served.port}/")
        assert served.connections == 0
    assert answer.is_refused
    assert names.asked == []


@pytest.mark.parametrize("host", ["2130706433", "0x7f000001", "127.1", "0177.0.0.1", "localhost"])
async def test_the_system_s_own_reading_of_a_host_does_not_get_around_the_check(host: str) -> None:
    names = SystemNames()
    with receiver() as served:
        async with client_of(names, allow_private=False) as client:
            answer = await sent(client, f"http://{host}:{served.port}/")
        assert served.connections == 0
    names.close()
    assert not answer.is_success


async def test_a_proxy_of_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with receiver() as proxy, receiver() as served:
        for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
            monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.port}")
        async with client_of() as client:
            answer = await sent(client, f"http://receiver.example:{served.port}/")
        assert (proxy.connections, served.connections) == (0, 1)
    assert answer.is_success


async def test_a_cookie_is_not_brought_back() -> None:
    with receiver(status(200, set_cookie="a=b")) as served:
        async with client_of() as client:
            for _ in range(2):
                await sent(client, f"http://receiver.example:{served.port}/")
    assert all("cookie" not in request.headers for request in served.requests)


async def test_tls_is_checked_against_the_name_in_the_url_not_the_address(tmp_path: Path) -> None:
    shown, trusted = contexts_for("receiver.example", tmp_path)
    with receiver(certificate=shown) as served:
        async with client_of(certificates=trusted) as client:
            right = await sent(client, f"https://receiver.example:{served.port}/")
            wrong = await sent(client, f"https://other.example:{served.port}/")
        async with client_of() as stranger:
            unknown = await sent(stranger, f"https://receiver.example:{served.port}/")
    assert right == Answer(status=204)
    assert wrong == unknown == Answer(problem="its certificate is not valid for its name")
    assert len(served.requests) == 1


async def test_plain_text_where_tls_is_expected_is_told_as_that() -> None:
    async def greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 hello\r\n")
        writer.close()

    async with await asyncio.start_server(greet, "127.0.0.1", 0) as server, client_of() as client:
        answer = await sent(client, f"https://receiver.example:{server.sockets[0].getsockname()[1]}/")
    assert answer == Answer(problem="TLS cannot be agreed on")
