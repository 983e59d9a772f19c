"""Server-sent events from bytes, incrementally (WHATWG HTML §9.2.6). Pure: feed bytes, get events.

Comments give no event. Whether they prove that the peer is alive is a question about bytes, which
`http.py` answers; whether `[DONE]` is needed is a question about a wire format, which the formats answer."""

from __future__ import annotations

import dataclasses
import re

from workers.providers.base import MalformedResponseError

#: One chunk of a chat stream is a few hundred bytes; a whole reply in one line stays far below this.
MAX_EVENT_BYTES = 4 * 1024 * 1024

_LINE_END = re.compile(rb"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SseEvent:
    """`name` is the `event:` field ("" when absent), `data` the `data:` lines joined by newlines."""

    name: str
    data: str


class SseParser:
    """Feed it the body in any cuts; the events are the same for every way of cutting.

    Lines are cut on bytes and decoded whole, so a character split across chunks is never seen in halves.
    """

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max_event_bytes = max_event_bytes
        self._line = bytearray()
        self._is_after_cr = False
        self._is_first_line = True
        self._name = ""
        self._data: list[str] = []
        self._data_bytes = 0

    def feed(self, chunk: bytes) -> list[SseEvent]:
        """The events that `chunk` completes. Raises MalformedResponseError if one is larger than allowed."""
        if self._is_after_cr and chunk:
            # The CR that closed the last line may have been the first half of a CRLF.
            chunk = chunk.removeprefix(b"\n")
            self._is_after_cr = False
            if not chunk:
                return []
        events: list[SseEvent] = []
        position = 0
        for end in _LINE_END.finditer(chunk):
            self._extend_line(chunk[position : end.start()])
            position = end.end()
            self._close_line(events)
        self._extend_line(chunk[position:])
        self._is_after_cr = chunk.endswith(b"\r")
        return events

    def finish(self) -> list[SseEvent]:
        """The event left over at the end of the body, if its lines were complete.

        The standard drops it; some gateways forget the last blank line. A line without an end is dropped: it
        may be half of one, and half a JSON document says less than an honest "cut".
        """
        events: list[SseEvent] = []
        self._dispatch(events)
        return events

    def _extend_line(self, piece: bytes) -> None:
        if len(self._line) + self._data_bytes + len(piece) > self._max_event_bytes:
            raise MalformedResponseError(
                f"an event of the stream is larger than {self._max_event_bytes} bytes"
            )
        self._line += piece

    def _close_line(self, events: list[SseEvent]) -> None:
        raw = bytes(self._line)
        self._line.clear()
        if self._is_first_line:
            raw = raw.removeprefix(_BOM)
            self._is_first_line = False
        if not raw:
            self._dispatch(events)
            return
        field, _, value = raw.decode("utf-8", errors="replace").partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
            self._data_bytes += len(raw)
        elif field == "event":
            self._name = value

    def _dispatch(self, events: list[SseEvent]) -> None:
        if self._data:
            events.append(SseEvent(name=self._name, data="\n".join(self._data)))
        self._name = ""
        self._data = []
        self._data_bytes = 0
