"""How long a simulated reply takes: a function of the request's digest, so that a run can be repeated.

The total is the time to a reply's last byte. A stream also has a time to its first piece, drawn from another
part of the digest: a slow model is not always slow to begin."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from statistics import NormalDist

from workers.errors import InputError

MIN_LATENCY_SECONDS = 0.2
MAX_LATENCY_SECONDS = 1.2
#: No drawn latency is longer: the tail of a lognormal has no end, and a call's deadline is shorter.
LONGEST_DRAWN_SECONDS = 3600.0
#: The share of a streamed reply's latency that passes before its first piece, where nothing else is said.
FIRST_PIECE_SHARE = 0.5

#: From a digest (24 hex digits) to seconds.
Latency = Callable[[str], float]

_STANDARD_NORMAL = NormalDist()
#: The 95th percentile of the standard normal distribution.
_Z95 = _STANDARD_NORMAL.inv_cdf(0.95)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """When a reply's first piece and its end are due, in seconds after the request: first ≤ total."""

    first_seconds: float
    total_seconds: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The latency of replies. `first` is the time to a stream's first piece; None: half of the total."""

    total: Latency
    first: Latency | None = None

    def pace(self, digest: str) -> Pace:
        total_seconds = self.total(digest)
        if self.first is None:
            return Pace(first_seconds=total_seconds * FIRST_PIECE_SHARE, total_seconds=total_seconds)
        # The digest turned round, so that the two draws do not move together.
        first_seconds = min(self.first(digest[::-1]), total_seconds)
        return Pace(first_seconds=first_seconds, total_seconds=total_seconds)


def spread_latency(digest: str) -> float:
    """Between `MIN_LATENCY_SECONDS` and `MAX_LATENCY_SECONDS` by the request, so that a person sees
    reviewers arrive one by one."""
    share = int(digest[-4:], 16) / 0xFFFF
    return MIN_LATENCY_SECONDS + share * (MAX_LATENCY_SECONDS - MIN_LATENCY_SECONDS)


def fixed_latency(seconds: float) -> Latency:
    """The same for every request. Raises: InputError."""
    if not (math.isfinite(seconds) and seconds >= 0):
        raise InputError(f"the latency is {seconds} seconds; it must be 0 or more")
    return lambda _digest: seconds


def lognormal_latency(*, median_seconds: float, p95_seconds: float) -> Latency:
    """A lognormal distribution with this median and 95th percentile: m·exp(σz), σ = ln(p95 / m) / z₀.₉₅.

    Raises: InputError (a median that is not above 0, a 95th percentile below the median).
    """
    if not (math.isfinite(median_seconds) and median_seconds > 0):
        raise InputError(f"the median latency is {median_seconds} seconds; a distribution needs one above 0")
    if not (math.isfinite(p95_seconds) and p95_seconds >= median_seconds):
        raise InputError(
            f"the 95th percentile of the latency is {p95_seconds} seconds; "
            f"it must be at least the median, {median_seconds:g}"
        )
    sigma = math.log(p95_seconds / median_seconds) / _Z95

    def draw(digest: str) -> float:
        # The middle of one of 2^48 equal slices of (0, 1): never 0 or 1, where the quantile is infinite.
        share = (int(digest[-12:], 16) + 0.5) / 2**48
        return min(LONGEST_DRAWN_SECONDS, median_seconds * math.exp(sigma * _STANDARD_NORMAL.inv_cdf(share)))

    return draw
