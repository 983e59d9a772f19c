"""The two wire formats as a server writes them, so that one suite can speak both."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from typing import Any

from tests.contract.providers.fault_server import Act, cut_body, reply, stream
from workers.providers.registry import WireName


def _sse(data: object, name: str = "") -> bytes:
    event = f"event: {name}\n" if name else ""
    return f"{event}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


@dataclasses.dataclass(frozen=True)
class Dialect:
    """`body` and `events` write a reply of the given text pieces; counts are 11 in (5 of them read from a cache, 2
    written to it), 7 out.
    `finish` is "stop", "length", "refusal" or None (cut before any finish reason)."""

    wire: WireName
    body: Callable[..., dict[str, Any]]
    events: Callable[..., list[bytes]]
    error: Callable[[str, str], dict[str, Any]]
    error_event: Callable[[str, str], bytes]
    end_mark: bytes


def _openai_body(
    *pieces: str, finish: str | None = "stop", reasoning: str = "", **extra: Any
) -> dict[str, Any]:
    message = {
        "role": "assistant",
        "content": "".join(pieces),
        **({"reasoning": reasoning} if reasoning else {}),
    }
    reason = {"refusal": "content_filter"}.get(finish or "", finish)
    return {
        "id": "chat-1",
        "model": "served-1",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {
            "prompt_tokens": 11,
            "completion_tokens": 7,
            "prompt_tokens_details": {"cached_tokens": 5, "cache_write_tokens": 2},
        },
        **extra,
    }


def _openai_events(
    *pieces: str, finish: str | None = "stop", reasoning: str = "", **extra: Any
) -> list[bytes]:
    def chunk(delta: dict[str, str], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return _sse({"id": "chat-1", "model": "served-1", "choices": [choice], "usage": None, **extra})

    events = [chunk({"role": "assistant", "content": ""})]
    events += [chunk({"reasoning_content": reasoning})] if reasoning else []
    events += [chunk({"content": piece}) for piece in pieces]
    if finish is not None:
        events.append(chunk({}, {"refusal": "content_filter"}.get(finish, finish)))
        events.append(_sse({**_openai_body(**extra), "choices": []}))
        events.append(b"data: [DONE]\n\n")
    return events


def _anthropic_body(
    *pieces: str, finish: str | None = "stop", reasoning: str = "", **extra: Any
) -> dict[str, Any]:
    thinking = [{"type": "thinking", "thinking": reasoning, "signature": "s"}] if reasoning else []
    return {
        "id": "msg-1",
        "type": "message",
        "model": "served-1",
        "content": [*thinking, *({"type": "text", "text": piece} for piece in pieces)],
        "stop_reason": {"stop": "end_turn", "length": "max_tokens"}.get(finish or "", finish),
        "usage": {
            "input_tokens": 4,
            "cache_creation_input_tokens": 2,
            "cache_read_input_tokens": 5,
            "output_tokens": 7,
        },
        **extra,
    }


def _anthropic_events(
    *pieces: str, finish: str | None = "stop", reasoning: str = "", **extra: Any
) -> list[bytes]:
    def event(kind: str, **fields: Any) -> bytes:
        return _sse({"type": kind, **fields, **extra}, kind)

    whole = _anthropic_body(finish=finish)
    start = {**whole, "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
    events = [event("message_start", message=start), event("ping")]
    if reasoning:
        events.append(
            event("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": reasoning})
        )
    events += [
        event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece}) for piece in pieces
    ]
    if finish is not None:
        # Cumulative: 3, then 7; a reader that adds would count 10 (or 11 with the placeholder).
        events.append(event("message_delta", delta={}, usage={"output_tokens": 3}))
        events.append(
            event("message_delta", delta={"stop_reason": whole["stop_reason"]}, usage={"output_tokens": 7})
        )
        events.append(event("message_stop"))
    return events


OPENAI = Dialect(
    wire="openai",
    body=_openai_body,
    events=_openai_events,
    error=lambda kind, message: {"error": {"message": message, "type": kind, "code": kind, "param": None}},
    error_event=lambda kind, message: _sse({"error": {"message": message, "code": kind}}),
    end_mark=b"data: [DONE]\n\n",
)
ANTHROPIC = Dialect(
    wire="anthropic",
    body=_anthropic_body,
    events=_anthropic_events,
    error=lambda kind, message: {"type": "error", "error": {"type": kind, "message": message}},
    error_event=lambda kind, message: _sse(
        {"type": "error", "error": {"type": kind, "message": message}}, "error"
    ),
    end_mark=_sse({"type": "message_stop"}, "message_stop"),
)


@dataclasses.dataclass(frozen=True)
class Mode:
    """A dialect, spoken whole or streamed."""

    dialect: Dialect
    is_stream: bool

    def good(self, *pieces: str, headers: dict[str, str] | None = None, **extra: Any) -> Act:
        if self.is_stream:
            return stream(*self.dialect.events(*pieces, **extra), headers=headers)
        return reply(200, json.dumps(self.dialect.body(*pieces, **extra)).encode(), headers=headers)

    def refusal(
        self, status: int, kind: str, message: str = "no", headers: dict[str, str] | None = None
    ) -> Act:
        return reply(status, json.dumps(self.dialect.error(kind, message)).encode(), headers=headers)

    def error_inside_200(self, kind: str, message: str, after: Sequence[str] = ()) -> Act:
        if self.is_stream:
            return stream(*self.dialect.events(*after, finish=None), self.dialect.error_event(kind, message))
        return reply(200, json.dumps(self.dialect.error(kind, message)).encode())

    def torn(self, *pieces: str) -> Act:
        """The connection breaks before the finish reason."""
        if self.is_stream:
            return stream(*self.dialect.events(*pieces, finish=None), ending="reset")
        return cut_body(json.dumps(self.dialect.body(*pieces)).encode())


MODES = {
    f"{dialect.wire}-{'stream' if is_stream else 'whole'}": Mode(dialect, is_stream)
    for dialect in (OPENAI, ANTHROPIC)
    for is_stream in (False, True)
}
