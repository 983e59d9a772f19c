"""What the rate-limit headers of an answer say is left (reference/panel.md §5.2, §5.3). Pure; never raises.

Any answer carries them, not only a refusal: read early enough, they make refusals rare."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

from workers.governor.base import Headroom
from workers.providers.retry_after import ONE_DAY_SECONDS, reset_seconds


@dataclasses.dataclass(frozen=True, slots=True)
class _Spelling:
    """One way to write a limit's two headers; `{}` stands for "remaining" and for "reset". `window_seconds`:
    the name says over what time the limit runs, for those who send no reset."""

    name: str
    window_seconds: float | None = None


#: The first spelling that states what is left is believed.
_REQUESTS = (
    _Spelling("anthropic-ratelimit-requests-{}"),
    # OpenAI, xAI and their imitators; Groq's requests are those of the day, and its reset says so.
    _Spelling("x-ratelimit-{}-requests"),
    # Mistral
    _Spelling("x-ratelimit-{}-req-minute", 60.0),
    _Spelling("x-ratelimit-{}-requests-minute", 60.0),
    # OpenRouter (moments in milliseconds since 1970), and the standard's draft
    _Spelling("x-ratelimit-{}"),
    _Spelling("ratelimit-{}"),
)
_INPUT_TOKENS = (
    _Spelling("anthropic-ratelimit-input-tokens-{}"),
    _Spelling("x-ratelimit-{}-input-tokens"),
    _Spelling("x-ratelimit-{}-tokens-prompt"),
    # Tokens of both sides together: whatever is left, a prompt has to fit into it.
    _Spelling("anthropic-ratelimit-tokens-{}"),
    _Spelling("x-ratelimit-{}-tokens"),
    _Spelling("x-ratelimit-{}-tokens-minute", 60.0),
    _Spelling("ratelimitbysize-{}"),
)
_OUTPUT_TOKENS = (
    _Spelling("anthropic-ratelimit-output-tokens-{}"),
    _Spelling("x-ratelimit-{}-output-tokens"),
    _Spelling("x-ratelimit-{}-tokens-generated"),
)
#: More digits than any real limit has are somebody's "unlimited".
_COUNT = re.compile(r"([0-9]{1,12})(?:\.0*)?")


def read_headroom(headers: Mapping[str, str], *, now_epoch_seconds: float) -> Headroom | None:
    """What is left of requests and tokens, or None if the headers say nothing that can be read.

    `headers` may be in any case. A negative or absurd count, and a reset more than a day away, count as not
    said; a reset that has passed is 0.
    """
    lowered = {name.lower(): value.strip() for name, value in headers.items() if "ratelimit" in name.lower()}
    if not lowered:
        return None
    requests, requests_reset = _left(lowered, _REQUESTS, now_epoch_seconds)
    input_tokens, input_reset = _left(lowered, _INPUT_TOKENS, now_epoch_seconds)
    output_tokens, output_reset = _left(lowered, _OUTPUT_TOKENS, now_epoch_seconds)
    if requests is None and input_tokens is None and output_tokens is None:
        return None
    return Headroom(
        requests_remaining=requests,
        requests_reset_seconds=requests_reset,
        input_tokens_remaining=input_tokens,
        input_tokens_reset_seconds=input_reset,
        output_tokens_remaining=output_tokens,
        output_tokens_reset_seconds=output_reset,
    )


def _left(
    headers: Mapping[str, str], spellings: Sequence[_Spelling], now: float
) -> tuple[int | None, float | None]:
    """(what is left, seconds to the reset) of one limit."""
    for spelling in spellings:
        count = _COUNT.fullmatch(headers.get(spelling.name.format("remaining"), ""))
        if count:
            stated = reset_seconds(headers.get(spelling.name.format("reset"), ""), now)
            wait = spelling.window_seconds if stated is None else max(stated, 0.0)
            return int(count.group(1)), None if wait is None or wait > ONE_DAY_SECONDS else wait
    return None, None
