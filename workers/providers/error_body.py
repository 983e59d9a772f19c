"""What an error body says, whichever way it is written (reference/panel.md §5.1).

Grammars met: `{"error": {...}}` (OpenAI and most), the same in an array (Gemini), `{"error": "text"}`
(Ollama), `{"detail": [{"loc", "msg", "type"}]}` (Mistral), `{"object": "error", "message"}` (vLLM),
`{"type": "error", "error": {...}}` (Anthropic), a page of HTML (whatever stands in between), plain text."""

from __future__ import annotations

import dataclasses
import html
import re
from collections.abc import Iterable
from typing import Any

import orjson

_MESSAGE_CHARACTERS = 300
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ErrorBody:
    """`words` are the codes, types and statuses it carries, in lower case; `code` a numeric one, if any;
    `fields` the request fields it names apart from the message."""

    message: str
    words: frozenset[str] = frozenset()
    code: int | None = None
    fields: tuple[str, ...] = ()


def parse_error_body(body: bytes) -> ErrorBody:
    """Never raises: what cannot be read becomes the message itself, shortened."""
    try:
        return read_error(orjson.loads(body))
    except orjson.JSONDecodeError:
        return ErrorBody(message=one_line(_page_text(body.decode("utf-8", errors="replace"))))


def read_error(document: Any) -> ErrorBody:
    """Of a JSON document: an error body, or the value of `error` inside a reply or a stream."""
    if isinstance(document, list):
        document = next((entry for entry in document if isinstance(entry, dict)), {})
    if not isinstance(document, dict):
        return ErrorBody(message=one_line(str(document)))
    error = document.get("error") or document
    if not isinstance(error, dict):
        return ErrorBody(
            message=one_line(str(error)), words=_words([document.get("type"), document.get("code")])
        )
    details = error.get("detail")
    if isinstance(details, list):
        return _read_detail_list(details)
    code = error.get("code")
    message = error.get("message") or error.get("msg") or details or orjson.dumps(error).decode()
    return ErrorBody(
        message=one_line(str(message)),
        words=_words([code, error.get("type"), error.get("status"), *_reasons(error.get("details"))]),
        code=_numeric_code(code),
        fields=_top_level_names([error.get("param")]),
    )


def _read_detail_list(details: list[Any]) -> ErrorBody:
    entries = [entry for entry in details if isinstance(entry, dict)]
    locations = [entry["loc"] for entry in entries if isinstance(entry.get("loc"), list)]
    sentences = [
        f"{entry.get('msg', '')} at {'.'.join(str(step) for step in entry.get('loc') or ['?'])}"
        for entry in entries
    ]
    return ErrorBody(
        message=one_line("; ".join(sentences) or str(details)),
        words=_words([entry.get("type") for entry in entries]),
        # ["body", "stream_options"] or ["body", "messages", 0, "role"]: the step after "body" is ours.
        fields=_top_level_names(
            [next((step for step in steps if step != "body"), None) for steps in locations]
        ),
    )


def _reasons(details: Any) -> list[Any]:
    """google.rpc.ErrorInfo carries the precise word in `details[].reason`."""
    return (
        [entry.get("reason") for entry in details if isinstance(entry, dict)]
        if isinstance(details, list)
        else []
    )


def _words(values: Iterable[Any]) -> frozenset[str]:
    return frozenset(value.lower() for value in values if isinstance(value, str))


def _numeric_code(code: Any) -> int | None:
    if isinstance(code, str) and code.isascii() and code.isdigit() and len(code) == 3:
        return int(code)
    return code if isinstance(code, int) and not isinstance(code, bool) else None


def _top_level_names(values: Iterable[Any]) -> tuple[str, ...]:
    return tuple(re.split(r"[.\[]", value)[0] for value in values if isinstance(value, str) and value)


def _page_text(text: str) -> str:
    if "<html" not in text[:2000].lower() and "<!doctype" not in text[:2000].lower():
        return text
    title = _TITLE.search(text)
    return f"an HTML page titled “{html.unescape(title.group(1)).strip()}”" if title else "an HTML page"


def one_line(text: str) -> str:
    """For messages that go to a log line and a table cell: white space folded, length bounded."""
    folded = " ".join(text[: 4 * _MESSAGE_CHARACTERS].split())
    return folded if len(folded) <= _MESSAGE_CHARACTERS else folded[: _MESSAGE_CHARACTERS - 1] + "…"
