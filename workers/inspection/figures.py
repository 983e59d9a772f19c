"""A cohort in a handful of figures."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Over all models; None where there is nothing to divide by. pass_rate: of runs with an outcome. mean_score:
    theirs, 0 to 100. lucky_share: of passes. tiers: runs by the tier that counts, which is that of another profile
    where there was no reference."""

    pass_rate: float | None
    mean_score: float | None
    lucky_share: float | None
    tiers: Mapping[str, int]


def figures(summary: Mapping[str, Any]) -> Figures:
    """The figures of a cohort's summary (AGENTLENS §9)."""
    models = summary["models"]
    judged = sum(entry["runs"] for entry in models)
    passed = sum(entry["passed"] for entry in models)
    tiers = {name: of["runs"] for name, of in summary["cost"]["by_tier"].items()}
    total = sum(entry["runs"] * entry["quality"]["value"] for entry in models)
    return Figures(
        pass_rate=passed / judged if judged else None,
        mean_score=total / judged if judged else None,
        lucky_share=tiers["lucky"] / passed if passed else None,
        tiers=tiers,
    )
