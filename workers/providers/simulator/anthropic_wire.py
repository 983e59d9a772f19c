"""Anthropic messages, as a server writes them (`reference/panel.md` §5.2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from workers.providers.simulator.wire import (
    Call,
    Reply,
    RequestError,
    material_of,
    read_flag,
    read_limit,
    read_messages,
    read_model,
    read_text,
    signed,
    sse,
)

_ROLES = frozenset({"user", "assistant"})


class AnthropicWire:
    request_id_header = "request-id"

    def read(self, body: Mapping[str, Any]) -> Call:
        model = read_model(body)
        limit = read_limit(body, "max_tokens")
        if limit is None:
            raise RequestError("max_tokens: field required", param="max_tokens")
        messages = read_messages(body, _ROLES)
        system = read_text(body.get("system") or "", place="system")
        return Call(
            model=model,
            system=system,
            user=material_of(messages),
            prompt_characters=len(system) + sum(len(text) for _, text in messages),
            max_tokens=limit,
            is_streamed=read_flag(body, "stream"),
            wants_usage=True,
        )

    def document(self, call: Call, reply: Reply) -> dict[str, Any]:
        return signed(
            {
                **_message(call, reply, output_tokens=reply.output_tokens),
                "content": [{"type": "text", "text": reply.text}],
                "stop_reason": _stop_reason(reply),
            }
        )

    def events(self, call: Call, reply: Reply) -> Iterator[bytes]:
        block = {"type": "text", "text": ""}
        yield (
            _event("message_start", message=_message(call, reply, output_tokens=1))
            + _event("content_block_start", index=0, content_block=block)
            + _event("ping")
        )
        for piece in reply.pieces():
            yield _event("content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
        yield (
            _event("content_block_stop", index=0)
            + _event(
                "message_delta",
                delta={"stop_reason": _stop_reason(reply), "stop_sequence": None},
                usage={"output_tokens": reply.output_tokens},
            )
            + _event("message_stop")
        )

    def error(self, error: RequestError) -> dict[str, Any]:
        return signed({"type": "error", "error": {"type": error.kind, "message": error.message}})


def _message(call: Call, reply: Reply, *, output_tokens: int) -> dict[str, Any]:
    """The message as it is at its start."""
    return {
        "id": f"msg_{reply.digest}",
        "type": "message",
        "role": "assistant",
        "model": call.model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {
            "input_tokens": reply.input_tokens,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": output_tokens,
        },
    }


def _event(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, **fields}, event=kind)


def _stop_reason(reply: Reply) -> str:
    return "max_tokens" if reply.is_cut else "end_turn"
