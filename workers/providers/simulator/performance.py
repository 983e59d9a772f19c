"""Sends a planned answer over ASGI: the one place that waits, and that breaks connections."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Protocol

from starlette.types import Message, Receive, Scope, Send

from workers.providers.simulator.plan import Ending, Plan

Sleep = Callable[[float], Awaitable[None]]

#: SO_LINGER on with zero seconds: closing then resets the connection instead of ending it.
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Transport(Protocol):
    """What breaking a connection needs of the server's transport, which it puts into the scope's state."""

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def get_extra_info(self, name: str) -> socket.socket: ...


class Performance:
    """An ASGI response. `on_end` is called once, however the exchange ends, also when the caller leaves."""

    def __init__(
        self, plan: Plan, *, request_id: tuple[str, str], sleep: Sleep, on_end: Callable[[], None]
    ) -> None:
        self._plan = plan
        self._request_id = request_id
        self._sleep = sleep
        self._on_end = on_end
        self._is_played = False
        self._is_left = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        listener: asyncio.Task[None] | None = None
        task = asyncio.current_task()
        try:
            if self._plan.waits and task is not None:
                # Nobody waits for a caller who has gone: its place in the limits is free at once.
                listener = asyncio.create_task(self._end_when_left(receive, task))
            await self._play(send)
        except asyncio.CancelledError:
            if not self._is_left or task is None:
                raise
            task.uncancel()
            return
        finally:
            self._is_played = True
            if listener is not None:
                listener.cancel()
            self._on_end()
        if self._plan.ending is not Ending.WHOLE:
            await _break(self._plan.ending, scope, receive)

    async def _end_when_left(self, receive: Receive, task: asyncio.Task[None]) -> None:
        await _gone(receive)
        if not self._is_played:
            self._is_left = True
            task.cancel()

    async def _play(self, send: Send) -> None:
        plan = self._plan
        await self._wait(plan.head_wait_seconds)
        if plan.status == 0:
            return
        await send(_head(plan, self._request_id))
        is_broken = plan.ending is not Ending.WHOLE
        last = len(plan.steps) - 1
        for number, step in enumerate(plan.steps):
            await self._wait(step.wait_seconds)
            is_last = number == last and not is_broken
            self._is_played = is_last
            if step.data or is_last:
                await send({"type": "http.response.body", "body": step.data, "more_body": not is_last})

    async def _wait(self, seconds: float) -> None:
        if seconds > 0:
            await self._sleep(seconds)


def _head(plan: Plan, request_id: tuple[str, str]) -> Message:
    headers = [(b"content-type", plan.media_type.encode("latin-1"))]
    if plan.body_bytes is not None:
        headers.append((b"content-length", str(plan.body_bytes).encode("latin-1")))
    for name, value in (request_id, *plan.headers.items()):
        headers.append((name.encode("latin-1"), value.encode("latin-1")))
    return {"type": "http.response.start", "status": plan.status, "headers": headers}


async def _break(ending: Ending, scope: Scope, receive: Receive) -> None:
    transport: Transport | None = scope.get("state", {}).get("transport")
    if transport is None:
        raise ConnectionAbortedError("the simulator breaks this connection, and only its own server can")
    if ending is Ending.RESET:
        connection = transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        transport.abort()
    else:
        transport.close()
    # The server counts the exchange as broken off only once it has seen the connection close.
    await _gone(receive)


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
