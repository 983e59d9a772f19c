"""Whether and when the HTTP layer sends again: a pure decision, carried out by `http.py`."""

from __future__ import annotations

from workers.providers.base import RateLimitedError, TransportError

#: First wait after a broken connection; doubles each time.
_TRANSPORT_BASE_SECONDS = 0.5
#: First wait after a 429 that states none; doubles each time.
_RATE_BASE_SECONDS = 1.0
_CEILING_SECONDS = 8.0


def wait_before_retry(error: RateLimitedError | TransportError, *, retry_index: int, jitter: float) -> float:
    """Seconds to wait before retry number `retry_index` (from 0). `jitter` is uniform in [0, 1).

    A stated wait is kept and never shortened; the jitter added to it (at most a second) keeps workers that
    were refused together from returning together. Without a statement: half fixed, half random after a 429,
    all random after a broken connection, where nobody asked us to stay away.
    """
    rate_seconds = min(_CEILING_SECONDS, _RATE_BASE_SECONDS * 2.0**retry_index)
    if isinstance(error, TransportError):
        return jitter * min(_CEILING_SECONDS, _TRANSPORT_BASE_SECONDS * 2.0**retry_index)
    if error.retry_after_seconds is None:
        return rate_seconds * (0.5 + 0.5 * jitter)
    return error.retry_after_seconds + jitter * min(1.0, rate_seconds)


def is_worth_waiting(
    error: RateLimitedError | TransportError,
    *,
    wait_seconds: float,
    max_wait_seconds: float,
    remaining_seconds: float,
) -> bool:
    """False when the worker's slot is better given back: a stated wait above `max_wait_seconds`, or any wait
    that would outlast the call's own deadline and turn a clear refusal into a nameless timeout."""
    stated_seconds = error.retry_after_seconds if isinstance(error, RateLimitedError) else None
    if stated_seconds is not None and stated_seconds > max_wait_seconds:
        return False
    return wait_seconds < remaining_seconds
