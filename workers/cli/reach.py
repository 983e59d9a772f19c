"""Finds the API that a command should talk to, or starts everything for as long as the command takes.

What only starting needs is imported there, so that a command against a serving API begins at once."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

from workers.cli.client import Client
from workers.errors import ConsensusError, UnavailableError
from workers.settings import Settings, environment, load

#: Where `consensus api` and `consensus up` serve unless told otherwise.
DEFAULT_URL = "http://127.0.0.1:8000"


@contextmanager
def connected(*, may_start: bool) -> Iterator[Client]:
    """A client of CONSENSUS_URL, else of the `up` that serves from this data directory, else (if `may_start`) of a
    stack of our own that stops when the block ends.

    Raises: UnavailableError.
    """
    settings = load()
    url = serving_url(settings)
    if url is not None:
        _warn_of_other_models(settings.home, url)
        with Client(url, api_key=settings.api_key) as client:
            yield client
        return
    if not may_start:
        raise UnavailableError(
            "no Consensus is serving here; start one with `consensus up`, or set CONSENSUS_URL to its address"
        )
    with _temporary_stack(settings) as started, Client(started) as client:
        yield client


def serving_url(settings: Settings) -> str | None:
    """The address of the API that commands talk to; None where nothing serves."""
    return settings.url or running_url(settings.home) or _own_api(settings)


def _own_api(settings: Settings) -> str | None:
    """Whoever runs servers of their own most likely has the API at its usual place."""
    if not (settings.database_url and settings.redis_url):
        return None
    return DEFAULT_URL if is_ready(DEFAULT_URL) else None


def _warn_of_other_models(home: Path, url: str) -> None:
    """A key in this shell does nothing for a server that was started without it."""
    state = _serving(home)
    if state.get("url") != url or not state.get("simulated"):
        return
    from workers.providers.registry import enabled

    if any(name != "simulator" for name in enabled(environment())):
        Console(stderr=True, highlight=False, soft_wrap=True).print(
            f"[yellow]note:[/] the server at {url} was started without a model key, so its answers are simulated; "
            "stop it and start it again in a shell that has the key"
        )


@contextmanager
def _temporary_stack(settings: Settings) -> Iterator[str]:
    """The address of a stack of our own that stops when the block ends."""
    from workers.cli.stack import Stack

    console = Console(stderr=True, highlight=False)
    stack = Stack(settings, say=lambda line: console.print(f"[dim]{line}[/]"))
    try:
        stack.start()
        yield stack.url
    finally:
        stack.stop()


def running_url(home: Path) -> str | None:
    """The address of an `up` that serves from this data directory, if it answers."""
    url = str(_serving(home).get("url") or "")
    return url if url and is_ready(url) else None


def _serving(home: Path) -> Mapping[str, object]:
    """What an `up` wrote about itself; empty when there is none."""
    try:
        state = json.loads((home / "serving.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return state if isinstance(state, dict) else {}


def is_ready(url: str) -> bool:
    """Whether an API answers there and can reach what it needs."""
    try:
        with Client(url) as client:
            client.readiness()
    except ConsensusError:
        return False
    return True
