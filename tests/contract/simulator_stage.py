"""A real simulator server whose application, and with it faults and limits, each test chooses; no wait is real."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Iterator
from typing import Any

import httpx
from starlette.types import Receive, Scope, Send

from tests.contract.simulator_client import Client
from workers.providers.simulator.app import Clocks, create_app
from workers.providers.simulator.faults.script import read_script
from workers.providers.simulator.server import SimulatorServer, listening_socket

#: Monday, 30 June 2025, 12:00:00 UTC, in every answer of the stage.
NOW_EPOCH_SECONDS = 1_751_284_800.0


class Stage:
    """`slept`: the waits that the server asked for, in seconds; `http`: a client of it."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.origin = f"http://127.0.0.1:{port}"
        self.http = httpx.Client(base_url=self.origin, timeout=20)
        self.slept: list[float] = []
        self._app = create_app(latency=0)

    def play(self, rules: str = "", **options: Any) -> None:
        """Serve a new simulator with these rules, a YAML list in flow or block form."""
        self.slept.clear()
        faults = read_script(f"rules:\n{rules}\n", place="the test") if rules else ()
        clocks = Clocks(sleep=self._sleep, epoch=lambda: NOW_EPOCH_SECONDS)
        self._app = create_app(**({"latency": 0, "faults": faults, "clocks": clocks} | options))

    async def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._app(scope, receive, send)


@contextlib.contextmanager
def raised_stage() -> Iterator[Stage]:
    with listening_socket("127.0.0.1", 0) as listening:
        stage = Stage(listening.getsockname()[1])
        server = SimulatorServer(stage)
        thread = threading.Thread(target=lambda: server.run(sockets=[listening]), daemon=True)
        thread.start()
        try:
            yield stage
        finally:
            stage.http.close()
            server.should_exit = True
            thread.join(timeout=20)
    assert not thread.is_alive()


def raw_answer(stage: Stage, client: Client, *, stream: bool, **fields: Any) -> tuple[bytes, bytes, bool]:
    """Head and body exactly as they came over a bare socket, and whether the connection was reset."""
    body = json.dumps(client.body(stream=stream, **fields)).encode()
    head = (
        f"POST {client.path} HTTP/1.1\r\nhost: simulator\r\nconnection: close\r\n"
        f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    received = b""
    with socket.create_connection(("127.0.0.1", stage.port), timeout=20) as connection:
        connection.sendall(head.encode() + body)
        try:
            while piece := connection.recv(65536):
                received += piece
        except ConnectionResetError:
            return *_split(received), True
    return *_split(received), False


def _split(received: bytes) -> tuple[bytes, bytes]:
    head, _, body = received.partition(b"\r\n\r\n")
    return head, body


def chunks(body: bytes) -> tuple[list[bytes], bool]:
    """The chunks of a chunked body, and whether the chunk that ends it came."""
    found = []
    while body:
        size, _, rest = body.partition(b"\r\n")
        length = int(size, 16)
        if length == 0:
            return found, True
        found.append(rest[:length])
        body = rest[length + 2 :]
    return found, False
