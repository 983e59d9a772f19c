"""Anthropic Messages (reference/panel.md §5.2): pure encoding, decoding, accumulating."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import groupby
from typing import Any

import orjson

from workers.core.reply import Completion, CompletionRequest, FinishReason, Message, ToolCall, ToolSpec
from workers.providers.base import MalformedResponseError
from workers.providers.compat import Compat
from workers.providers.error_class import classify_embedded
from workers.providers.reply_draft import ReplyDraft, mapping, parse_json, token_count
from workers.providers.sse import SseEvent
from workers.providers.wire import Wire

_VERSION = "2023-06-01"
#: A request with more marks is refused.
_MAX_CACHE_MARKS = 4

_FINISH_REASONS = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "tool_use": FinishReason.TOOL_CALLS,
    "refusal": FinishReason.REFUSAL,
}


def encode(request: CompletionRequest, compat: Compat) -> dict[str, Any]:
    """The JSON body. Instructions leave the conversation for a field of their own, and neighbours of one
    role become one turn of several blocks, because roles must alternate. There is no JSON mode; the prompt has
    to ask.

    A shared prefix is marked for the cache at its end. The cache is keyed by everything before the mark,
    instructions included: seats that share an artefact share it only if they share their instructions too.
    """
    # An empty block is refused, and so is a mark on one.
    messages = _with_few_marks(
        [message for message in request.messages if message.content or message.tool_calls or message.call_id]
    )
    turns = [message for message in messages if message.role != "system"]
    body: dict[str, Any] = {
        "model": request.model,
        "max_tokens": request.max_tokens,
        "messages": [
            {"role": role, "content": _content(list(neighbours))}
            for role, neighbours in groupby(turns, key=_speaker)
        ],
    }
    instructions = [message for message in messages if message.role == "system"]
    if not turns:
        # At least one user turn is required; instructions alone are then the question.
        body["messages"] = [{"role": "user", "content": _content(instructions)}]
    elif instructions:
        body["system"] = _content(instructions)
    temperature = compat.temperature_for(request.model, request.temperature)
    if temperature is not None:
        body["temperature"] = temperature
    if request.tools and compat.has_tools:
        body["tools"] = [_tool(tool) for tool in request.tools]
        if not request.may_call_tools:
            body["tool_choice"] = {"type": "none"}
    if request.stream:
        body["stream"] = True
    return body


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": dict(tool.parameters)}


def _speaker(message: Message) -> str:
    """Whose turn it is: results of tools come from the user's side."""
    return "user" if message.role == "tool" else message.role


def _with_few_marks(messages: Sequence[Message]) -> list[Message]:
    """Of more marks than are allowed the last ones stay: the longer a prefix, the more it saves."""
    shared = [place for place, message in enumerate(messages) if message.is_shared_prefix]
    unmarked = set(shared[:-_MAX_CACHE_MARKS])
    return [
        dataclasses.replace(message, is_shared_prefix=False) if place in unmarked else message
        for place, message in enumerate(messages)
    ]


def _content(neighbours: Sequence[Message]) -> str | list[dict[str, Any]]:
    """One turn: plain text where one message without a mark is all there is, else a block for each."""
    is_plain = not any(
        message.is_shared_prefix or message.tool_calls or message.call_id for message in neighbours
    )
    if len(neighbours) < 2 and is_plain:
        return "".join(message.content for message in neighbours)
    blocks: list[dict[str, Any]] = []
    for number, message in enumerate(neighbours, start=1):
        if message.call_id:
            blocks.append(_tool_result(message))
            continue
        if message.tool_calls:
            blocks += [{"type": "text", "text": message.content}] if message.content.strip() else []
            blocks += [_tool_use(call) for call in message.tool_calls]
            continue
        # Blocks are read without anything between them.
        text = message.content + ("\n\n" if number < len(neighbours) else "")
        mark = {"cache_control": {"type": "ephemeral"}} if message.is_shared_prefix else {}
        blocks.append({"type": "text", "text": text, **mark})
    return blocks


def _tool_use(call: ToolCall) -> dict[str, Any]:
    """The model's own call, as it must be shown again. Arguments that were no JSON object are shown as none."""
    try:
        given = orjson.loads(call.arguments or "{}")
    except orjson.JSONDecodeError:
        given = {}
    return {"type": "tool_use", "id": call.call_id, "name": call.name, "input": mapping(given)}


def _tool_result(message: Message) -> dict[str, Any]:
    error = {"is_error": True} if message.is_error else {}
    return {"type": "tool_result", "tool_use_id": message.call_id, "content": message.content, **error}


def decode(body: bytes, request: CompletionRequest) -> Completion:
    """Read a whole 200 body.

    Raises: MalformedResponseError (no JSON, no content list); EmptyReplyError; RefusedError; the class of an
    error that came inside the 200.
    """
    document = mapping(parse_json(body, "reply"))
    if document.get("type") == "error" or document.get("error"):
        raise classify_embedded(document)
    if not isinstance(document.get("content"), list):
        raise MalformedResponseError(f"the reply has no content list: {str(document)[:200]}")
    draft = ReplyDraft()
    draft.see_marker(document)
    _read_message(document, draft)
    for block in document["content"]:
        _read_block(mapping(block), draft)
    _read_finish(document.get("stop_reason"), draft)
    draft.output_tokens = token_count(mapping(document.get("usage")).get("output_tokens"))
    return draft.completion(request)


class MessageStream:
    """Builds a reply from events; goes by the `type` inside the data, which the `event:` line repeats."""

    def __init__(self) -> None:
        self.draft = ReplyDraft()
        self.is_done = False

    def feed(self, event: SseEvent) -> None:
        if event.data.strip() == "[DONE]":
            # Not of this format, but gateways that translate from the other one leave it in.
            self.is_done = True
            return
        data = parse_json(event.data, "event of the stream")
        if not isinstance(data, dict):
            raise MalformedResponseError(f"an event of the stream is not an object: {event.data[:200]}")
        self.draft.see_marker(data)
        match data.get("type"):
            case "message_start":
                _read_message(mapping(data.get("message")), self.draft)
            case "content_block_start":
                _read_block(mapping(data.get("content_block")), self.draft)
            case "content_block_delta":
                _read_block(mapping(data.get("delta")), self.draft)
            case "message_delta":
                _read_finish(mapping(data.get("delta")).get("stop_reason"), self.draft)
                _read_final_usage(mapping(data.get("usage")), self.draft)
            case "message_stop":
                self.is_done = True
            case "error":
                # An overload comes like this, after a 200 and perhaps after half the text.
                raise classify_embedded(data)
            case _:
                # ping, content_block_stop, and whatever is invented next.
                pass


def _read_message(message: dict[str, Any], draft: ReplyDraft) -> None:
    if isinstance(message.get("model"), str):
        draft.model = message["model"]
    if isinstance(message.get("id"), str):
        draft.request_id = message["id"]
    _read_input_usage(mapping(message.get("usage")), draft)


def _read_input_usage(usage: dict[str, Any], draft: ReplyDraft) -> None:
    """`input_tokens` leaves cached input out; what is billed is the sum of the three.

    The output count that `message_start` carries is a placeholder (1), so it is not read here.
    """
    fresh = token_count(usage.get("input_tokens"))
    if fresh is None:
        return
    read = token_count(usage.get("cache_read_input_tokens")) or 0
    written = token_count(usage.get("cache_creation_input_tokens")) or 0
    # `message_delta` may repeat the input side, without the cache's share: the fuller count stands.
    if fresh + read + written > (draft.input_tokens or 0):
        draft.input_tokens = fresh + read + written
        draft.cached_input_tokens = read
        draft.cache_write_input_tokens = written


def _read_final_usage(usage: dict[str, Any], draft: ReplyDraft) -> None:
    """Of `message_delta`: the output count is cumulative, so it replaces, never adds."""
    output = token_count(usage.get("output_tokens"))
    if output is not None:
        draft.output_tokens = output
    _read_input_usage(usage, draft)


def _read_block(block: dict[str, Any], draft: ReplyDraft) -> None:
    """A content block, the start of one, or a delta: text, thinking or a tool's input."""
    if isinstance(block.get("text"), str) and block["text"]:
        draft.text.append(block["text"])
    elif isinstance(block.get("thinking"), str) and block["thinking"]:
        draft.reasoning.append(block["thinking"])
    elif block.get("type") == "redacted_thinking":
        draft.has_hidden_reasoning = True
    elif block.get("type") in ("tool_use", "input_json_delta"):
        # A whole block has its input at once; the start of a streamed one has an empty input, and pieces follow.
        given = block.get("input")
        arguments = orjson.dumps(given).decode() if given else block.get("partial_json")
        draft.tool_calls.add(
            {"function": {"name": block.get("name"), "arguments": arguments}, "id": block.get("id")}
        )


def _read_finish(reason: Any, draft: ReplyDraft) -> None:
    if isinstance(reason, str) and reason:
        draft.finish = _FINISH_REASONS.get(reason, FinishReason.UNKNOWN)


def headers(api_key: str) -> dict[str, str]:
    return {"anthropic-version": _VERSION, **({"x-api-key": api_key} if api_key else {})}


ANTHROPIC_MESSAGES = Wire(
    completion_path="/messages",
    headers=headers,
    encode=encode,
    decode=decode,
    accumulator=MessageStream,
    # `max_tokens` is required here, so it cannot be given up.
    optional_fields=frozenset({"temperature", "tools", "tool_choice"}),
)
