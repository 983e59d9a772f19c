"""From what a provider promises to what we ask of a store: pure arithmetic.

A provider counts arrivals; we space starts. A call that starts late arrives late, so any 60 s of arrivals hold
the starts of slightly more than 60 s, plus whatever may start at once. The published limit must cover both."""

from __future__ import annotations

import dataclasses
import math
from typing import Final

from workers.governor.base import Headroom, Limits, Pace, Signal

ARRIVAL_JITTER_SECONDS: Final = 0.6
"""How unevenly evenly spaced calls may arrive; costs 1 % of every rate."""
_MINUTE_SECONDS: Final = 60.0
_KEPT: Final = _MINUTE_SECONDS / (_MINUTE_SECONDS + ARRIVAL_JITTER_SECONDS)
TOKENS_KEPT_BACK: Final = 0.03
"""Share of a token limit for calls that use more than was expected: what they owe is paid a little later."""
LONGEST_BLOCK_SECONDS: Final = 3600.0
"""A header that names a day may be a mistake: after an hour one call finds out."""


def paced(limits: Limits) -> Limits:
    """The limits to space starts by, so that no 60 s of arrivals exceed the given ones.

    With n = `requests_per_minute` and burst b, spacing n - (b - 1) a minute lets at most n start in any 60 s."""
    per_minute, burst = limits.requests_per_minute, limits.burst
    if per_minute is not None:
        burst = max(1, min(burst, math.floor(per_minute)))
        per_minute = (per_minute - (burst - 1)) * _KEPT
    return dataclasses.replace(
        limits,
        requests_per_minute=per_minute,
        input_tokens_per_minute=_tokens_kept(limits.input_tokens_per_minute),
        output_tokens_per_minute=_tokens_kept(limits.output_tokens_per_minute),
        burst=burst,
    )


def _tokens_kept(rate: float | None) -> float | None:
    return None if rate is None else rate * _KEPT * (1 - TOKENS_KEPT_BACK)


def signal_of(headroom: Headroom) -> Signal:
    """Nothing left: nobody starts until the reset. Something left: it is spread evenly until the reset.

    A pace slower than the limit's own takes effect; a faster one never does, so plenty left changes nothing."""
    sides = (
        (headroom.requests_remaining, headroom.requests_reset_seconds),
        (headroom.input_tokens_remaining, headroom.input_tokens_reset_seconds),
        (headroom.output_tokens_remaining, headroom.output_tokens_reset_seconds),
    )
    block_seconds, paces = 0.0, list[Pace | None]()
    for remaining, reset_seconds in sides:
        pace = None
        if remaining is not None and reset_seconds is not None and 0 < reset_seconds < math.inf:
            seconds = min(reset_seconds, LONGEST_BLOCK_SECONDS)
            if remaining <= 0:
                block_seconds = max(block_seconds, seconds)
            else:
                pace = Pace(unit_seconds=seconds / remaining, seconds=seconds)
        paces.append(pace)
    requests, input_tokens, output_tokens = paces
    return Signal(
        block_seconds=block_seconds,
        requests=requests,
        input_tokens=input_tokens,
        output_tokens=output_tokens,
    )


def binds(signal: Signal, limits: Limits) -> bool:
    """Whether it slows anybody down who keeps to these limits."""
    spaced = paced(limits)
    sides = (
        (signal.requests, spaced.requests_per_minute),
        (signal.input_tokens, spaced.input_tokens_per_minute),
        (signal.output_tokens, spaced.output_tokens_per_minute),
    )
    return (
        signal.block_seconds > 0
        or signal.is_overload
        or any(
            pace is not None and (per_minute is None or pace.unit_seconds > _MINUTE_SECONDS / per_minute)
            for pace, per_minute in sides
        )
    )


def bounded_block(seconds: float) -> float:
    """A block length that can be used: nan and negative become 0, endless becomes `LONGEST_BLOCK_SECONDS`."""
    return min(seconds, LONGEST_BLOCK_SECONDS) if seconds > 0 else 0.0
