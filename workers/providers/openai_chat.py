"""OpenAI-compatible chat completions (reference/panel.md §5.1): pure encoding, decoding, accumulating.

Spoken by every provider but Anthropic, each in its own accent; `Compat` says what may be sent, and reading is
lenient wherever a strict reader would turn a good answer into an error."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from workers.core.reply import Completion, CompletionRequest, FinishReason, Message, ToolSpec
from workers.providers.base import MalformedResponseError, OverloadedError
from workers.providers.compat import Compat
from workers.providers.error_class import classify_embedded
from workers.providers.reply_draft import ReplyDraft, mapping, parse_json, token_count
from workers.providers.sse import SseEvent
from workers.providers.wire import Wire

_FINISH_REASONS = {
    "stop": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.REFUSAL,
    "refusal": FinishReason.REFUSAL,
    "safety": FinishReason.REFUSAL,
    "prohibited_content": FinishReason.REFUSAL,
}
#: What ended a reply after its 200 was sent → the status it would have had: OpenRouter's upstream died, DeepSeek's
#: machines are full.
_GAVE_UP = {"error": 502, "insufficient_system_resource": 503}


def encode(request: CompletionRequest, compat: Compat) -> dict[str, Any]:
    """The JSON body. A field that `compat` rules out is left away: several providers answer 422 to any
    field they do not know."""
    body: dict[str, Any] = {"model": request.model, "messages": list(_turns(request.messages, compat))}
    if compat.max_tokens_fields:
        body[compat.max_tokens_fields[0]] = request.max_tokens
    temperature = compat.temperature_for(request.model, request.temperature)
    if temperature is not None:
        body["temperature"] = temperature
    if request.tools and compat.has_tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        if not request.may_call_tools:
            body["tool_choice"] = "none"
    elif request.json_mode and compat.has_json_mode:
        # Some models refuse a format together with tools; the prompt asks for JSON all the same.
        body["response_format"] = {"type": "json_object"}
    if request.stream:
        body["stream"] = True
        if compat.has_stream_usage_option:
            body["stream_options"] = {"include_usage": True}
    return body


def _turns(messages: Sequence[Message], compat: Compat) -> Iterator[dict[str, Any]]:
    """The turns. Neighbouring user messages are one turn, their order kept: many chat templates want roles to
    alternate, and what caches by itself caches by the beginning of the text."""
    for role, neighbours in groupby(messages, key=lambda message: message.role):
        if role == "user":
            yield {"role": role, "content": "\n\n".join(message.content for message in neighbours)}
        else:
            yield from (_turn(message, compat) for message in neighbours)


def _turn(message: Message, compat: Compat) -> dict[str, Any]:
    role = compat.system_role if message.role == "system" else message.role
    turn: dict[str, Any] = {"role": role, "content": message.content}
    if message.role == "tool":
        turn["tool_call_id"] = message.call_id
    if message.tool_calls:
        turn["content"] = message.content or None
        turn["tool_calls"] = [
            {
                "id": call.call_id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments or "{}"},
                **call.extra,
            }
            for call in message.tool_calls
        ]
        if compat.wants_reasoning_back and message.reasoning:
            turn["reasoning_content"] = message.reasoning
    return turn


def _tool(tool: ToolSpec) -> dict[str, Any]:
    described = {"name": tool.name, "description": tool.description, "parameters": dict(tool.parameters)}
    return {"type": "function", "function": described}


def decode(body: bytes, request: CompletionRequest) -> Completion:
    """Read a whole 200 body.

    Raises: MalformedResponseError (no JSON, no choices); EmptyReplyError; RefusedError; the class of an
    error that came inside the 200.
    """
    document = parse_json(body, "reply")
    _raise_embedded_error(document)
    draft = ReplyDraft()
    _read_envelope(mapping(document), draft)
    choice = _first_choice(mapping(document))
    if choice is None:
        raise MalformedResponseError(f"the reply has no choices: {str(document)[:200]}")
    _read_choice(choice, mapping(choice.get("message")), draft)
    return draft.completion(request)


class ChatStream:
    """Builds a reply from chunks. `[DONE]` ends it, where it comes; some servers just close."""

    def __init__(self) -> None:
        self.draft = ReplyDraft()
        self.is_done = False

    def feed(self, event: SseEvent) -> None:
        if event.data.strip() == "[DONE]":
            self.is_done = True
            return
        if not event.data.strip():
            return
        chunk = parse_json(event.data, "chunk of the stream")
        if event.name == "error":
            raise classify_embedded(chunk)
        _raise_embedded_error(chunk)
        _read_envelope(mapping(chunk), self.draft)
        # The chunk that carries the usage has no choices.
        choice = _first_choice(mapping(chunk))
        if choice is not None:
            _read_choice(choice, mapping(choice.get("delta") or choice.get("message")), self.draft)


def _raise_embedded_error(document: Any) -> None:
    if isinstance(document, list):
        document = next((entry for entry in document if isinstance(entry, dict)), {})
    if mapping(document).get("error") or mapping(document).get("object") == "error":
        raise classify_embedded(document)


def _first_choice(document: dict[str, Any]) -> dict[str, Any] | None:
    choices = document.get("choices")
    for choice in choices if isinstance(choices, list) else []:
        if isinstance(choice, dict) and choice.get("index", 0) in (0, None):
            return choice
    return None


def _read_envelope(document: dict[str, Any], draft: ReplyDraft) -> None:
    draft.see_marker(document)
    if isinstance(document.get("model"), str):
        draft.model = document["model"]
    if isinstance(document.get("id"), str):
        draft.request_id = document["id"]
    # Groq puts the usage of a stream under a name of its own.
    _read_usage(mapping(document.get("usage") or mapping(document.get("x_groq")).get("usage")), draft)


def _read_usage(usage: dict[str, Any], draft: ReplyDraft) -> None:
    """Counts in a stream are running totals: the last one stands."""
    prompt, completion = token_count(usage.get("prompt_tokens")), token_count(usage.get("completion_tokens"))
    if prompt is None or completion is None or prompt + completion == 0:
        return
    draft.input_tokens = prompt
    # Gemini and xAI count thinking in the total only, and bill it as output.
    draft.output_tokens = max(completion, (token_count(usage.get("total_tokens")) or 0) - prompt)
    details = mapping(usage.get("prompt_tokens_details"))
    cached = (
        token_count(details.get("cached_tokens")) or token_count(usage.get("prompt_cache_hit_tokens")) or 0
    )
    draft.cached_input_tokens = min(cached, prompt)
    written = (
        token_count(details.get("cache_write_tokens"))
        or token_count(usage.get("cache_creation_input_tokens"))
        or 0
    )
    draft.cache_write_input_tokens = min(written, prompt - draft.cached_input_tokens)
    thinking = token_count(mapping(usage.get("completion_tokens_details")).get("reasoning_tokens"))
    draft.has_hidden_reasoning = bool(thinking) or draft.output_tokens > completion


def _read_choice(choice: dict[str, Any], message: dict[str, Any], draft: ReplyDraft) -> None:
    """`message` is the whole message, or the delta of a chunk: they have the same parts."""
    if choice.get("error"):
        raise classify_embedded(choice["error"])
    _read_content(message.get("content"), draft)
    for name in ("reasoning_content", "reasoning"):
        if isinstance(message.get(name), str) and message[name]:
            draft.reasoning.append(message[name])
            # Gateways send the same thoughts under both names.
            break
    if isinstance(message.get("refusal"), str) and message["refusal"]:
        draft.refusal.append(message["refusal"])
    calls = message.get("tool_calls")
    # In a whole message each entry is a call; only in a delta may it be a piece of one.
    is_whole = not choice.get("delta")
    for number, call in enumerate(calls if isinstance(calls, list) else []):
        draft.tool_calls.add({**({"index": number} if is_whole else {}), **mapping(call)})
    _read_finish(choice.get("finish_reason"), draft)


def _read_content(content: Any, draft: ReplyDraft) -> None:
    """A string, or (Mistral's reasoning models) a list of chunks, thoughts and text mixed."""
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    for chunk in content if isinstance(content, list) else []:
        if isinstance(chunk, str):
            draft.text.append(chunk)
            continue
        part = mapping(chunk)
        if part.get("type") == "thinking":
            draft.reasoning.append(_thought(part.get("thinking")))
        elif isinstance(part.get("text"), str) and part["text"]:
            draft.text.append(part["text"])


def _thought(thinking: Any) -> str:
    if isinstance(thinking, str):
        return thinking
    parts = thinking if isinstance(thinking, list) else []
    return "".join(text for part in parts if isinstance(text := mapping(part).get("text"), str))


def _read_finish(reason: Any, draft: ReplyDraft) -> None:
    if not isinstance(reason, str) or not reason:
        return
    if reason in _GAVE_UP:
        message = f"the provider gave up in the middle of the reply (finish reason {reason!r})"
        raise OverloadedError(message, status=_GAVE_UP[reason])
    # Gemini adds why: "content_filter: SAFETY".
    draft.finish = _FINISH_REASONS.get(reason.lower().partition(":")[0].strip(), FinishReason.UNKNOWN)
    if draft.finish is FinishReason.STOP and draft.tool_calls:
        # Gemini says "stop" for tool calls when it streams.
        draft.finish = FinishReason.TOOL_CALLS


def headers(api_key: str) -> dict[str, str]:
    return {"authorization": f"Bearer {api_key}"} if api_key else {}


OPENAI_CHAT = Wire(
    completion_path="/chat/completions",
    headers=headers,
    encode=encode,
    decode=decode,
    accumulator=ChatStream,
    optional_fields=frozenset(
        {
            "max_tokens",
            "max_completion_tokens",
            "temperature",
            "response_format",
            "stream_options",
            "tools",
            "tool_choice",
        }
    ),
)
