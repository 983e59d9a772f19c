"""The one table that turns a refusal into an error class (reference/panel.md §5.4).

Read `RULES` from the top: the first rule that fits decides. Errors inside a 200, as a body or in the middle
of a stream, go through the same table under the status they would have had."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Mapping
from typing import Any

import orjson

from workers.providers.base import (
    AuthenticationError,
    BadRequestError,
    ContextTooLongError,
    MalformedResponseError,
    OverloadedError,
    ProviderError,
    QuotaError,
    RateLimitedError,
    RefusedError,
)
from workers.providers.error_body import ErrorBody, parse_error_body, read_error
from workers.providers.retry_after import retry_after_seconds


class FieldRefusedError(BadRequestError):
    """A 400 or 422 that names an optional field we sent: the same request without it may pass."""

    def __init__(self, message: str, *, status: int | None, field: str) -> None:
        super().__init__(message, status=status)
        self.field = field


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Fits when every condition given holds: the status is listed, the body carries one of the words, its
    message matches, a wait is stated."""

    error: type[ProviderError]
    statuses: Collection[int] = range(300, 600)
    words: frozenset[str] = frozenset()
    message: re.Pattern[str] | None = None
    needs_stated_wait: bool = False

    def fits(self, status: int, body: ErrorBody, wait_seconds: float | None) -> bool:
        return (
            status in self.statuses
            and (not self.words or not self.words.isdisjoint(body.words))
            and (self.message is None or self.message.search(body.message) is not None)
            and (wait_seconds is not None or not self.needs_stated_wait)
        )


def _any_of(*phrases: str) -> re.Pattern[str]:
    return re.compile("|".join(phrases), re.IGNORECASE)


_CLIENT_FAULTS = (400, 403, 422)

RULES = (
    # OpenRouter: a 402 with Retry-After is a passing shortage, whatever its body calls it.
    Rule(error=RateLimitedError, statuses=(402,), needs_stated_wait=True),
    # A 429 for an empty account looks like a rate limit and never ends; only the code tells. (The message
    # does not: Gemini says "exceeded your current quota" for its ordinary per-minute limit.)
    Rule(error=QuotaError, words=frozenset({"insufficient_quota", "billing_not_active"})),
    Rule(error=QuotaError, words=frozenset({"billing_hard_limit_reached", "billing_error"})),
    # Without a stated wait it is an account without credit.
    Rule(error=QuotaError, statuses=(402,)),
    Rule(error=RateLimitedError, statuses=(429,)),
    # Anthropic answers 400 when a spend limit is reached or the balance is gone.
    Rule(
        error=QuotaError,
        statuses=_CLIENT_FAULTS,
        message=_any_of(
            "credit balance", "spend(ing)? limit", r"api usage limits?", "insufficient (funds|balance)"
        ),
    ),
    Rule(error=ContextTooLongError, statuses=(413,)),
    Rule(
        error=ContextTooLongError,
        statuses=_CLIENT_FAULTS,
        words=frozenset(
            {
                *("context_length_exceeded", "string_above_max_length", "request_too_large"),
                "exceed_context_size_error",
            }
        ),
    ),
    Rule(
        error=ContextTooLongError,
        statuses=_CLIENT_FAULTS,
        message=_any_of(
            "context (length|window|size|limit)",
            "(prompt|input) is too (long|large)",
            "maximum (prompt|input) length",
            "exceeds? the maximum number of tokens",
            "reduce the length of",
        ),
    ),
    Rule(
        error=RefusedError,
        statuses=_CLIENT_FAULTS,
        words=frozenset({"content_filter", "content_policy_violation", "moderation_blocked"}),
    ),
    Rule(
        error=RefusedError,
        statuses=_CLIENT_FAULTS,
        message=_any_of(
            "violates? (our |the )?(usage|content)", "flagged by moderation", "requires moderation"
        ),
    ),
    # Gemini answers 400, not 401, to a wrong key.
    Rule(error=AuthenticationError, statuses=(400,), words=frozenset({"api_key_invalid"})),
    Rule(error=AuthenticationError, statuses=(400,), message=_any_of("api key not valid", "invalid api key")),
    Rule(error=AuthenticationError, statuses=(401, 403)),
    # 408, 409 and 425 say "not now", as 5xx does.
    Rule(error=OverloadedError, statuses=(408, 409, 425)),
    Rule(error=OverloadedError, statuses=range(500, 600)),
    Rule(error=BadRequestError, statuses=range(300, 500)),
)

#: The status that an error inside a 200 would have had, by its type or code. An unknown word counts as 500:
#: the provider accepted the request and then failed.
_STATUS_BY_WORD = {
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "resource_exhausted": 429,
    "invalid_request_error": 400,
    "invalid_argument": 400,
    "bad_request": 400,
    "context_length_exceeded": 400,
    "content_filter": 400,
    "content_policy_violation": 400,
    "authentication_error": 401,
    "unauthenticated": 401,
    "invalid_api_key": 401,
    "permission_error": 403,
    "permission_denied": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "timeout_error": 504,
    "unavailable": 503,
    "overloaded_error": 529,
}


def classify(
    status: int, headers: Mapping[str, str], body: bytes, *, now_epoch_seconds: float
) -> ProviderError:
    """The error that an answer other than 200 means. Never raises. `headers` may be in any case."""
    detail = parse_error_body(body)
    lowered = {name.lower(): value for name, value in headers.items()}
    # Reset headers stand on every answer; only a refusal means them as a wait.
    stating = lowered if status < 500 else {n: v for n, v in lowered.items() if "ratelimit" not in n}
    wait_seconds = retry_after_seconds(stating, body, now_epoch_seconds=now_epoch_seconds)
    message = f"HTTP {status}: {detail.message or 'no explanation'}"
    if 300 <= status < 400:
        message = f"HTTP {status}: redirected to {lowered.get('location', 'nowhere')}; correct the base URL"
    request_id = lowered.get("x-request-id") or lowered.get("request-id")
    if request_id:
        message += f" (request {request_id})"
    return _first_fit(status, detail, wait_seconds, message)


def classify_embedded(document: Any) -> ProviderError:
    """The error that an `error` inside a 200 means; `document` is the reply, chunk or `error` object."""
    detail = read_error(document)
    status = detail.code if detail.code in range(400, 600) else None
    if status is None:
        status = next((code for word, code in _STATUS_BY_WORD.items() if word in detail.words), 500)
    # The formats are pure and know no time, so a wait is read here and a moment is not.
    wait_seconds = retry_after_seconds({}, orjson.dumps(document), now_epoch_seconds=None)
    return _first_fit(status, detail, wait_seconds, f"error inside a 200: {detail.message}")


def _first_fit(status: int, detail: ErrorBody, wait_seconds: float | None, message: str) -> ProviderError:
    rule = next((rule for rule in RULES if rule.fits(status, detail, wait_seconds)), None)
    if rule is None:
        return MalformedResponseError(message, status=status)
    if issubclass(rule.error, (RateLimitedError, OverloadedError)):
        return rule.error(message, status=status, retry_after_seconds=wait_seconds)
    return rule.error(message, status=status)


def refused_field(body: bytes, optional_fields: Collection[str]) -> str | None:
    """The optional field that a 400 or 422 complains about, or None.

    Only fields in `optional_fields` (those this request sent and could do without) are looked for, so that
    "use 'max_completion_tokens' instead" does not name the field we did not send.
    """
    detail = parse_error_body(body)
    for name in detail.fields:
        if name in optional_fields:
            return name
    for name in optional_fields:
        if re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", detail.message):
            return name
    return None
