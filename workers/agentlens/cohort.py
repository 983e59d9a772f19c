"""What many assessments say together: models, tiers, waste, cost, and how well the score discriminates
(AGENTLENS §9). A row is small, so a cohort of any size fits in memory while trajectories stream by."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from workers.agentlens import statistics
from workers.agentlens.assess import Assessment, assess_problem, prepare
from workers.agentlens.duplicates import Content, Duplicate, Original, actions, copies
from workers.agentlens.mechanisms import Mechanism
from workers.agentlens.scoring import labelled
from workers.agentlens.settings import DEFAULT_SETTINGS, ScoringSettings
from workers.agentlens.statistics import Bools, Floats, Ints
from workers.agentlens.tier import Tier
from workers.agentlens.trajectory import Intent, RunOutcome, Trajectory
from workers.agentlens.waste import CATEGORIES

CAUTION = (
    "A process score complements correctness checks, security review and human judgement; "
    "it does not replace them."
)
_UNKNOWN = "unknown"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What a cohort keeps of one assessment. problem: None for a run that names none, which is alone in all
    that is done by problem. signals on 0 to 100. wasted: steps by waste category. is_verified: a check follows
    the last edit, None without an edit."""

    problem: str | None
    model: str
    outcome: RunOutcome
    steps: int
    profile: str
    scores: Mapping[str, float]
    tiers: Mapping[str, Tier | None]
    signals: Mapping[str, float]
    mechanism: Mechanism | None
    severity: float
    wasted: Mapping[str, int]
    is_verified: bool | None
    tokens: int | None
    cost_usd: float | None


def row(assessment: Assessment) -> Row:
    """The row of an assessment."""
    signals: dict[str, float] = {}
    for score in assessment.scores.values():
        for name, value in score.signals.items():
            signals[name] = value if name in ("struct", "cov", "edit") else 100.0 * value
    wasted: Counter[str] = Counter()
    for finding in assessment.waste.findings:
        wasted[finding.category] += len(finding.steps)
    intents = assessment.intents
    last_edit = max((i for i, intent in enumerate(intents) if intent is Intent.I), default=None)
    return Row(
        problem=assessment.problem or None,
        model=assessment.model or _UNKNOWN,
        outcome=assessment.outcome,
        steps=assessment.steps,
        profile=assessment.profile,
        scores={name: score.score for name, score in assessment.scores.items()},
        tiers={name: score.tier for name, score in assessment.scores.items()},
        signals=signals,
        mechanism=assessment.mechanism,
        severity=assessment.waste.severity,
        wasted=wasted,
        is_verified=None if last_edit is None else Intent.V in intents[last_edit:],
        tokens=assessment.tokens,
        cost_usd=assessment.cost_usd,
    )


def assess_cohort(
    trajectories: Iterable[Trajectory], settings: ScoringSettings = DEFAULT_SETTINGS
) -> tuple[list[Assessment], dict[str, object]]:
    """Score trajectories problem by problem (AGENTLENS §4 to §8) and summarise them (§9). Those that are not
    labelled are labelled first.

    The assessments come problem by problem; the summary is the report's `cohort`. Runs that name no problem
    cannot be compared with each other and are scored without a reference. Copies are assessed and not counted.
    All runs are in memory; `consensus score` streams."""
    problems: dict[str, list[Trajectory]] = {}
    alone: list[Trajectory] = []
    for trajectory in trajectories:
        of = problems.setdefault(trajectory.problem, []) if trajectory.problem else alone
        of.append(labelled(trajectory))
    groups = [*(runs for _, runs in sorted(problems.items())), *([run] for run in alone)]
    runs = [run for group in groups for run in group]
    assessments = [found for group in groups for found in assess_problem([*map(prepare, group)], settings)]
    contents = [Content.of(run) for run in runs]
    of_others = copies(contents, lambda n: actions(runs[n].states))
    duplicates = [
        Duplicate(
            path=runs[position].path,
            trajectory_id=runs[position].trajectory_id,
            of=Original(path=of.path, trajectory_id=of.trajectory_id),
        )
        for position, of in of_others.items()
    ]
    counted = (row(found) for position, found in enumerate(assessments) if position not in of_others)
    return assessments, summarise(counted, seed=settings.seed, duplicates=duplicates)


def summarise(
    rows: Iterable[Row], *, seed: int = 0, duplicates: Iterable[Duplicate] = ()
) -> dict[str, object]:
    """The cohort part of the report (§9), as plain JSON values. The order of the rows changes nothing.
    `duplicates` are listed; their rows are not given."""
    ordered = sorted(
        rows, key=lambda r: (r.problem or "", r.model, r.outcome, sorted(r.scores.items()), r.steps)
    )
    judged = [r for r in ordered if r.outcome != _UNKNOWN]
    return {
        "caution": CAUTION,
        "runs": len(ordered),
        "problems": len(_problems(ordered)),
        "runs_without_problem": sum(r.problem is None for r in ordered),
        "duplicates": [
            dataclasses.asdict(copy) for copy in sorted(duplicates, key=lambda c: (c.path, c.trajectory_id))
        ],
        "outcomes": dict(sorted(Counter(r.outcome for r in ordered).items())),
        "tiers": _tiers(judged),
        "discrimination": _discrimination(judged, seed),
        "signals": _signals(judged, seed),
        "models": models(judged, seed=seed),
        "mechanisms": _mechanisms(judged),
        "waste": _waste(judged),
        "cost": _cost(judged),
        "deployment_risk": _deployment_risk(judged),
    }


def _profiles(rows: Sequence[Row]) -> list[str]:
    return sorted({name for r in rows for name in r.scores})


def _problems(rows: Iterable[Row]) -> list[str]:
    return sorted({r.problem for r in rows if r.problem is not None})


def _arrays(rows: Sequence[Row], values: Sequence[float]) -> tuple[Floats, Bools, Ints]:
    numbers: dict[str | None, int] = {problem: n for n, problem in enumerate(_problems(rows))}
    return (
        np.array(values, dtype=float),
        np.array([r.outcome == "passed" for r in rows], dtype=bool),
        np.array([numbers.get(r.problem, -1) for r in rows], dtype=np.intp),
    )


def _tiers(rows: Sequence[Row]) -> dict[str, dict[str, int]]:
    return {
        name: {tier.value: sum(r.tiers.get(name) is tier for r in rows) for tier in Tier}
        for name in _profiles(rows)
    }


def _discrimination(rows: Sequence[Row], seed: int) -> dict[str, object]:
    result: dict[str, object] = {}
    for name in _profiles(rows):
        scored = [r for r in rows if name in r.scores]
        arrays = _arrays(scored, [r.scores[name] for r in scored])
        measured = statistics.discrimination(*arrays, seed=seed)
        held_out = statistics.held_out_classification(*arrays)
        distance = statistics.kolmogorov_smirnov(*arrays[:2])
        result[name] = {
            "auroc": None if measured is None else dataclasses.asdict(measured),
            "youden_held_out": None if held_out is None else dataclasses.asdict(held_out),
            "kolmogorov_smirnov": None if distance is None else {"statistic": distance[0], "p": distance[1]},
        }
    both = [r for r in rows if {"paper", "tuned"} <= set(r.scores)]
    if {r.outcome for r in both} == {"passed", "failed"}:
        tuned, passed, problems = _arrays(both, [r.scores["tuned"] for r in both])
        paper = np.array([r.scores["paper"] for r in both])
        pooled, within = statistics.paired_difference(tuned, paper, passed, problems, seed=seed)
        result["tuned_minus_paper"] = {
            "pooled": dataclasses.asdict(pooled),
            "within": dataclasses.asdict(within),
        }
    return result


def _signals(rows: Sequence[Row], seed: int) -> dict[str, object]:
    names = sorted({name for r in rows for name in r.signals})
    result: dict[str, object] = {}
    for name in names:
        scored = [r for r in rows if name in r.signals]
        measured = statistics.discrimination(*_arrays(scored, [r.signals[name] for r in scored]), seed=seed)
        result[name] = None if measured is None else dataclasses.asdict(measured)
    shared = [r for r in rows if all(name in r.signals for name in names)]
    columns = [np.array([r.signals[name] for r in shared]) for name in names]
    return {"auroc": result, "spearman": {"names": names, "rho": statistics.spearman(columns)}}


def _by_model(rows: Sequence[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for r in rows:
        groups.setdefault(r.model, []).append(r)
    return dict(sorted(groups.items()))


def models(rows: Sequence[Row], *, seed: int) -> list[dict[str, object]]:
    """One entry a model, best pass rate first; `shift` is the rank by pass rate minus the rank by quality,
    positive if quality ranks the model higher. Quality is the mean score of all its runs."""
    groups = _by_model(rows)
    quality = {model: _mean_score(of, seed) for model, of in groups.items()}
    pass_rate = {model: _share(r.outcome == "passed" for r in of) for model, of in groups.items()}
    by_pass = _ranks(pass_rate)
    by_quality = _ranks({model: mean.value for model, mean in quality.items()})
    entries: list[dict[str, object]] = []
    for model in sorted(groups, key=lambda m: (by_pass[m], m)):
        passes = [r for r in groups[model] if r.outcome == "passed"]
        entries.append(
            {
                "model": model,
                "runs": len(groups[model]),
                "passed": len(passes),
                "pass_rate": pass_rate[model],
                "quality": dataclasses.asdict(quality[model]),
                "quality_of_passes": _mean(r.scores[r.profile] for r in passes),
                "lucky_rate": _share(r.tiers[r.profile] is Tier.LUCKY for r in passes),
                "rank_by_pass_rate": by_pass[model],
                "rank_by_quality": by_quality[model],
                "shift": by_pass[model] - by_quality[model],
            }
        )
    return entries


def _mean_score(rows: Sequence[Row], seed: int) -> statistics.Interval:
    scores, _, problems = _arrays(rows, [r.scores[r.profile] for r in rows])
    members = statistics.clusters(problems)
    sums, counts = np.bincount(members, weights=scores), np.bincount(members)
    samples = [(w @ sums) / (w @ counts) for w in statistics.resamples(len(sums), seed=seed)]
    return statistics.interval(float(sums.sum() / counts.sum()), np.concatenate(samples))


def _ranks(values: Mapping[str, float | None]) -> dict[str, int]:
    return {
        model: 1 + sum((other or 0.0) > (value or 0.0) for other in values.values())
        for model, value in values.items()
    }


def _share(flags: Iterable[bool]) -> float | None:
    return _mean(float(flag) for flag in flags)


def _mean(values: Iterable[float]) -> float | None:
    listed = list(values)
    return sum(listed) / len(listed) if listed else None


def _mechanisms(rows: Sequence[Row]) -> dict[str, object]:
    lucky = [r for r in rows if r.tiers[r.profile] is Tier.LUCKY]
    models = sorted({r.model for r in lucky})
    table = [[sum(r.model == m and r.mechanism is c for r in lucky) for c in Mechanism] for m in models]
    tested = statistics.association(table)
    return {
        "lucky": len(lucky),
        "counts": {c.value: sum(r.mechanism is c for r in lucky) for c in Mechanism},
        "by_model": {
            model: dict(zip((c.value for c in Mechanism), counts, strict=True))
            for model, counts in zip(models, table, strict=True)
        },
        "association": None if tested is None else dataclasses.asdict(tested),
    }


def _waste(rows: Sequence[Row]) -> dict[str, object]:
    """Prevalence is the share of runs with at least one instance, steps the mean wasted steps among those."""
    groups = {
        "passed": [r for r in rows if r.outcome == "passed"],
        "failed": [r for r in rows if r.outcome == "failed"],
        "ideal": [r for r in rows if r.tiers[r.profile] is Tier.IDEAL],
        "lucky": [r for r in rows if r.tiers[r.profile] is Tier.LUCKY],
    }
    return {
        name: {
            "mean_severity": _mean(r.severity for r in of),
            "categories": {
                category: {
                    "prevalence": _share(r.wasted.get(category, 0) > 0 for r in of),
                    "steps": _mean(float(n) for r in of if (n := r.wasted.get(category, 0)) > 0),
                }
                for category in CATEGORIES
            },
        }
        for name, of in groups.items()
    }


def _cost(rows: Sequence[Row]) -> dict[str, object]:
    def of(group: Sequence[Row]) -> dict[str, float | None]:
        return {
            "runs": len(group),
            "mean_tokens": _mean(float(r.tokens) for r in group if r.tokens is not None),
            "mean_cost_usd": _mean(r.cost_usd for r in group if r.cost_usd is not None),
        }

    return {
        "by_tier": {tier.value: of([r for r in rows if r.tiers[r.profile] is tier]) for tier in Tier},
        "by_mechanism": {c.value: of([r for r in rows if r.mechanism is c]) for c in Mechanism},
    }


def _deployment_risk(rows: Sequence[Row]) -> list[dict[str, object]]:
    """Which models lean on luck, blind retries and unverified patches; shares of their passing runs, the
    riskiest model (by the sum of the three) first."""
    entries: list[tuple[float, str, dict[str, object]]] = []
    for model, of in _by_model(rows).items():
        passes = [r for r in of if r.outcome == "passed"]
        lucky = _share(r.tiers[r.profile] is Tier.LUCKY for r in passes)
        retries = _share(r.wasted.get("blind_retry", 0) > 0 for r in passes)
        unverified = _share(r.is_verified is False for r in passes)
        entry: dict[str, object] = {
            "model": model,
            "passed": len(passes),
            "lucky": lucky,
            "blind_retries": retries,
            "unverified_patches": unverified,
        }
        entries.append((-sum(share or 0.0 for share in (lucky, retries, unverified)), model, entry))
    return [entry for _, _, entry in sorted(entries, key=lambda e: e[:2])]
