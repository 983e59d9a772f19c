"""A real HTTP server on 127.0.0.1 that does to a client what providers do: refuse, cut, hang, mumble.

It runs on a loop of its own in a thread, so one server serves every test of a session. Each test gets a
script under a path of its own and may count what arrived there."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import socket
import struct
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

Act = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclasses.dataclass(frozen=True)
class Seen:
    path: str
    headers: Mapping[str, str]
    body: Any
    connection: int = 0


@dataclasses.dataclass
class Script:
    """What a test's address answers, request after request; the last act is repeated for ever."""

    base_url: str
    acts: Sequence[Act]
    is_cycle: bool
    seen: list[Seen] = dataclasses.field(default_factory=list)

    def act(self) -> Act:
        index = len(self.seen) - 1
        return (
            self.acts[index % len(self.acts)] if self.is_cycle else self.acts[min(index, len(self.acts) - 1)]
        )


class FaultServer:
    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._scripts: dict[str, Script] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._serve, "127.0.0.1", 0))
        self._port = self._server.sockets[0].getsockname()[1]

    def script(self, *acts: Act, cycle: bool = False) -> Script:
        name = str(len(self._scripts))
        self._scripts[name] = Script(f"http://127.0.0.1:{self._port}/{name}/v1", acts, cycle)
        return self._scripts[name]

    def stop(self) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(5)

    async def _close(self) -> None:
        self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while not writer.is_closing():
                seen = dataclasses.replace(await _read_request(reader), connection=id(task))
                script = self._scripts[seen.path.split("/")[1]]
                script.seen.append(seen)
                await script.act()(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._connections.discard(task)
            writer.close()


async def _read_request(reader: asyncio.StreamReader) -> Seen:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    request_line, *lines = head.strip().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    raw = await reader.readexactly(int(headers.get("content-length", "0")))
    return Seen(path=request_line.split(" ")[1], headers=headers, body=json.loads(raw) if raw else None)


def reply(
    status: int,
    body: bytes,
    *,
    content_type: str = "application/json",
    headers: Mapping[str, str] | None = None,
) -> Act:
    """A whole answer with a length."""

    async def act(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(
            _head(status, {"content-type": content_type, "content-length": str(len(body)), **(headers or {})})
        )
        writer.write(body)
        await writer.drain()

    return act


def stream(
    *pieces: bytes,
    ending: Literal["end", "late end", "reset", "hang"] = "end",
    headers: Mapping[str, str] | None = None,
) -> Act:
    """A chunked 200. Each piece is a write of its own; then the proper end (at once, or in a packet of its
    own), a torn connection, or silence."""

    async def act(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(
            _head(
                200,
                {"content-type": "text/event-stream", "transfer-encoding": "chunked", **(headers or {})},
            )
        )
        for piece in pieces:
            writer.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            await writer.drain()
            await asyncio.sleep(0)
        if ending == "late end":
            await asyncio.sleep(0.01)
        if ending in ("end", "late end"):
            writer.write(b"0\r\n\r\n")
            await writer.drain()
        elif ending == "hang":
            await reader.read()
        else:
            # An orderly close, so that what was written arrives; the missing last chunk is the tear.
            writer.close()

    return act


def cut_body(body: bytes) -> Act:
    """Promises ten bytes more than it sends, and closes."""

    async def act(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(_head(200, {"content-type": "application/json", "content-length": str(len(body) + 10)}))
        writer.write(body)
        await writer.drain()
        writer.close()

    return act


async def reset(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A TCP reset in place of an answer."""
    sock = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Nothing, until the client goes away."""
    await reader.read()
    writer.close()


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status} Status\r\n{lines}\r\n".encode("latin-1")
