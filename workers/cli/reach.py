"""Finds the API that a command should talk to, or starts everything for as long as the command takes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from workers.cli.client import Client
from workers.cli.stack import Stack, running_url
from workers.errors import UnavailableError
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
    with _temporary_stack(settings) as stack, Client(stack.url) as client:
        yield client


@contextmanager
def _temporary_stack(settings: Settings) -> Iterator[Stack]:
    console = Console(stderr=True, highlight=False)
    stack = Stack(settings, say=lambda line: console.print(f"[dim]{line}[/]"))
    try:
        stack.start()
        yield stack
    finally:
        stack.stop()
