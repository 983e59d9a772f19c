"""Heads of requests that a proxy before the server could read in another way, or that have no end."""

from __future__ import annotations

import socket

import httpx
import pytest

from api.request_head import MAX_HEADERS
from tests.api.problem_documents import problem
from tests.api.streams import LiveServer
from tests.integration.stored_runs import count
from workers.provenance.session import Database

JSON = ("Content-Type", "application/json")
SPEC = b'{"spec": "a"}'


def raw_answer(live: LiveServer, request: bytes) -> bytes:
    """All that the server says until it closes."""
    host, port = live.url.removeprefix("http://").split(":")
    said = b""
    with socket.create_connection((host, int(port)), timeout=20) as opened:
        opened.sendall(request)
        while piece := opened.recv(65_536):
            said += piece
    return said


@pytest.mark.parametrize(
    "lengths",
    [
        b"Content-Length: 6\r\nTransfer-Encoding: chunked\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 6\r\n",
        b"Transfer-Encoding: chunked\r\nContent-Length: 0\r\n",
    ],
)
def test_a_request_is_not_smuggled_in_behind_another(
    live: LiveServer, database: Database, lengths: bytes
) -> None:
    hidden = (
        b"POST /v1/runs HTTP/1.1\r\nHost: api\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n"
        + SPEC
    )
    said = raw_answer(live, b"GET /v1/runs HTTP/1.1\r\nHost: api\r\n" + lengths + b"\r\n0\r\n\r\n" + hidden)
    assert said.startswith(b"HTTP/1.1 400 ")
    assert b"both a Content-Length and a Transfer-Encoding; send one of them" in said
    assert said.count(b"HTTP/1.1 ") == 1
    with database.begin() as connection:
        assert count(connection, "runs") == 0


@pytest.mark.parametrize(
    "lengths",
    [
        b"Transfer-Encoding: xchunked\r\n",
        b"Transfer-Encoding: gzip, chunked\r\n",
        b"Transfer-Encoding : chunked\r\n",
        b"Content-Length: +13\r\n",
        b"Content-Length: 99999999999999999999999\r\n",
        b"X: a\rb\r\nContent-Length: 13\r\n",
    ],
)
def test_a_length_that_is_none_is_refused_by_the_server(
    live: LiveServer, database: Database, lengths: bytes
) -> None:
    said = raw_answer(live, b"POST /v1/runs HTTP/1.1\r\nHost: api\r\n" + lengths + b"\r\n" + SPEC)
    assert said.startswith(b"HTTP/1.1 400 ")
    with database.begin() as connection:
        assert count(connection, "runs") == 0


def test_a_body_that_is_announced_as_too_large_is_not_waited_for(live: LiveServer) -> None:
    for path in (b"/v1/runs", b"/v1/batches", b"/v1/trajectories", b"/v1/scorings"):
        head = (
            b"POST "
            + path
            + b" HTTP/1.1\r\nHost: api\r\nContent-Type: application/jsonl\r\nConnection: close\r\n"
        )
        said = raw_answer(live, head + b"Content-Length: 99999999999\r\n\r\n")
        assert said.startswith(b"HTTP/1.1 413 ")


async def test_ten_thousand_headers_are_too_many(client: httpx.AsyncClient) -> None:
    usual = len(client.build_request("GET", "/v1/runs").headers)
    numbers = (MAX_HEADERS - usual, MAX_HEADERS - usual + 1, 10_000)
    answers = [
        await client.get("/v1/runs", headers=[(f"X-{n}", "a") for n in range(number)]) for number in numbers
    ]
    assert [answer.status_code for answer in answers] == [200, 431, 431]
    assert problem(answers[-1], 431) == f"the request has {10_000 + usual:,} headers; at most 200 are taken"


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("Idempotency-Key", ("a", "b")),
        ("Content-Type", ("application/json", "text/plain")),
        ("Content-Encoding", ("gzip", "gzip")),
        ("Authorization", ("Bearer a", "Bearer b")),
        ("Last-Event-Id", ("1", "2")),
        ("Host", ("a", "b", "a")),
    ],
)
async def test_a_header_that_can_only_be_meant_once_is_sent_once(
    client: httpx.AsyncClient, database: Database, name: str, values: tuple[str, ...]
) -> None:
    headers = [*((name, value) for value in values), *([] if name == "Content-Type" else [JSON])]
    answer = await client.post("/v1/runs", content=SPEC, headers=headers)
    assert problem(answer, 400) == f"the header {name} is there {len(values)} times; send it once"
    assert answer.headers["Connection"] == "close"
    with database.begin() as connection:
        assert count(connection, "runs") == 0


async def test_headers_that_are_lists_may_come_in_several_lines(client: httpx.AsyncClient) -> None:
    headers = [("Accept", "text/html"), ("Accept", "application/json"), ("Cookie", "a=1"), ("Cookie", "b=2")]
    assert (await client.get("/v1/runs", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Range": "bytes=0-1"},
        {"Range": "bytes=99999999999999999999-"},
        {"Range": "bytes=" + "0-1," * 1000},
        {"Range": "lines=a-b"},
        {"If-Range": '"x"', "Range": "bytes=0-1"},
        {"If-None-Match": "*"},
        {"If-Match": '"x"'},
        {"If-Modified-Since": "yesterday"},
        {"If-Unmodified-Since": "99999"},
        {"Accept": "x/y;q=9"},
        {"Accept-Encoding": "gzip;q=9, \t,,"},
        {"Accept-Language": "a" * 9000},
    ],
)
async def test_conditions_and_ranges_of_any_shape_get_the_whole_answer(
    client: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    """What is asked for may be ignored; half of a file taken for all of it may not."""
    for path in ("/v1/runs", "/openapi.json", "/submit"):
        whole, asked = await client.get(path), await client.get(path, headers=headers)
        assert (asked.status_code, len(asked.content)) == (200, len(whole.content))


async def test_a_line_end_in_an_address_makes_no_header(client: httpx.AsyncClient) -> None:
    for address in (
        "/v1/runs/%0d%0aX-Injected:%201",
        "/v1/runs/?team=%0d%0aX-Injected:%201",
        "/teams/%0aX-Injected:1",
    ):
        answer = await client.get(address)
        assert answer.status_code in {307, 404}
        assert "x-injected" not in answer.headers
