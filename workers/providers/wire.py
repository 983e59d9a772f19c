"""What a wire format must bring. One format is one module of pure functions and one `Wire` at its end."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Protocol

from workers.core.reply import Completion, CompletionRequest
from workers.providers.compat import Compat
from workers.providers.reply_draft import ReplyDraft, mapping, parse_json
from workers.providers.sse import SseEvent


class StreamAccumulator(Protocol):
    """Builds one reply from its events."""

    draft: ReplyDraft
    #: The format's own end mark was seen; nothing that matters follows.
    is_done: bool

    def feed(self, event: SseEvent) -> None:
        """Raises: ProviderError for an error event or chunk; MalformedResponseError."""
        ...


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Wire:
    """`encode` gives the JSON body; `decode` reads a whole 200 body and raises ProviderError; `headers`
    carry the key ("" for none). `optional_fields` may be dropped when a provider refuses them."""

    completion_path: str
    headers: Callable[[str], dict[str, str]]
    encode: Callable[[CompletionRequest, Compat], dict[str, Any]]
    decode: Callable[[bytes, CompletionRequest], Completion]
    accumulator: Callable[[], StreamAccumulator]
    optional_fields: frozenset[str]


def decode_model_list(body: bytes) -> tuple[str, ...]:
    """The ids of `GET /models` in the provider's order; both formats and bare arrays.

    Raises: MalformedResponseError.
    """
    document = parse_json(body, "list of models")
    entries = document if isinstance(document, list) else mapping(document).get("data")
    ids = [mapping(entry).get("id") for entry in entries] if isinstance(entries, list) else []
    return tuple(dict.fromkeys(name for name in ids if isinstance(name, str) and name))
