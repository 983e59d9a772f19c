"""One night of a schedule as a row of figures, and what changed since the night before."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from workers.agentlens.tier import Tier
from workers.provenance.repository.scorings import Scoring

_PASSING = (Tier.IDEAL, Tier.SOLID, Tier.LUCKY)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Night:
    """pass_rate, lucky_share: of runs with an outcome, of passes. mean_score: of runs with an outcome, 0 to 100.
    Figures are None for a night that has no report (yet). changes: runs that are new, gone, in another tier, the same;
    None for a first night."""

    schedule: str
    night: str
    scoring_id: str
    state: str
    error: str | None
    runs: int | None
    reused: int
    computed: int
    pass_rate: float | None
    mean_score: float | None
    lucky_share: float | None
    tiers: Mapping[str, int]
    changes: Mapping[str, int] | None
    night_before: str | None
    moves: tuple[Mapping[str, Any], ...]


def night_of(scoring: Scoring, texts: Mapping[str, Any]) -> Night:
    """The figures of a night; texts: its `summary` and `comparison`, decoded."""
    summary, comparison = texts["summary"], texts["comparison"]
    # By the profile that drives each run's tier, which may be another where there is no reference.
    by_tier = {} if summary is None else summary["cost"]["by_tier"]
    tiers = {name: of["runs"] for name, of in by_tier.items()}
    passes = sum(tiers.get(tier.value, 0) for tier in _PASSING)
    models = [] if summary is None else summary["models"]
    judged = sum(entry["runs"] for entry in models)
    return Night(
        schedule=scoring.schedule or "",
        night=scoring.night or "",
        scoring_id=scoring.scoring_id,
        state=scoring.state.value,
        error=scoring.error,
        runs=None if summary is None else summary["runs"],
        reused=scoring.reused_count,
        computed=scoring.computed_count,
        pass_rate=sum(entry["passed"] for entry in models) / judged if judged else None,
        mean_score=sum(entry["runs"] * entry["quality"]["value"] for entry in models) / judged
        if judged
        else None,
        lucky_share=tiers.get(Tier.LUCKY.value, 0) / passes if passes else None,
        tiers=tiers,
        changes=None if comparison is None else comparison["counts"],
        night_before=None if comparison is None else comparison["night"],
        moves=() if comparison is None else tuple(comparison["moves"]),
    )
