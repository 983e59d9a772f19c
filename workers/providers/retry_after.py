"""How long a refusal asks us to wait, in every grammar met in the wild (reference/panel.md §5.4).

Pure: the time is passed in. Nothing here raises: a header is somebody else's text, and a wait that cannot
be read is no wait (None), for which the caller has its own schedule."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

#: Longer statements are believed only this far: an absurd date must not park work for a year.
ONE_DAY_SECONDS = 86_400.0
#: Hints stand at the front of an error body; the rest of a large page is not searched.
_HINT_SEARCH_CHARACTERS = 65_536

_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?")
_UNIT = r"milliseconds?|ms|us|µs|ns|days?|d|hours?|h|minutes?|m|seconds?|s"
#: The lookahead keeps "5 more times" from being read as five minutes.
_DURATION_PART = re.compile(rf"([0-9]+(?:\.[0-9]+)?) ?({_UNIT})(?![a-zµ])", re.IGNORECASE)
_DURATION = re.compile(rf"(?:{_DURATION_PART.pattern} ?)+", re.IGNORECASE)
_SECONDS_BY_UNIT = {
    "ns": 1e-9,
    "us": 1e-6,
    "µs": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
    "d": 86_400.0,
}
_BODY_HINTS = (
    # "Please try again in 5.289s", "Please retry in 34.07s", "Please retry after 26 seconds"
    re.compile(rf"(?:try again|retry) (?:in|after) ({_DURATION.pattern})", re.IGNORECASE),
    # google.rpc.RetryInfo: "retryDelay": "34s"
    re.compile(r'"retryDelay"\s*:\s*"([0-9.]+s)"'),
    # "retry_after": 5, "retry_after_seconds": 5.5
    re.compile(r'"retry_after(?:_seconds)?"\s*:\s*"?([0-9]+(?:\.[0-9]+)?)[",\s}]', re.IGNORECASE),
)
#: OpenRouter copies the reset header of whoever refused into its body, in milliseconds since 1970.
_BODY_RESET = re.compile(r'"X-RateLimit-Reset"\s*:\s*"?([0-9]{1,20})[",\s}]', re.IGNORECASE)


def retry_after_seconds(
    headers: Mapping[str, str],
    body: bytes,
    *,
    now_epoch_seconds: float | None,
    cap_seconds: float = ONE_DAY_SECONDS,
) -> float | None:
    """The wait a refusal states, clamped to [0, cap_seconds], or None if it states none that can be read.

    The most precise statement wins: `retry-after-ms`, `retry-after` (number, duration, HTTP date, RFC 3339), a
    hint in the body, then the reset headers of limits. Without a time (None), moments cannot be read.
    """
    lowered = {name.lower(): value.strip() for name, value in headers.items()}
    wait_seconds = _first_stated(lowered, body, now_epoch_seconds)
    return None if wait_seconds is None else min(max(wait_seconds, 0.0), cap_seconds)


def _first_stated(headers: Mapping[str, str], body: bytes, now: float | None) -> float | None:
    milliseconds = _number(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000.0
    stated = headers.get("retry-after", "")
    text = body[:_HINT_SEARCH_CHARACTERS].decode("utf-8", errors="replace")
    waits = [_number(stated), _duration(stated)]
    if now is not None:
        waits += [_until_http_date(stated, now), _until_rfc3339(stated, now)]
    waits.append(_body_hint(text))
    if now is not None:
        waits += [_until_reset(headers, now), _body_reset(text, now)]
    return next((wait for wait in waits if wait is not None), None)


def _number(text: str) -> float | None:
    # float() alone would also take "nan", "1_000" and Arabic digits.
    return float(text) if _NUMBER.fullmatch(text) else None


def _until_http_date(text: str, now: float) -> float | None:
    """The three grammars of RFC 9110 §5.6.7: IMF-fixdate, RFC 850, asctime."""
    try:
        moment = parsedate_to_datetime(text)
        return _epoch_seconds(moment) - now
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def _until_rfc3339(text: str, now: float) -> float | None:
    try:
        return _epoch_seconds(datetime.fromisoformat(text)) - now
    except (ValueError, OverflowError):
        return None


def _epoch_seconds(moment: datetime) -> float:
    # A date without a zone (asctime has none) is GMT by definition, not this machine's zone.
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    return aware.timestamp()


def _duration(text: str) -> float | None:
    """`6m0s`, `12ms`, `1h2m3.5s`, `26 seconds`."""
    if not _DURATION.fullmatch(text):
        return None
    return sum(
        float(amount) * _unit_seconds(unit.lower()) for amount, unit in _DURATION_PART.findall(text.lower())
    )


def _unit_seconds(unit: str) -> float:
    if unit.startswith("milli"):
        return 1e-3
    return _SECONDS_BY_UNIT.get(unit) or _SECONDS_BY_UNIT[unit[0]]


def _body_hint(text: str) -> float | None:
    for hint in _BODY_HINTS:
        found = hint.search(text)
        if found:
            stated = found.group(1)
            number = _number(stated)
            return _duration(stated) if number is None else number
    return None


def _body_reset(text: str, now: float) -> float | None:
    found = _BODY_RESET.search(text)
    return reset_seconds(found.group(1), now) if found else None


def _until_reset(headers: Mapping[str, str], now: float) -> float | None:
    """When the limit that stopped us refills.

    Providers send one reset per limit (requests, tokens). The limits with nothing remaining are what we wait
    for, all of them; when none says so, the earliest reset is the first moment at which anything changes.
    """
    waits_exhausted: list[float] = []
    waits_other: list[float] = []
    for name, value in headers.items():
        if "ratelimit" not in name or "reset" not in name:
            continue
        wait = reset_seconds(value, now)
        if wait is not None:
            remaining = _number(headers.get(name.replace("reset", "remaining"), ""))
            (waits_exhausted if remaining == 0.0 else waits_other).append(wait)
    if waits_exhausted:
        return max(waits_exhausted)
    return min(waits_other, default=None)


def reset_seconds(text: str, now: float) -> float | None:
    """Seconds from `now` (epoch) to a reset stated as a duration, as seconds, as a moment since 1970 (seconds or
    milliseconds) or as RFC 3339; not clamped. None if it cannot be read."""
    number = _number(text)
    if number is not None:
        # No limit resets in thirty years: a number that large is a point in time.
        if number >= 1e12:
            return number / 1000.0 - now
        return number - now if number >= 1e9 else number
    duration = _duration(text)
    return duration if duration is not None else _until_rfc3339(text, now)
