"""OpenAI-compatible chat completions, as a server writes them (`reference/panel.md` §5.1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workers.providers.simulator.limits import Gauge, Meter
from workers.providers.simulator.retry_statement import go_duration
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
    signed,
    sse,
)
from workers.providers.simulator.wire_error import RequestError

_ROLES = frozenset({"system", "developer", "user", "assistant"})
#: This format has one place for tokens: the input's. A limit of output tokens shows only in its refusals.
_HEADER_NAMES: Mapping[Meter, str] = {
    "requests": "requests",
    "input-tokens": "tokens",
    "requests-per-day": "requests-day",
}


class OpenAiWire:
    name: WireName = "openai"
    request_id_header = "x-request-id"
    overloaded_status = 503

    def read(self, body: Mapping[str, Any], resolve: Resolve) -> Call:
        asked_model = read_model(body)
        model = resolve(asked_model)
        messages = read_messages(body, _ROLES)
        limit = read_limit(body, "max_completion_tokens") or read_limit(body, "max_tokens")
        options = body.get("stream_options")
        return Call(
            asked_model=asked_model,
            model=model,
            system="\n".join(text for role, text in messages if role in {"system", "developer"}),
            user=material_of(messages),
            prompt_characters=sum(len(text) for _, text in messages),
            max_tokens=limit,
            is_streamed=read_flag(body, "stream"),
            wants_usage=read_flag(options, "include_usage") if isinstance(options, dict) else False,
        )

    def document(self, call: Call, reply: Reply) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": reply.text, "refusal": None}
        if reply.reasoning:
            message["reasoning_content"] = reply.reasoning
        if reply.tool_arguments is not None:
            message["tool_calls"] = [_tool_call(reply)]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(reply)}
        document = {**_head(call, reply, "chat.completion"), "choices": [choice], "usage": _usage(reply)}
        return signed({name: value for name, value in document.items() if name not in reply.lacks})

    def parts(self, call: Call, reply: Reply) -> list[bytes]:
        parts = [_chunk(call, reply, {"role": "assistant", "content": ""})]
        if reply.reasoning:
            parts.append(_chunk(call, reply, {"reasoning_content": reply.reasoning}))
        parts.extend(_chunk(call, reply, {"content": piece}) for piece in reply.pieces())
        if reply.tool_arguments is not None:
            parts.append(_chunk(call, reply, {"tool_calls": [{"index": 0, **_tool_call(reply)}]}))
        closing = _chunk(call, reply, {}, finish_reason=_finish_reason(reply))
        if call.wants_usage and "usage" not in reply.lacks:
            closing += sse({**_head(call, reply, _CHUNK), "choices": [], "usage": _usage(reply)})
        parts.append(closing if "end" in reply.lacks else closing + b"data: [DONE]\n\n")
        return parts

    def error(self, error: RequestError) -> dict[str, Any]:
        return signed(error.instead or {"error": _error(error)})

    def error_part(self, call: Call, reply: Reply, error: RequestError, /) -> bytes:
        # As OpenRouter says that its upstream died.
        choice = {"index": 0, "delta": {"content": ""}, "logprobs": None, "finish_reason": "error"}
        return sse({**_head(call, reply, _CHUNK), "error": _error(error), "choices": [choice]})

    def limit_headers(self, gauges: Sequence[Gauge], _now_epoch_seconds: float, /) -> dict[str, str]:
        headers: dict[str, str] = {}
        for gauge in gauges:
            name = _HEADER_NAMES.get(gauge.meter)
            if name == "requests-day":
                # One set of headers for both; Groq fills it with the day's. The scarcer limit shows.
                name = "requests"
                if int(headers.get("x-ratelimit-remaining-requests", gauge.remaining)) < gauge.remaining:
                    continue
            if name is not None:
                headers[f"x-ratelimit-limit-{name}"] = str(gauge.limit)
                headers[f"x-ratelimit-remaining-{name}"] = str(gauge.remaining)
                headers[f"x-ratelimit-reset-{name}"] = go_duration(gauge.reset_seconds)
        return headers


_CHUNK = "chat.completion.chunk"


def _error(error: RequestError) -> dict[str, Any]:
    return {
        "message": error.message,
        "type": error.openai_type,
        "param": error.param,
        "code": error.code,
        **error.extra,
    }


def _head(call: Call, reply: Reply, kind: str) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{reply.digest}",
        "object": kind,
        "created": reply.created_epoch_seconds,
        "model": call.model,
    }


def _chunk(call: Call, reply: Reply, delta: Mapping[str, Any], *, finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
    choices = [] if "choices" in reply.lacks else [choice]
    usage = {"usage": None} if call.wants_usage else {}
    return sse({**_head(call, reply, _CHUNK), "choices": choices, **usage})


def _tool_call(reply: Reply) -> dict[str, Any]:
    function = {"name": "answer", "arguments": reply.tool_arguments}
    return {"id": f"call_{reply.digest[:9]}", "type": "function", "function": function}


def _finish_reason(reply: Reply) -> str:
    if reply.finish is not None:
        return reply.finish
    if reply.is_refused:
        return "content_filter"
    if reply.tool_arguments is not None:
        return "tool_calls"
    return "length" if reply.is_cut else "stop"


def _usage(reply: Reply) -> dict[str, Any]:
    thinking = reply.output_tokens if reply.reasoning and not reply.text else 0
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": thinking},
    }
