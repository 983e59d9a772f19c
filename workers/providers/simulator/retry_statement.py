"""How a provider states a wait, in every grammar met in the wild (`reference/panel.md` §5.4).

The other side, written for itself, is `providers/retry_after.py`; the contract tests let the two meet."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """Headers, a sentence for the message, and fields for the error object; any of them may be empty."""

    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    sentence: str = ""
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)


def go_duration(seconds: float) -> str:
    """`12ms`, `1.5s`, `6m0s`, `1h2m3s`: the reset headers of OpenAI-compatible providers."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    minutes, rest = divmod(round(seconds, 3), 60)
    shown = f"{rest:.3f}".rstrip("0").rstrip(".") + "s"
    if minutes == 0:
        return shown
    hours, minutes = divmod(int(minutes), 60)
    return f"{hours}h{minutes}m{shown}" if hours else f"{minutes}m{shown}"


def rfc3339(epoch_seconds: float) -> str:
    """Whole seconds, rounded up so that nobody comes back too early."""
    return datetime.fromtimestamp(math.ceil(epoch_seconds), UTC).isoformat().replace("+00:00", "Z")


def _http_date(pattern: str) -> Callable[[float, float], Statement]:
    def state(seconds: float, now_epoch_seconds: float) -> Statement:
        moment = datetime.fromtimestamp(math.ceil(now_epoch_seconds + seconds), UTC)
        date = moment.strftime(pattern) if pattern else format_datetime(moment, usegmt=True)
        return Statement(headers={"retry-after": date})

    return state


def _reset(write: Callable[[float, float], str]) -> Callable[[float, float], Statement]:
    """No retry-after: only the reset of a limit with nothing remaining."""

    def state(seconds: float, now_epoch_seconds: float) -> Statement:
        reset = write(seconds, now_epoch_seconds)
        return Statement(headers={"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": reset})

    return state


#: By the name under which a fault script asks for it: from the wait and the time to what is stated.
GRAMMARS: Mapping[str, Callable[[float, float], Statement]] = {
    "seconds": lambda seconds, _: Statement(headers={"retry-after": str(math.ceil(seconds))}),
    "float": lambda seconds, _: Statement(headers={"retry-after": f"{seconds:.3f}"}),
    "milliseconds": lambda seconds, _: Statement(headers={"retry-after-ms": str(math.ceil(seconds * 1000))}),
    "imf-date": _http_date(""),
    "rfc850-date": _http_date("%A, %d-%b-%y %H:%M:%S GMT"),
    "asctime-date": _http_date("%a %b %d %H:%M:%S %Y"),
    "sentence": lambda seconds, _: Statement(sentence=f" Please try again in {go_duration(seconds)}."),
    "retry-info": lambda seconds, _: Statement(
        extra={
            "details": [
                {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{seconds:.3f}s"}
            ]
        }
    ),
    "reset-duration": _reset(lambda seconds, _: go_duration(seconds)),
    "reset-rfc3339": _reset(lambda seconds, now: rfc3339(now + seconds)),
    "reset-epoch": _reset(lambda seconds, now: str(math.ceil(now + seconds))),
    "none": lambda _seconds, _now: Statement(),
}
