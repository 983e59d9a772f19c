"""Provider-neutral values of one model call: what is asked and what comes back."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]


class FinishReason(StrEnum):
    """Why the model stopped, in the OpenAI vocabulary; `unknown` covers words we have not met."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    REFUSAL = "refusal"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ToolSpec:
    """A tool that a model may call. `parameters` is the JSON Schema of its arguments."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """A call that a model asks for. `arguments` is JSON as the model wrote it, perhaps wrong; `extra` is what the
    provider attached and wants to see again (Gemini's thought signature)."""

    call_id: str
    name: str
    arguments: str
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """`is_shared_prefix`: everything up to and including this message is the same for all seats of a stage, so
    a provider that caches by mark is told to keep it.

    `tool_calls` (of the assistant, with the `reasoning` that led to them) are answered by messages of role `tool`,
    one a call, with its `call_id`.
    """

    role: Role
    content: str
    is_shared_prefix: bool = False
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    call_id: str = ""
    is_error: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CompletionRequest:
    """One question to one model. `timeout_seconds` bounds the whole call, waiting for tokens included."""

    model: str
    messages: tuple[Message, ...]
    max_tokens: int
    temperature: float | None = None
    timeout_seconds: float = 120.0
    json_mode: bool = False
    stream: bool = False
    #: Tools on offer. Where calls were made they stay in the request to its end, callable or not.
    tools: tuple[ToolSpec, ...] = ()
    may_call_tools: bool = True

    def texts(self) -> Iterator[str]:
        """Everything that is sent for the model to read, message by message."""
        for message in self.messages:
            calls = [f"{call.name} {call.arguments}" for call in message.tool_calls]
            yield "\n".join([message.content, *calls])
        for tool in self.tools:
            yield f"{tool.name} {tool.description} {json.dumps(dict(tool.parameters))}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens as the provider bills them. Input includes what was read from the provider's cache
    (`cached_input_tokens`, cheaper) and what was written to it (`cache_write_input_tokens`, dearer).
    `is_estimated`: the provider sent none (a cut stream, a careless gateway) and we counted characters instead."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    is_estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cached_input_tokens=self.cached_input_tokens + other.cached_input_tokens,
            cache_write_input_tokens=self.cache_write_input_tokens + other.cache_write_input_tokens,
            is_estimated=self.is_estimated or other.is_estimated,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """One answer. `is_simulated` is read from the reply itself, never from settings."""

    text: str
    model_served: str
    finish_reason: FinishReason
    usage: Usage
    reasoning: str = ""
    is_simulated: bool = False
    request_id: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
