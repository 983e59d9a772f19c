"""The way to a Docker engine, opened when it is first needed, and its failures in our words."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from workers.errors import CageError

#: Opens a client of the `docker` package. Raises: CageError when no engine answers, or what that package raises.
Connect = Callable[[], Any]

#: Slower answers than that mean an engine that hangs.
ANSWER_SECONDS = 60

_LOCAL_SOCKET = "unix:///var/run/docker.sock"


def connector(host: str | None, environment: Mapping[str, str]) -> Connect:
    """Connect to `host` (unix:///…, tcp://…), else to `DOCKER_HOST` in `environment`, else to the local socket.

    Certificates for TCP are found as Docker's own tools find them, by `DOCKER_TLS_VERIFY` and `DOCKER_CERT_PATH`.
    """
    address = host or environment.get("DOCKER_HOST") or _LOCAL_SOCKET

    def connect() -> Any:
        import docker

        try:
            return docker.from_env(
                environment={**environment, "DOCKER_HOST": address}, timeout=ANSWER_SECONDS
            )
        except failures() as error:
            raise CageError(
                f"no Docker engine answers at {address}; start one, or set CONSENSUS_DOCKER_HOST to yours"
            ) from error

    return connect


def failures() -> tuple[type[Exception], ...]:
    """What the client raises when the engine is away, refuses or breaks off."""
    from docker.errors import DockerException
    from requests.exceptions import RequestException
    from urllib3.exceptions import HTTPError

    # OSError: the attached stream is a bare socket.
    return DockerException, RequestException, HTTPError, OSError


@contextmanager
def as_cage_errors(doing: str) -> Iterator[None]:
    """Raises: CageError, saying what was being done, for any failure of the engine."""
    try:
        yield
    except failures() as error:
        raise CageError(f"the Docker engine failed while {doing}: {sentence_of(error)}") from error


def sentence_of(error: Exception) -> str:
    """The engine's own words without the client's wrapping, at most 300 characters."""
    explanation = getattr(error, "explanation", None)
    return str(explanation or error)[:300]


class Engine:
    """One engine: its client and how many cores it has. Safe to use from several threads."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._lock = threading.Lock()
        self._opened: tuple[Any, int] | None = None

    def open(self) -> tuple[Any, int]:
        """(client, cores), connected once. Raises: one of `failures()` when no engine answers."""
        with self._lock:
            if self._opened is None:
                client = self._connect()
                try:
                    cores = max(1, int(client.info()["NCPU"]))
                except Exception:
                    client.close()
                    raise
                self._opened = client, cores
            return self._opened

    def close(self) -> None:
        """Give the connections back; the next use opens new ones."""
        with self._lock:
            if self._opened is not None:
                self._opened[0].close()
            self._opened = None
