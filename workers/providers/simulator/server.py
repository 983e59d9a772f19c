"""The simulator as a server process."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable

import uvicorn

from workers.errors import InputError
from workers.providers.simulator.app import Latency, create_app

#: Connections that may wait to be accepted: a burst of runs opens hundreds at once.
BACKLOG = 2048
#: How long replies that are still being written may take once the server is told to stop.
SHUTDOWN_SECONDS = 2


def serve(
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    seed: int = 0,
    latency: Latency | float | None = None,
    on_listening: Callable[[str], None] | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM. Port 0 takes a free one; `on_listening` is told the base URL, `…/v1`,
    once connections are accepted. Raises: InputError (the address cannot be had, a negative latency)."""
    app = create_app(seed=seed, latency=latency)
    with _listening_socket(host, port) as listening:
        bound_port = listening.getsockname()[1]
        if on_listening is not None:
            shown = f"[{host}]" if ":" in host else host
            on_listening(f"http://{shown}:{bound_port}/v1")
        config = uvicorn.Config(
            app,
            log_level="warning",
            access_log=False,
            lifespan="off",
            backlog=BACKLOG,
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
        )
        # uvicorn raises the signal that ended it again; Ctrl-C is how this server is meant to end.
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listening])


def _listening_socket(host: str, port: int) -> socket.socket:
    if not 0 <= port <= 65_535:
        raise InputError(f"port {port} does not exist; a port is 0 (any free one) to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except OSError as error:
        raise InputError(
            f"the simulator cannot listen on {host} port {port}: {error}; choose another host or port"
        ) from None
