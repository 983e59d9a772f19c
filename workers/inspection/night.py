"""One night of a schedule as a row of figures, and what changed since the night before."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from workers.inspection.figures import figures
from workers.provenance.repository.scorings import Scoring


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
    found = None if summary is None else figures(summary)
    return Night(
        schedule=scoring.schedule or "",
        night=scoring.night or "",
        scoring_id=scoring.scoring_id,
        state=scoring.state.value,
        error=scoring.error,
        runs=None if summary is None else summary["runs"],
        reused=scoring.reused_count,
        computed=scoring.computed_count,
        pass_rate=None if found is None else found.pass_rate,
        mean_score=None if found is None else found.mean_score,
        lucky_share=None if found is None else found.lucky_share,
        tiers={} if found is None else found.tiers,
        changes=None if comparison is None else comparison["counts"],
        night_before=None if comparison is None else comparison["night"],
        moves=() if comparison is None else tuple(comparison["moves"]),
    )
