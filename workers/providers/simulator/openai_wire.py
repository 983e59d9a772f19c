"""OpenAI-compatible chat completions, as a server writes them (`reference/panel.md` §5.1)."""

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
    signed,
    sse,
)

_ROLES = frozenset({"system", "developer", "user", "assistant"})


class OpenAiWire:
    request_id_header = "x-request-id"

    def read(self, body: Mapping[str, Any]) -> Call:
        model = read_model(body)
        messages = read_messages(body, _ROLES)
        limit = read_limit(body, "max_completion_tokens") or read_limit(body, "max_tokens")
        options = body.get("stream_options")
        return Call(
            model=model,
            system="\n".join(text for role, text in messages if role in {"system", "developer"}),
            user=material_of(messages),
            prompt_characters=sum(len(text) for _, text in messages),
            max_tokens=limit,
            is_streamed=read_flag(body, "stream"),
            wants_usage=read_flag(options, "include_usage") if isinstance(options, dict) else False,
        )

    def document(self, call: Call, reply: Reply) -> dict[str, Any]:
        message = {"role": "assistant", "content": reply.text, "refusal": None}
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(reply)}
        return signed({**_head(call, reply, "chat.completion"), "choices": [choice], "usage": _usage(reply)})

    def events(self, call: Call, reply: Reply) -> Iterator[bytes]:
        yield _chunk(call, reply, {"role": "assistant", "content": ""})
        for piece in reply.pieces():
            yield _chunk(call, reply, {"content": piece})
        closing = _chunk(call, reply, {}, finish_reason=_finish_reason(reply))
        if call.wants_usage:
            closing += sse({**_head(call, reply, _CHUNK), "choices": [], "usage": _usage(reply)})
        yield closing + b"data: [DONE]\n\n"

    def error(self, error: RequestError) -> dict[str, Any]:
        # This format has one type for every fault of the caller; the code tells them apart.
        return signed(
            {
                "error": {
                    "message": error.message,
                    "type": "invalid_request_error",
                    "param": error.param,
                    "code": error.code,
                }
            }
        )


_CHUNK = "chat.completion.chunk"


def _head(call: Call, reply: Reply, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{reply.digest}",
        "object": kind,
        "created": reply.created_epoch_seconds,
        "model": call.model,
    }


def _chunk(call: Call, reply: Reply, delta: Mapping[str, Any], *, finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    usage = {"usage": None} if call.wants_usage else {}
    return sse({**_head(call, reply, _CHUNK), "choices": [choice], **usage})


def _finish_reason(reply: Reply) -> str:
    return "length" if reply.is_cut else "stop"


def _usage(reply: Reply) -> dict[str, Any]:
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 0},
    }
