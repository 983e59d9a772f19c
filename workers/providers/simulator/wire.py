"""What both wire formats share: a call as the simulator understands it, its reply, and what it refuses.

`openai_wire.py` and `anthropic_wire.py` read and write the bodies (`reference/panel.md` §5.1, §5.2)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, Protocol

import orjson

from workers.providers.simulator.limits import Gauge
from workers.providers.simulator.stand_in import Resolve
from workers.providers.simulator.wire_error import RequestError

WireName = Literal["openai", "anthropic"]

#: How usage is counted and `max_tokens` is honoured: about what English and Python take.
CHARACTERS_PER_TOKEN = 4
#: The oldest `created` of a reply (seconds since 1970): the simulator looks at no clock.
FIRST_CREATED_EPOCH_SECONDS = 1_750_000_000
#: A reply is streamed in at most this many pieces …
MAX_PIECES = 12
#: … none of them shorter than this.
MIN_PIECE_CHARACTERS = 120


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A valid request to `asked_model`, answered by `model`. `max_tokens` None: no limit was asked for."""

    asked_model: str
    model: str
    system: str
    user: str
    prompt_characters: int
    max_tokens: int | None
    is_streamed: bool
    wants_usage: bool


#: A part of a reply that a fault leaves away; "end" is the mark that ends a stream.
Part = Literal["usage", "choices", "end"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """An answer, cut to the call's `max_tokens` if `is_cut`; `digest` (hex) is that of the request.

    What follows is for faults only: thoughts beside the text, a tool call's arguments (JSON, or a part of
    it), a refusal, another word as the finish reason, and what the reply lacks.
    """

    text: str
    is_cut: bool
    input_tokens: int
    output_tokens: int
    digest: str
    reasoning: str = ""
    tool_arguments: str | None = None
    is_refused: bool = False
    finish: str | None = None
    lacks: frozenset[Part] = frozenset()

    @property
    def created_epoch_seconds(self) -> int:
        return FIRST_CREATED_EPOCH_SECONDS + int(self.digest[:6], 16)

    def pieces(self) -> list[str]:
        """The text in the pieces in which it is streamed."""
        size = max(MIN_PIECE_CHARACTERS, math.ceil(len(self.text) / MAX_PIECES))
        return [self.text[start : start + size] for start in range(0, len(self.text), size)]


class Wire(Protocol):
    """One wire format."""

    name: WireName
    request_id_header: str
    overloaded_status: int

    def read(self, body: Mapping[str, Any], resolve: Resolve) -> Call:
        """The call that a body asks for; `resolve` says which model answers. Raises: RequestError."""
        ...

    def document(self, call: Call, reply: Reply) -> dict[str, Any]:
        """The body of a reply that is not streamed."""
        ...

    def parts(self, call: Call, reply: Reply) -> list[bytes]:
        """A streamed reply: what opens it, its pieces one by one, what closes it."""
        ...

    def error(self, error: RequestError) -> dict[str, Any]:
        """The body of a refusal."""
        ...

    def error_part(self, call: Call, reply: Reply, error: RequestError, /) -> bytes:
        """An error in the middle of a stream."""
        ...

    def limit_headers(self, gauges: Sequence[Gauge], now_epoch_seconds: float, /) -> dict[str, str]:
        """The state of the limits, as this format's providers tell it."""
        ...


def reply_to(call: Call, answer: str, *, digest: str) -> Reply:
    """The answer within the call's `max_tokens`, and its usage."""
    limit = len(answer) if call.max_tokens is None else call.max_tokens * CHARACTERS_PER_TOKEN
    text = answer[:limit]
    return Reply(
        text=text,
        is_cut=len(text) < len(answer),
        input_tokens=token_count(call.prompt_characters),
        output_tokens=token_count(len(text)),
        digest=digest,
    )


def token_count(characters: int) -> int:
    return math.ceil(characters / CHARACTERS_PER_TOKEN)


def signed(document: Mapping[str, Any]) -> dict[str, Any]:
    """The document with the mark that every body, chunk and event of the simulator carries."""
    return {**document, "simulated": True}


def sse(document: Mapping[str, Any], *, event: str | None = None) -> bytes:
    """One server-sent event."""
    head = f"event: {event}\n".encode() if event else b""
    return head + b"data: " + orjson.dumps(signed(document)) + b"\n\n"


def read_model(body: Mapping[str, Any]) -> str:
    """The model asked for. Raises: RequestError."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise RequestError("model: a model's name is required", param="model")
    return model


def read_messages(body: Mapping[str, Any], roles: Collection[str]) -> list[tuple[str, str]]:
    """Role and text of each message. Raises: RequestError."""
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise RequestError("messages: at least one message is required", param="messages")
    read: list[tuple[str, str]] = []
    for number, message in enumerate(messages):
        role = message.get("role") if isinstance(message, dict) else None
        if not isinstance(role, str) or role not in roles:
            raise RequestError(
                f"messages.{number}.role: must be one of {', '.join(sorted(roles))}", param="messages"
            )
        read.append((role, read_text(message.get("content"), place=f"messages.{number}.content")))
    return read


def read_text(content: object, *, place: str) -> str:
    """Text, or a list of text blocks, as one string. Raises: RequestError."""
    if isinstance(content, str):
        return content
    blocks = content if isinstance(content, list) else [None]
    texts = [block.get("text") if isinstance(block, dict) else None for block in blocks]
    strings = [text for text in texts if isinstance(text, str)]
    if len(strings) != len(texts):
        raise RequestError(f"{place}: must be text or a list of text blocks", param=place)
    return "".join(strings)


def read_limit(body: Mapping[str, Any], field: str) -> int | None:
    """A limit of tokens, or None if the body states none. Raises: RequestError."""
    value = body.get(field)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise RequestError(f"{field}: must be a whole number of at least 1", param=field)
    return value


def read_flag(body: Mapping[str, Any], field: str) -> bool:
    """A flag that is off where it is missing. Raises: RequestError."""
    value = body.get(field)
    if value is not None and not isinstance(value, bool):
        raise RequestError(f"{field}: must be true or false", param=field)
    return bool(value)


def material_of(messages: list[tuple[str, str]]) -> str:
    """The user message that holds the material: the first with a spec or a file, since what follows it are the caller's
    hints after a torn reply; without any spec the last one. Raises: RequestError if no user speaks."""
    spoken = [text for role, text in messages if role == "user"]
    if not spoken:
        raise RequestError("messages: at least one message of role user is required", param="messages")
    return next(
        (text for text in spoken if text.startswith(("<spec", "<file ")) or "<spec>" in text), spoken[-1]
    )
