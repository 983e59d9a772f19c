"""Requests that no client of good will sends: each gets a status and a sentence, and the server goes on."""

from __future__ import annotations

import asyncio
import bz2
import gzip
import io
import lzma
import socket
import zipfile
import zlib
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from api import errors
from api.arriving_bodies import SILENCE_SECONDS, ArrivingBodies
from tests.api.problem_documents import problem
from tests.api.streams import LiveServer
from tests.integration.stored_runs import count
from workers.provenance.session import Database

JSON, LINES = {"Content-Type": "application/json"}, {"Content-Type": "application/jsonl"}
SPEC = b'{"spec": "a"}'
#: What unpacks to three times the largest body that is taken.
ZEROS = bytes(48 * 1024 * 1024)


def zipped(body: bytes) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as opened:
        opened.writestr("specs.jsonl", body)
    return archive.getvalue()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "xz": lzma.compress,
    "bzip2": bz2.compress,
    "zip": zipped,
}
ROUTES = [
    ("/v1/runs", JSON),
    ("/v1/scorings", JSON),
    ("/v1/batches", LINES),
    ("/v1/batches", JSON),
    ("/v1/trajectories", LINES),
]


def runs_in(database: Database) -> int:
    with database.begin() as connection:
        return count(connection, "runs")


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize(("path", "kind"), ROUTES)
async def test_a_packed_body_is_refused_as_such_where_it_is_not_unpacked(
    client: httpx.AsyncClient, database: Database, path: str, kind: dict[str, str], packer: str
) -> None:
    if (packer, path) == ("gzip", "/v1/batches"):
        return
    for body in (PACKERS[packer](SPEC), PACKERS[packer](ZEROS), b"no such thing", b""):
        answer = await client.post(path, content=body, headers={**kind, "Content-Encoding": packer})
        assert f"Content-Encoding '{packer}'" in problem(answer, 415)
    assert runs_in(database) == 0


@pytest.mark.parametrize("packer", PACKERS)
@pytest.mark.parametrize(("path", "kind"), ROUTES)
async def test_a_packed_body_that_does_not_say_so_is_no_text(
    client: httpx.AsyncClient, database: Database, path: str, kind: dict[str, str], packer: str
) -> None:
    for body in (PACKERS[packer](SPEC), PACKERS[packer](ZEROS), PACKERS[packer](PACKERS[packer](SPEC))):
        answer = await client.post(path, content=body, headers=kind)
        if path == "/v1/trajectories":
            assert answer.json()["stored"] == 0
        else:
            assert "UTF-8" in problem(answer, 400 if kind is JSON and path != "/v1/batches" else 422)
    assert runs_in(database) == 0


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        (b'{"spec":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 400, "the body's JSON nests too deeply"),
        (b'{"spec": "a", "priority": ' + b"9" * 100_000 + b"}", 400, "a number of too many digits"),
        (b'{"spec": "a", "priority": 1e400}', 422, "priority: Input should be a finite number"),
        (b'{"spec": "a", "metadata": {"x": NaN}}', 422, "metadata: holds NaN or an infinite number"),
        (b'{"spec": "\\ud800"}', 422, "the spec is not text: character 0 is U+D800"),
        (b'{"spec": "a\\u0000"}', 422, "the spec is not text: character 1 is U+0000"),
        (b'{"spec": "a", "metadata": {"\\ud800": 1}}', 422, "metadata: holds NUL or a lone surrogate"),
        (b'{"spec": "a", "metadata": {"x": "\\u0000"}}', 422, "metadata: holds NUL or a lone surrogate"),
        (b'{"spec": "a", "files": {"\\ud800": "x"}}', 422, "files: holds NUL or a lone surrogate"),
        (b'{"spec": "a", "files": {"../../etc/passwd": "x"}}', 422, "has an empty, '.' or '..' part"),
        (b'{"spec": "a", "files": {"/etc/passwd": "x"}}', 422, "/etc/passwd"),
        (b'{"spec": "a", "files": {"C:\\\\a.py": "x"}}', 422, "files"),
        (b'{"spec": "a", "team": "../../teams/x"}', 422, "team"),
        (b'{"spec": "a", "team": "\\ud800"}', 422, "team: "),
        (b'{"spec": "a", "id": "\\ud800"}', 422, "id: "),
        (b'{"spec": "a", "id": "a\\u001b[2J"}', 422, "id: holds control characters"),
        (b'{"spec": "a", "budget_usd": "NaN"}', 422, "budget_usd: Input should be a finite number"),
        (
            b'{"spec": "a", "budget_usd": "1E+999999999999999999"}',
            422,
            "budget_usd: Input should be less than",
        ),
        (
            b'{"spec": "a", "budget_usd": "1e-999999999"}',
            422,
            "budget_usd: Decimal input should have no more than 6",
        ),
        (b'{"spec": "a", "budget_tokens": 1e30}', 422, "budget_tokens: "),
        ('{"spec": "é"}'.encode("latin-1"), 400, "the body is not UTF-8 text (byte 10)"),
        (b"", 422, "there is no JSON object"),
        (b"[]", 422, "there is no JSON object"),
        (b"null", 422, "there is no JSON object"),
        (b'{"spec": "a"', 400, "the body is not JSON"),
    ],
)
async def test_a_hostile_body_is_told_what_is_wrong_and_where(
    client: httpx.AsyncClient, database: Database, body: bytes, status: int, sentence: str
) -> None:
    assert sentence in problem(await client.post("/v1/runs", content=body, headers=JSON), status)
    # As a line of a batch it is refused too; a body of nothing but blanks is an empty batch.
    line = problem(await client.post("/v1/batches", content=body, headers=LINES), 422)
    assert line
    assert runs_in(database) == 0


REFUSED_BY_THE_SERVER = b"400 Bad Request"
RAW = [
    (
        "a header of 200 kB",
        "GET /v1/runs HTTP/1.1\r\n{host}X: " + "a" * 200_000 + "\r\n\r\n",
        REFUSED_BY_THE_SERVER,
    ),
    ("a path of 200 kB", "GET /v1/runs/" + "a" * 200_000 + " HTTP/1.1\r\n{host}\r\n", REFUSED_BY_THE_SERVER),
    (
        "two lengths",
        "POST /v1/runs HTTP/1.1\r\n{host}Content-Length: 13\r\nContent-Length: 5\r\n\r\n{{}}",
        REFUSED_BY_THE_SERVER,
    ),
    (
        "two codings of transfer",
        "POST /v1/runs HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
        REFUSED_BY_THE_SERVER,
    ),
    (
        "a length below zero",
        "POST /v1/runs HTTP/1.1\r\n{host}Content-Length: -5\r\n\r\n",
        REFUSED_BY_THE_SERVER,
    ),
    (
        "a chunk without a length",
        "POST /v1/runs HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\nzz\r\n{{}}\r\n0\r\n\r\n",
        REFUSED_BY_THE_SERVER,
    ),
    (
        "NUL in a header",
        "GET /v1/runs HTTP/1.1\r\n{host}Idempotency-Key: a\0b\r\n\r\n",
        REFUSED_BY_THE_SERVER,
    ),
    (
        "a folded header",
        "GET /v1/runs HTTP/1.1\r\n{host}X: a\r\n b: c\r\nConnection: close\r\n\r\n",
        b"200 OK",
    ),
    ("no host", "GET /v1/runs HTTP/1.1\r\n\r\n", REFUSED_BY_THE_SERVER),
    ("two hosts", "GET /v1/runs HTTP/1.1\r\n{host}Host: elsewhere\r\n\r\n", REFUSED_BY_THE_SERVER),
    ("HTTP of 1991", "GET /v1/runs\r\n\r\n", REFUSED_BY_THE_SERVER),
    ("TLS", "\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\r\n\r\n", REFUSED_BY_THE_SERVER),
    (
        "a proxy's request",
        "CONNECT elsewhere:80 HTTP/1.1\r\n{host}Connection: close\r\n\r\n",
        b"404 Not Found",
    ),
    (
        "another's address",
        "GET http://elsewhere/v1/runs HTTP/1.1\r\n{host}Connection: close\r\n\r\n",
        b"404 Not Found",
    ),
    ("TRACE", "TRACE /v1/runs HTTP/1.1\r\n{host}Connection: close\r\n\r\n", b"405 Method Not Allowed"),
    (
        "a method in small letters",
        "get /v1/runs HTTP/1.1\r\n{host}Connection: close\r\n\r\n",
        b"405 Method Not Allowed",
    ),
    (
        "ranges out of this world",
        "GET /v1/runs HTTP/1.1\r\n{host}Range: bytes=0-1,5-99999999999999999999\r\nConnection: close\r\n\r\n",
        b"200 OK",
    ),
    (
        "an upgrade",
        "GET /v1/runs HTTP/1.1\r\n{host}Connection: Upgrade, close\r\nUpgrade: websocket\r\n\r\n",
        b"200 OK",
    ),
]


def answer_to(live: LiveServer, request: str) -> bytes:
    """Its first line, read until the server closes."""
    host = live.url.removeprefix("http://")
    name, port = host.split(":")
    with socket.create_connection((name, int(port)), timeout=20) as opened:
        opened.sendall(request.format(host=f"Host: {host}\r\n").encode("latin-1"))
        return opened.recv(65_536).partition(b"\r\n")[0]


@pytest.mark.parametrize(
    ("request_text", "status"), [case[1:] for case in RAW], ids=[case[0] for case in RAW]
)
def test_what_is_hardly_http_gets_a_status_and_the_server_goes_on(
    live: LiveServer, request_text: str, status: bytes
) -> None:
    assert answer_to(live, request_text) == b"HTTP/1.1 " + status
    assert httpx.get(f"{live.url}/healthz").status_code == 200


@pytest.mark.parametrize(
    ("headers", "status", "sentence"),
    [
        ({"Idempotency-Key": ""}, 422, "Idempotency-Key must have 1 to 200 printable characters"),
        ({"Idempotency-Key": "a" * 201}, 422, "Idempotency-Key must have 1 to 200 printable characters"),
        ({"Idempotency-Key": "a\tb"}, 422, "Idempotency-Key must have 1 to 200 printable characters"),
        ({"Content-Type": "text/plain"}, 422, "there is no JSON object"),
        ({"Content-Type": "multipart/form-data"}, 422, "there is no JSON object"),
        ({"Content-Type": "application/json\x01"}, 422, "there is no JSON object"),
        ({"Content-Encoding": "gzip, gzip"}, 415, "Content-Encoding 'gzip, gzip' is not known here"),
    ],
)
async def test_a_hostile_header_is_told_what_is_wrong(
    client: httpx.AsyncClient, database: Database, headers: dict[str, str], status: int, sentence: str
) -> None:
    answer = await client.post("/v1/runs", content=SPEC, headers={**JSON, **headers})
    assert sentence in problem(answer, status)
    assert runs_in(database) == 0


@pytest.mark.parametrize(
    ("boundary", "sentence"),
    [
        ("", "Missing boundary in multipart."),
        ("; boundary=", "Invalid multipart data."),
        ("; boundary=a", "Invalid multipart data."),
    ],
)
async def test_an_upload_in_parts_that_are_none_is_refused(
    client: httpx.AsyncClient, boundary: str, sentence: str
) -> None:
    answer = await client.post(
        "/v1/trajectories", content=SPEC, headers={"Content-Type": f"multipart/form-data{boundary}"}
    )
    assert problem(answer, 400) == sentence


async def test_a_body_that_stops_coming_is_given_up_with_a_sentence() -> None:
    app = FastAPI()
    errors.install(app)
    app.add_middleware(ArrivingBodies, silence_seconds=0.05)

    @app.post("/")
    def take(body: dict[str, Any]) -> dict[str, Any]:
        return body

    sent: list[Any] = []
    begun = iter([{"type": "http.request", "body": b'{"a": ', "more_body": True}])

    async def receive() -> Any:
        return next(begun, None) or await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": headers}
    await asyncio.wait_for(app(scope, receive, send), timeout=20)
    assert sent[0]["status"] == 408
    assert b"nothing of the body came for 0.05 s; send it again, all of it" in sent[1]["body"]


async def test_that_is_so_in_the_application_and_leaves_time_for_a_slow_line(app: FastAPI) -> None:
    assert ArrivingBodies in [middleware.cls for middleware in app.user_middleware]
    assert SILENCE_SECONDS == 30
