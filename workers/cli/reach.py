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
from workers.settings import Settings, load


@contextmanager
def connected(*, may_start: bool) -> Iterator[Client]:
    """A client of CONSENSUS_URL, else of the `up` that serves from this data directory, else (if `may_start`) of a
    stack of our own that stops when the block ends.

    Raises: UnavailableError.
    """
    settings = load()
    url = settings.url or running_url(settings.home)
    if url is not None:
        with Client(url) as client:
            yield client
        return
    if not may_start:
        raise UnavailableError(
            "no Consensus is serving here; start one with `consensus up`, or set CONSENSUS_URL to its address"
        )
    with _temporary_stack(settings) as started, Client(started) as client:
        yield client


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
    try:
        state: Mapping[str, object] = json.loads((home / "serving.json").read_text(encoding="utf-8"))
        url = str(state["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    try:
        with Client(url) as client:
            client.readiness()
    except ConsensusError:
        return None
    return url
