"""Provider-neutral values of one model call: what is asked and what comes back."""

from __future__ import annotations

import dataclasses
from enum import StrEnum
from typing import Literal

Role = Literal["system", "user", "assistant"]


class FinishReason(StrEnum):
    """Why the model stopped, in the OpenAI vocabulary; `unknown` covers words we have not met."""

    STOP = "stop"
    LENGTH = "length"
    TOOL_CALLS = "tool_calls"
    REFUSAL = "refusal"
    UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    role: Role
    content: str


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


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Tokens as the provider bills them; input includes what was read from and written to a cache.
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
