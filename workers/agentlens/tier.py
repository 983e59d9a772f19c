"""From signals to a score, and from a score to a tier (AGENTLENS §5, §6)."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from enum import StrEnum

from workers.agentlens.profiles import Profile
from workers.agentlens.trajectory import RunOutcome


class Tier(StrEnum):
    """What a score means for a run that ended as it did."""

    IDEAL = "ideal"
    SOLID = "solid"
    LUCKY = "lucky"
    PARTIAL_FAILURE = "partial_failure"
    OFF_TRACK = "off_track"


def composite(signals: Mapping[str, float], profile: Profile) -> float:
    """f in 0 to 100: the weighted sum of the profile's signals (each on 0 to 100), rescaled by its knots.

    Raises KeyError if a signal of the profile is missing."""
    total = sum(weight * signals[name] for name, weight in profile.weights.items())
    return rescale(min(100.0, max(0.0, total)), profile.knots)


def rescale(value: float, knots: Sequence[tuple[float, float]]) -> float:
    """A strictly rising, piecewise linear map through the knots; the identity without knots."""
    for (x0, y0), (x1, y1) in itertools.pairwise(knots):
        if value <= x1:
            return y0 + (y1 - y0) * (value - x0) / (x1 - x0)
    return value


def tier(score: float, outcome: RunOutcome, profile: Profile) -> Tier | None:
    """Passing: Ideal f ≥ 70, Solid 47 ≤ f < 70, Lucky f < 47. Failing: Partial failure f ≥ 47, else
    Off-track. An unknown outcome has no tier. The unrounded score is compared."""
    if outcome == "passed":
        if score >= profile.ideal_cut:
            return Tier.IDEAL
        return Tier.SOLID if score >= profile.lucky_cut else Tier.LUCKY
    if outcome == "failed":
        return Tier.PARTIAL_FAILURE if score >= profile.lucky_cut else Tier.OFF_TRACK
    return None
