"""What the pages draw of a finished scoring, out of its summary and its runs' rows."""

from __future__ import annotations

import dataclasses
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from workers.agentlens.mechanisms import MEANING
from workers.agentlens.tier import Tier
from workers.provenance.repository.scored_runs import ListedRun
from workers.scoring import pictures

SIGNALS: Final[Mapping[str, str]] = {
    "struct": "structure",
    "cov": "coverage",
    "edit": "edit region",
    "coh": "coherence",
    "temp": "stages",
    "edited": "edited",
    "checked": "checked",
    "reproduced": "reproduced",
}
_EXAMPLES: Final = 5


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TierShare:
    tier: str
    runs: int
    share: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ModelTiers:
    """A model's runs with a tier, and how they divide."""

    model: str
    runs: int
    shares: tuple[TierShare, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """How the values of a signal (or the score), 0 to 100, are spread over passed and failed runs, in bins of 5."""

    name: str
    title: str
    bins: tuple[pictures.Bin, ...]
    median_passed: float | None
    median_failed: float | None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A run of a scoring, by its place."""

    place: int
    path: str
    model: str
    score: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LuckyGroup:
    """Passing runs that owe it to one mechanism, and the lowest of them."""

    mechanism: str
    meaning: str
    runs: int
    by_model: Mapping[str, int]
    examples: tuple[Example, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Charts:
    slope: tuple[pictures.SlopeLine, ...]
    tiers: tuple[ModelTiers, ...]
    score: Distribution
    signals: tuple[Distribution, ...]
    lucky: tuple[LuckyGroup, ...]


def charts(summary: Mapping[str, Any], runs: Iterable[ListedRun]) -> Charts:
    """Copies of other runs are in no figure."""
    counted = [run for run in runs if run.entry["original"] is None]
    models = [entry["model"] for entry in summary["models"]]
    names = [name for name in SIGNALS if any(name in run.row["signals"] for run in counted)]
    return Charts(
        slope=tuple(pictures.slope(summary["models"])),
        tiers=tuple(_tiers(counted, models)),
        score=_distribution("score", "score", [(run.score, run.row["outcome"]) for run in counted]),
        signals=tuple(
            _distribution(
                name,
                SIGNALS[name],
                [
                    (run.row["signals"][name], run.row["outcome"])
                    for run in counted
                    if name in run.row["signals"]
                ],
            )
            for name in names
        ),
        lucky=tuple(_lucky(counted)),
    )


def _tiers(runs: Sequence[ListedRun], models: Sequence[str]) -> Iterable[ModelTiers]:
    counts = Counter((run.row["model"], run.tier) for run in runs)
    for model in models[: pictures.MODELS_SHOWN]:
        total = sum(counts[model, tier.value] for tier in Tier)
        if total:
            yield ModelTiers(
                model=model,
                runs=total,
                shares=tuple(
                    TierShare(
                        tier=tier.value,
                        runs=counts[model, tier.value],
                        share=counts[model, tier.value] / total,
                    )
                    for tier in Tier
                ),
            )


def _distribution(name: str, title: str, values: Sequence[tuple[float, str]]) -> Distribution:
    def median(outcome: str) -> float | None:
        of = [value for value, ended in values if ended == outcome]
        return statistics.median(of) if of else None

    return Distribution(
        name=name,
        title=title,
        bins=tuple(pictures.histogram(values)),
        median_passed=median("passed"),
        median_failed=median("failed"),
    )


def _lucky(runs: Sequence[ListedRun]) -> Iterable[LuckyGroup]:
    for mechanism, meaning in MEANING.items():
        of = [run for run in runs if run.tier == Tier.LUCKY and run.row["mechanism"] == mechanism.value]
        lowest = sorted(of, key=lambda run: (run.score, run.place))[:_EXAMPLES]
        yield LuckyGroup(
            mechanism=mechanism.value,
            meaning=meaning,
            runs=len(of),
            by_model=dict(Counter(run.row["model"] for run in of).most_common()),
            examples=tuple(
                Example(place=run.place, path=run.entry["path"], model=run.row["model"], score=run.score)
                for run in lowest
            ),
        )
