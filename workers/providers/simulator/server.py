"""The simulator as a server process."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Sequence

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from workers.errors import InputError
from workers.providers.simulator.performance import Sleep

#: Connections that may wait to be accepted: a burst of runs opens hundreds at once.
BACKLOG = 2048
#: How long replies that are still being written may take once the server is told to stop.
SHUTDOWN_SECONDS = 2
_POLL_SECONDS = 0.05

#: From when until when connections are refused, in seconds after the start; None: for ever.
Window = tuple[float, float | None]


def serve(
    app: ASGIApp,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    refused_windows: Sequence[Window] = (),
    on_listening: Callable[[str], None] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM. Port 0 takes a free one; `on_listening` is told the base
    URL, `…/v1`, once connections are accepted. Raises: InputError (the address cannot be had)."""
    with listening_socket(host, port) as listening:
        if on_listening is not None:
            shown = f"[{host}]" if ":" in host else host
            on_listening(f"http://{shown}:{listening.getsockname()[1]}/v1")
        # uvicorn raises the signal that ended it again; Ctrl-C is how this server is meant to end.
        with contextlib.suppress(KeyboardInterrupt):
            SimulatorServer(app, refused_windows=refused_windows).run(sockets=[listening])


def listening_socket(host: str, port: int) -> socket.socket:
    """Raises: InputError."""
    if not 0 <= port <= 65_535:
        raise InputError(f"port {port} does not exist; a port is 0 (any free one) to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise InputError(
            f"the simulator cannot listen on {host} port {port}: {error}; choose another host or port"
        ) from None


class _Connection(H11Protocol):
    """Tells the application its transport, so that a fault can break the connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.app_state = {**self.app_state, "transport": transport}
        # asyncio does so only for sockets that name their protocol, which a listening one of Python's does
        # not; without it each piece of a stream on a used connection waits 40 ms for an acknowledgement.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        super().connection_made(transport)


class SimulatorServer(uvicorn.Server):
    """Uvicorn that stops listening in `refused_windows`, and ends exchanges that outlast its shutdown."""

    def __init__(
        self, app: ASGIApp, *, refused_windows: Sequence[Window] = (), sleep: Sleep = asyncio.sleep
    ) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=_Connection,
                log_level="warning",
                access_log=False,
                lifespan="off",
                backlog=BACKLOG,
                timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            )
        )
        self._refused_windows = refused_windows
        self._sleep = sleep
        self._doorman: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self._refused_windows and sockets:
            self._doorman = asyncio.create_task(self._close_in_windows(sockets[0].getsockname()[:2]))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._doorman is not None:
            self._doorman.cancel()
        # A reply that is silent for a minute on purpose must not be waited for, nor logged as an error.
        for connection in list(self.server_state.connections):
            connection.shutdown()
        waited_seconds = 0.0
        while self.server_state.tasks and waited_seconds < SHUTDOWN_SECONDS and not self.force_exit:
            await asyncio.sleep(_POLL_SECONDS)
            waited_seconds += _POLL_SECONDS
        self._break_connections()
        await super().shutdown(sockets)

    async def _close_in_windows(self, address: tuple[str, int]) -> None:
        passed_seconds = 0.0
        for from_seconds, until_seconds in self._refused_windows:
            await self._sleep(max(0.0, from_seconds - passed_seconds))
            for server in self.servers:
                server.close()
            self._break_connections()
            if until_seconds is None:
                return
            passed_seconds = max(passed_seconds, from_seconds)
            await self._sleep(max(0.0, until_seconds - passed_seconds))
            passed_seconds = max(passed_seconds, until_seconds)
            listening = listening_socket(*address)
            self.servers = [await self._listen(listening)]

    async def _listen(self, listening: socket.socket) -> asyncio.Server:
        def connection() -> _Connection:
            return _Connection(config=self.config, server_state=self.server_state, app_state={})

        return await asyncio.get_running_loop().create_server(connection, sock=listening, backlog=BACKLOG)

    def _break_connections(self) -> None:
        for connection in list(self.server_state.connections):
            transport = connection.transport
            if transport is not None:
                transport.abort()
