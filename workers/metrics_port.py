"""A worker's metrics over HTTP, on a port of its own."""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, disable_created_metrics, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer

from workers.errors import UnavailableError


class _Quiet(WSGIRequestHandler):
    """Says nothing of every scrape, and waits for no one for long."""

    timeout = 5

    def log_message(self, format: str, *args: Any) -> None:
        pass


class MetricsPort:
    """Serves one registry until it is closed. The token, if there is one, has to come as `Authorization: Bearer`."""

    def __init__(
        self, registry: CollectorRegistry, *, host: str, port: int, token: str | None = None
    ) -> None:
        """Raises: UnavailableError for an address that cannot be had."""
        disable_created_metrics()  # type: ignore[no-untyped-call]
        exposition: Callable[[dict[str, Any], Any], Iterable[bytes]] = make_wsgi_app(registry)

        def guarded(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            offered = str(environ.get("HTTP_AUTHORIZATION", "")).removeprefix("Bearer ").strip()
            if token is not None and not secrets.compare_digest(offered.encode(), token.encode()):
                start_response("401 Unauthorized", [("WWW-Authenticate", "Bearer")])
                return [b"metrics need the token of CONSENSUS_METRICS_TOKEN\n"]
            if environ.get("PATH_INFO") != "/metrics":
                start_response("404 Not Found", [])
                return [b"metrics are at /metrics\n"]
            return exposition(environ, start_response)

        try:
            self._server = make_server(host, port, guarded, ThreadingWSGIServer, _Quiet)
        except OSError as error:
            raise UnavailableError(
                f"metrics cannot be served at {host}:{port}: {error.strerror or error}; "
                "choose others with CONSENSUS_METRICS_HOST and CONSENSUS_METRICS_PORT, or 0 to serve none"
            ) from None
        # Processes of a pool must not keep the port when this one is gone.
        os.register_at_fork(after_in_child=self._server.socket.close)
        self.port = int(self._server.server_port)
        self._thread = threading.Thread(target=self._serve, name="metrics", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            self._server.serve_forever()

    def close(self) -> None:
        """Safe to repeat."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(timeout=5)
