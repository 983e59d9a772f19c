"""A reply while it is being read: filled from a whole body or from stream events, then judged once.

Both wire formats end here, so that an empty, refused or uncounted reply means the same whoever sent it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import orjson

from workers.core.reply import Completion, CompletionRequest, FinishReason, Usage
from workers.providers.base import EmptyReplyError, MalformedResponseError, RefusedError, TransportError
from workers.providers.error_body import parse_error_body
from workers.providers.tool_call_pieces import ToolCallPieces

#: Where a provider does not count, we do: about four characters a token in English prose and code.
CHARACTERS_PER_TOKEN = 4


@dataclasses.dataclass(slots=True, kw_only=True)
class ReplyDraft:
    """Token counts are None until the provider states them; `finish` is None until it says why it stopped.

    `has_hidden_reasoning`: tokens were billed for thinking that is not shown.
    """

    text: list[str] = dataclasses.field(default_factory=list)
    reasoning: list[str] = dataclasses.field(default_factory=list)
    refusal: list[str] = dataclasses.field(default_factory=list)
    finish: FinishReason | None = None
    model: str = ""
    request_id: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_input_tokens: int = 0
    cache_write_input_tokens: int = 0
    has_hidden_reasoning: bool = False
    tool_calls: ToolCallPieces = dataclasses.field(default_factory=ToolCallPieces)
    is_simulated: bool = False

    @property
    def has_begun(self) -> bool:
        """The model was set to work: something of the reply itself has come, if not a word of it."""
        return bool(self.model or self.request_id) or self.input_tokens is not None or self.has_output

    @property
    def pieces(self) -> int:
        """Grows with every token that comes, shown or thought."""
        return len(self.text) + len(self.reasoning) + len(self.refusal) + self.tool_calls.characters

    @property
    def has_output(self) -> bool:
        return bool(self.text or self.reasoning or self.refusal or self.tool_calls)

    def see_marker(self, document: dict[str, Any]) -> None:
        """The simulator signs each body and event; nothing else may call a reply simulated."""
        if document.get("simulated") is True:
            self.is_simulated = True

    def spent(self, request: CompletionRequest) -> Usage:
        """What this reply cost so far: the provider's counts, our estimate (marked) where it gave none."""
        characters_out = sum(map(len, (*self.text, *self.reasoning, *self.refusal)))
        characters_out += self.tool_calls.characters
        guess = estimated_usage(request, characters_out)
        is_stated = self.input_tokens is not None and self.output_tokens is not None
        return Usage(
            input_tokens=guess.input_tokens if self.input_tokens is None else self.input_tokens,
            output_tokens=guess.output_tokens if self.output_tokens is None else self.output_tokens,
            cached_input_tokens=self.cached_input_tokens,
            cache_write_input_tokens=self.cache_write_input_tokens,
            is_estimated=not is_stated,
        )

    def completion(self, request: CompletionRequest) -> Completion:
        """The finished reply. A truncated one (`FinishReason.LENGTH`) with text is returned: the caller knows
        whether half an answer is worth anything.

        Raises: RefusedError; EmptyReplyError.
        """
        usage = self.spent(request)
        if self.finish is FinishReason.TOOL_CALLS and self._is_cut_tool_call(request):
            self.finish = FinishReason.LENGTH
        text, reasoning, refusal = ("".join(pieces) for pieces in (self.text, self.reasoning, self.refusal))
        if refusal or self.finish is FinishReason.REFUSAL:
            raise RefusedError(
                f"the model declined: {refusal or text or 'no reason given'}"[:300], usage=usage
            )
        calls = () if self.finish is FinishReason.LENGTH or not request.tools else self.tool_calls.calls
        if not text.strip() and not calls:
            self._raise_empty(reasoning, usage)
        return Completion(
            text=text,
            model_served=self.model or request.model,
            finish_reason=self.finish or FinishReason.UNKNOWN,
            usage=usage,
            reasoning=reasoning,
            is_simulated=self.is_simulated,
            request_id=self.request_id,
            tool_calls=calls,
        )

    def _is_cut_tool_call(self, request: CompletionRequest) -> bool:
        """vLLM says "tool_calls" even where the limit cut the call short."""
        is_at_limit = self.output_tokens is not None and self.output_tokens >= request.max_tokens
        return is_at_limit and self.tool_calls.has_torn_arguments

    def streamed_completion(self, request: CompletionRequest) -> Completion:
        """As `completion`, for a stream at its end, where no finish reason means that the rest is missing.

        Raises: TransportError besides.
        """
        if self.finish is None:
            length = sum(map(len, self.text))
            raise TransportError(f"the stream ended after {length} characters without a finish reason")
        return self.completion(request)

    def _raise_empty(self, reasoning: str, usage: Usage) -> None:
        if self.tool_calls:
            what = "was cut off while calling" if self.finish is FinishReason.LENGTH else "called"
            raise EmptyReplyError(
                f"the model {what} a tool; none was offered, and there is no text", usage=usage
            )
        # A budget used up without a word of text went into thinking, shown or not.
        if reasoning or self.has_hidden_reasoning or self.finish is FinishReason.LENGTH:
            raise EmptyReplyError(
                "thinking used the whole output budget before the first word; raise max_tokens",
                usage=usage,
                reasoning_only=True,
            )
        raise EmptyReplyError("the reply holds no text", usage=usage)


def estimated_usage(request: CompletionRequest, characters_out: int) -> Usage:
    """What a call cost that nobody counted: by its characters, and marked."""
    characters_in = sum(map(len, request.texts()))
    return Usage(
        input_tokens=_estimate(characters_in), output_tokens=_estimate(characters_out), is_estimated=True
    )


def _estimate(characters: int) -> int:
    return math.ceil(characters / CHARACTERS_PER_TOKEN)


def parse_json(raw: bytes | str, what: str) -> Any:
    """JSON from the wire. `what` names it in the error. Raises: MalformedResponseError."""
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        encoded = raw.encode("utf-8", errors="replace") if isinstance(raw, str) else raw
        shown = parse_error_body(encoded).message
        raise MalformedResponseError(f"the {what} is not JSON: {shown or 'it is empty'}") from None


def token_count(value: Any) -> int | None:
    """A count as providers send it; anything that is not a natural number is no count."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def mapping(value: Any) -> dict[str, Any]:
    """`value` if it is a JSON object, else an empty one: optional parts of replies may be null or absent."""
    return value if isinstance(value, dict) else {}
