"""A real receiver on loopback that answers as a test tells it and keeps what it was sent."""

from __future__ import annotations

import asyncio
import dataclasses
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager

Act = Callable[[asyncio.StreamWriter], Awaitable[None]]


@dataclasses.dataclass(frozen=True)
class Request:
    path: str
    headers: Mapping[str, str]
    body: bytes


def status(code: int, body: bytes = b"", **headers: str) -> Act:
    """Answers at once."""
    fields = {
        "content-length": str(len(body)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    head = (
        f"HTTP/1.1 {code} X\r\n" + "".join(f"{name}: {value}\r\n" for name, value in fields.items()) + "\r\n"
    )

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(head.encode() + body)
        await writer.drain()

    return answer


def raw(text: bytes, *, hangs: bool = False) -> Act:
    """Writes bytes as they are; `hangs` keeps the connection open."""

    async def answer(writer: asyncio.StreamWriter) -> None:
        writer.write(text)
        await writer.drain()
        if hangs:
            await asyncio.Event().wait()

    return answer


async def silence(_: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def flood(writer: asyncio.StreamWriter) -> None:
    """A success with a body that does not end."""
    writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
    while True:
        writer.write(b"x" * 65_536)
        await writer.drain()


class Receiver:
    """Serves on a loop of its own; `acts` are taken in turn, the last one for ever."""

    def __init__(self, *acts: Act, certificate: ssl.SSLContext | None = None) -> None:
        self.acts = list(acts) or [status(204)]
        self.requests: list[Request] = []
        self.connections = 0
        self.most_at_once = 0
        self._open: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=certificate), self._loop
        ).result()
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/hook"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        self.connections += 1
        self.most_at_once = max(self.most_at_once, len(self._open))
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {
                name.lower(): value.strip()
                for name, _, value in (line.partition(":") for line in head[1:] if line)
            }
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            act = self.acts[min(len(self.requests), len(self.acts) - 1)]
            self.requests.append(Request(path=head[0].split(" ")[1], headers=headers, body=body))
            await act(writer)
        except (OSError, EOFError, asyncio.CancelledError):
            # The client went away, or the test is over.
            pass
        finally:
            self._open.discard(task)
            writer.close()

    def stop_serving(self) -> None:
        """Hang up on everybody and take no more."""

        async def close() -> None:
            self._server.close()
            for task in list(self._open):
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)

        asyncio.run_coroutine_threadsafe(close(), self._loop).result()

    def stop(self) -> None:
        self.stop_serving()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        self._loop.close()


@contextmanager
def receiver(*acts: Act, certificate: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    served = Receiver(*acts, certificate=certificate)
    try:
        yield served
    finally:
        served.stop()
