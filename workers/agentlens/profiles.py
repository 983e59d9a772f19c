"""Profiles: named, versioned sets of signals, weights and cuts, kept as data (AGENTLENS §5)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final

IDEAL_CUT: Final = 70.0
LUCKY_CUT: Final = 47.0
PUBLISHED_IDEAL_SHARE: Final = 229 / 1136
PUBLISHED_LUCKY_SHARE: Final = 122 / 1136


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """A composite score. weights: per signal, all signals on 0 to 100; they sum to 1, so f lies in 0 to 100.
    knots: (weighted sum, f) points of a strictly rising, piecewise linear map; the identity if empty."""

    name: str
    version: int
    weights: Mapping[str, float]
    knots: tuple[tuple[float, float], ...] = ()
    ideal_cut: float = IDEAL_CUT
    lucky_cut: float = LUCKY_CUT


PAPER: Final = Profile(
    name="paper", version=1, weights={"struct": 0.20, "cov": 0.15, "coh": 0.30, "temp": 0.35}
)
TUNED: Final = Profile(
    name="tuned",
    version=1,
    weights={"struct": 0.36, "edit": 0.33, "coh": 0.14, "temp": 0.17},
    knots=((0.0, 0.0), (59.7, 47.0), (82.1, 70.0), (100.0, 100.0)),
)
UNREFERENCED: Final = Profile(
    name="unreferenced",
    version=1,
    weights={"coh": 0.29, "edited": 0.32, "checked": 0.27, "reproduced": 0.12},
    knots=((0.0, 0.0), (67.2, 47.0), (91.1, 70.0), (100.0, 100.0)),
)
PROFILES: Final[Mapping[str, Profile]] = {profile.name: profile for profile in (PAPER, TUNED, UNREFERENCED)}
