"""Anthropic messages, as a server writes them (`reference/panel.md` §5.2)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workers.providers.simulator.limits import Gauge
from workers.providers.simulator.retry_statement import rfc3339
from workers.providers.simulator.stand_in import Resolve
from workers.providers.simulator.wire import (
    Call,
    Reply,
    WireName,
    material_of,
    read_flag,
    read_limit,
    read_messages,
    read_model,
    read_text,
    signed,
    sse,
)
from workers.providers.simulator.wire_error import RequestError

_ROLES = frozenset({"user", "assistant"})


class AnthropicWire:
    name: WireName = "anthropic"
    request_id_header = "request-id"
    overloaded_status = 529

    def read(self, body: Mapping[str, Any], resolve: Resolve) -> Call:
        asked_model = read_model(body)
        model = resolve(asked_model)
        limit = read_limit(body, "max_tokens")
        if limit is None:
            raise RequestError("max_tokens: field required", param="max_tokens")
        messages = read_messages(body, _ROLES)
        system = read_text(body.get("system") or "", place="system")
        return Call(
            asked_model=asked_model,
            model=model,
            system=system,
            user=material_of(messages),
            prompt_characters=len(system) + sum(len(text) for _, text in messages),
            max_tokens=limit,
            is_streamed=read_flag(body, "stream"),
            wants_usage=True,
        )

    def document(self, call: Call, reply: Reply) -> dict[str, Any]:
        document = _message(call, reply, output_tokens=reply.output_tokens)
        # Arguments that were cut short are no object, and only an object can stand in a whole message.
        document["content"] = [
            {**block, field: {} if field == "input" else value} for block, field, _, value in _blocks(reply)
        ]
        document["stop_reason"] = _stop_reason(reply)
        if "choices" in reply.lacks:
            del document["content"]
        return signed(document)

    def parts(self, call: Call, reply: Reply) -> list[bytes]:
        opening = _event("message_start", message=_message(call, reply, output_tokens=1))
        parts: list[bytes] = []
        closing = b""
        for index, (block, field, kind, value) in enumerate(_blocks(reply)):
            start = _event("content_block_start", index=index, content_block={**block, field: _EMPTY[field]})
            if index == 0:
                opening += start + _event("ping")
            else:
                # The block before ends where this one starts.
                parts.append(closing + start)
            name = "partial_json" if kind == "input_json_delta" else field
            pieces = reply.pieces() if kind == "text_delta" else [value]
            parts.extend(
                _event("content_block_delta", index=index, delta={"type": kind, name: piece})
                for piece in pieces
            )
            closing = _event("content_block_stop", index=index)
        usage = {} if "usage" in reply.lacks else {"usage": {"output_tokens": reply.output_tokens}}
        delta = {"stop_reason": _stop_reason(reply), "stop_sequence": None}
        closing += _event("message_delta", delta=delta, **usage)
        return [opening, *parts, closing if "end" in reply.lacks else closing + _event("message_stop")]

    def error(self, error: RequestError) -> dict[str, Any]:
        body = {"type": error.kind, "message": error.message, **error.extra}
        return signed({"type": "error", "error": body})

    def error_part(self, _call: Call, _reply: Reply, error: RequestError, /) -> bytes:
        return sse(self.error(error), event="error")

    def limit_headers(self, gauges: Sequence[Gauge], now_epoch_seconds: float, /) -> dict[str, str]:
        headers: dict[str, str] = {}
        for gauge in gauges:
            # There is no header for a day's requests; its limit shows only in its refusals.
            if gauge.meter == "requests-per-day":
                continue
            prefix = f"anthropic-ratelimit-{gauge.meter}"
            headers[f"{prefix}-limit"] = str(gauge.limit)
            headers[f"{prefix}-remaining"] = str(gauge.remaining)
            headers[f"{prefix}-reset"] = rfc3339(now_epoch_seconds + gauge.reset_seconds)
        tokens = [gauge for gauge in gauges if gauge.meter in ("input-tokens", "output-tokens")]
        if tokens:
            # The plain token headers show the most restrictive limit in force.
            scarcest = min(tokens, key=lambda gauge: gauge.remaining)
            headers["anthropic-ratelimit-tokens-limit"] = str(scarcest.limit)
            headers["anthropic-ratelimit-tokens-remaining"] = str(scarcest.remaining)
            headers["anthropic-ratelimit-tokens-reset"] = rfc3339(now_epoch_seconds + scarcest.reset_seconds)
        return headers


#: What a block's field holds before its first delta.
_EMPTY: Mapping[str, Any] = {"text": "", "thinking": "", "input": {}}


def _blocks(reply: Reply) -> list[tuple[dict[str, Any], str, str, Any]]:
    """Each content block: what names it, the field with its content, the type of its deltas, the content."""
    blocks: list[tuple[dict[str, Any], str, str, Any]] = []
    if "choices" in reply.lacks:
        return blocks
    if reply.reasoning:
        thinking = {"type": "thinking", "signature": ""}
        blocks.append((thinking, "thinking", "thinking_delta", reply.reasoning))
    if reply.text or not (reply.reasoning or reply.tool_arguments):
        blocks.append(({"type": "text"}, "text", "text_delta", reply.text))
    if reply.tool_arguments is not None:
        tool = {"type": "tool_use", "id": f"toolu_{reply.digest}", "name": "answer"}
        blocks.append((tool, "input", "input_json_delta", reply.tool_arguments))
    return blocks


def _message(call: Call, reply: Reply, *, output_tokens: int) -> dict[str, Any]:
    """The message as it is at its start."""
    message: dict[str, Any] = {
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
    if "usage" in reply.lacks:
        del message["usage"]
    return message


def _event(kind: str, **fields: Any) -> bytes:
    return sse({"type": kind, **fields}, event=kind)


def _stop_reason(reply: Reply) -> str:
    if reply.finish is not None:
        return reply.finish
    if reply.is_refused:
        return "refusal"
    if reply.tool_arguments is not None:
        return "tool_use"
    return "max_tokens" if reply.is_cut else "end_turn"
