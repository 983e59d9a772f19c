"""The reader's side of server-sent events, written from the standard and not from the server."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import threading
from collections.abc import Iterable, Iterator
from typing import Any

import httpx

from api.live import Hub, Reader, Watch

#: Nothing here takes a second; a test that waits this long has failed.
DEADLINE_SECONDS = 15.0


@dataclasses.dataclass(frozen=True, slots=True)
class Frame:
    """One message, or one comment."""

    event: str | None = None
    id: str | None = None
    data: Any = None
    comment: str | None = None


def frames(lines: Iterable[str]) -> Iterator[Frame]:
    """Messages as a browser would dispatch them: fields until a blank line."""
    fields: dict[str, str] = {}
    for line in lines:
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            fields[name] = f"{fields[name]}\n{value}" if name in fields else value
            continue
        if "" in fields:
            yield Frame(comment=fields[""])
        elif fields:
            yield Frame(event=fields.get("event"), id=fields.get("id"), data=json.loads(fields["data"]))
        fields = {}


class CountingHub(Hub):
    """The hub, with a way to wait until a number of streams is watching."""

    def __init__(self, database_url: str) -> None:
        super().__init__(database_url)
        self._open = 0
        self._changed = threading.Condition()

    @contextlib.contextmanager
    def watching(self, run_id: str) -> Iterator[tuple[Watch, Reader]]:
        try:
            with super().watching(run_id) as watched:
                self._count(1)
                yield watched
        finally:
            self._count(-1)

    def _count(self, change: int) -> None:
        with self._changed:
            self._open += change
            self._changed.notify_all()

    def wait_until_watched_by(self, streams: int) -> None:
        with self._changed:
            reached = self._changed.wait_for(lambda: self._open == streams, timeout=DEADLINE_SECONDS)
        assert reached, f"{self._open} streams watch, not {streams}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LiveServer:
    url: str
    hub: CountingHub

    @contextlib.contextmanager
    def follow(
        self, run_id: str = "run_1", **headers: str
    ) -> Iterator[tuple[httpx.Response, Iterator[Frame]]]:
        """Connect to a run's events; (response, its messages as they come). `last_event_id="3"` resumes."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        with (
            httpx.Client(base_url=self.url, timeout=DEADLINE_SECONDS) as client,
            client.stream("GET", f"/v1/runs/{run_id}/events", headers=named) as response,
        ):
            yield response, frames(response.iter_lines())
