"""Too much, broken off, in each other's way: what a batch may not do to the server."""

from __future__ import annotations

import asyncio
import dataclasses
import gzip
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import httpx
import pytest
import structlog
from fastapi import FastAPI
from sqlalchemy import Connection

from tests.api.conftest import served
from tests.api.problem_documents import problem
from tests.api.streams import DEADLINE_SECONDS, LiveServer
from tests.api.test_batches_create import TABLES, lines, post, specs, stored
from tests.integration.stored_runs import count
from workers.errors import DeadlockError
from workers.provenance.session import Database

MIB = 1024 * 1024


def limited(app: FastAPI, **limits: int) -> None:
    app.state.services = dataclasses.replace(app.state.services, **limits)


async def test_as_many_lines_as_allowed_are_taken_and_one_more_is_refused(
    client: httpx.AsyncClient, app: FastAPI, database: Database
) -> None:
    limited(app, max_batch_runs=5)
    detail = problem(await post(client, lines(*specs(6)), skip_bad="true"), 422)
    assert detail == "the batch has more than 5 lines; send them in several batches"
    assert set(stored(database).values()) == {0}
    assert (await post(client, b"\n\n" + lines(*specs(5)))).json()["runs"] == 5


async def test_a_body_of_blank_lines_is_not_read_to_its_end(client: httpx.AsyncClient, app: FastAPI) -> None:
    limited(app, max_batch_runs=5)
    detail = problem(await post(client, lines(*specs(2)) + b"\n" * 6), 422)
    assert detail == "the batch has more than 5 blank lines; leave them out"


async def test_a_body_may_be_as_large_as_allowed_and_no_larger(
    client: httpx.AsyncClient, app: FastAPI, database: Database
) -> None:
    body = lines(*specs(50))
    limited(app, max_batch_bytes=len(body) - 1)
    detail = problem(await post(client, body), 413)
    assert f"the body has more than {len(body) - 1:,} bytes" in detail
    assert set(stored(database).values()) == {0}
    limited(app, max_batch_bytes=len(body))
    assert (await post(client, body)).status_code == 202


async def test_a_body_that_hides_its_length_is_refused_while_it_comes(
    client: httpx.AsyncClient, app: FastAPI, database: Database
) -> None:
    limited(app, max_batch_bytes=3 * MIB)
    sent = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal sent
        while True:
            sent += MIB
            yield b" " * MIB

    answer = await client.post(
        "/v1/batches", content=endless(), headers={"Content-Type": "application/jsonl"}
    )

    assert "the body has more than 3,145,728 bytes" in problem(answer, 413)
    assert sent < 8 * MIB
    assert stored(database)["batches"] == 0


async def test_a_small_body_that_unpacks_to_a_large_one_is_refused(
    client: httpx.AsyncClient, app: FastAPI, database: Database
) -> None:
    bomb = gzip.compress(b" " * (64 * MIB))
    assert len(bomb) < MIB / 8
    limited(app, max_batch_bytes=MIB)
    answer = await post(client, bomb, headers={"Content-Encoding": "gzip"})
    assert "the body has more than 1,048,576 bytes" in problem(answer, 413)
    assert stored(database)["batches"] == 0


async def test_a_json_object_has_the_limit_of_a_single_request(client: httpx.AsyncClient) -> None:
    body = b'{"specs": [' + b" " * 16 * MIB + b"]}"
    answer = await post(client, body, headers={"Content-Type": "application/json"})
    assert "the body has more than 16,777,216 bytes" in problem(answer, 413)


@contextmanager
def sending(server: LiveServer, head: str) -> Iterator[socket.socket]:
    host, port = server.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=DEADLINE_SECONDS) as opened:
        opened.sendall(head.replace("\n", "\r\n").encode())
        yield opened


async def test_over_a_socket_too_a_large_body_gets_its_answer(app: FastAPI, database: Database) -> None:
    limited(app, max_batch_bytes=MIB)

    def body() -> Iterator[bytes]:
        for _ in range(32):
            yield b" " * MIB

    def send(url: str) -> list[httpx.Response]:
        headers = {"Content-Type": "application/jsonl"}
        announced = {**headers, "Content-Length": str(32 * MIB)}
        return [httpx.post(url, content=body(), headers=given) for given in (headers, announced)]

    with served(app) as url:
        answers = await asyncio.to_thread(send, f"{url}/v1/batches")

    for answer in answers:
        assert "the body has more than 1,048,576 bytes" in problem(answer, 413)


def test_a_client_that_hangs_up_in_the_middle_leaves_nothing(live: LiveServer, database: Database) -> None:
    body = lines(*specs(1000))
    announced = (
        "POST /v1/batches HTTP/1.1\nHost: api\nContent-Type: application/jsonl\nContent-Length: {}\n\n"
    )
    with structlog.testing.capture_logs() as logged:
        for cut in (0, 1, len(body) // 2, len(body) - 1):
            with sending(live, announced.format(len(body))) as opened:
                opened.sendall(body[:cut])
        with sending(
            live,
            "POST /v1/batches HTTP/1.1\nHost: api\nContent-Type: application/jsonl\nTransfer-Encoding: chunked\n\n",
        ) as opened:
            opened.sendall(b"%x\r\n%s\r\n" % (len(body), body))
        # The server is as it was, and takes the next one.
        answer = httpx.post(
            f"{live.url}/v1/batches", content=lines(*specs(2)), headers={"Content-Type": "application/jsonl"}
        )
    assert answer.status_code == 202
    assert logged == []
    with database.begin() as connection:
        assert [count(connection, table) for table in TABLES] == [1, 2, 2, 5]


class UnluckyDatabase:
    """The database, which breaks off the first transactions that write a batch, as it does on a deadlock."""

    def __init__(self, real: Database, failures: int) -> None:
        self._real = real
        self._failures = failures

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        with self._real.begin() as connection:
            yield connection
            if count(connection, "runs") and self._failures:
                self._failures -= 1
                raise DeadlockError("two transactions waited for each other; try again")


@pytest.mark.parametrize(("failures", "status"), [(1, 202), (4, 202), (5, 503)])
async def test_a_batch_that_the_database_broke_off_for_another_is_written_again(
    client: httpx.AsyncClient, app: FastAPI, database: Database, failures: int, status: int
) -> None:
    app.state.services = dataclasses.replace(
        app.state.services,
        database=UnluckyDatabase(database, failures),  # type: ignore[arg-type] # the part of it that is used
    )
    answer = await post(client, lines(*specs(7)))
    assert answer.status_code == status
    assert stored(database)["runs"] == (7 if status == 202 else 0)


async def test_other_requests_are_answered_while_a_batch_is_checked(client: httpx.AsyncClient) -> None:
    answered = 0

    async def look() -> None:
        nonlocal answered
        while True:
            assert (await client.get("/v1/batches")).status_code == 200
            answered += 1

    looking = asyncio.create_task(look())
    answer = await post(client, lines(*specs(1500)))
    looking.cancel()
    assert answer.status_code == 202
    assert answered >= 3
