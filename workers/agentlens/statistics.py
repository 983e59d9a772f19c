"""The arithmetic of cohorts: AUROC with intervals over problems, Youden with held-out problems, and SciPy's
tests (AGENTLENS §9)."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
BOOTSTRAPS = 1000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A value with its 95 % bootstrap interval; problems are resampled, so runs of one stay together."""

    value: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Discrimination:
    """How well a score tells passing from failing runs. pooled: over all runs. within: mean over the problems
    that hold both outcomes (`problems` of them). p: two-sided Mann-Whitney over all runs."""

    pooled: Interval
    within: Interval
    problems: int
    p: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairCounts:
    """Everything that AUROC needs, by problem: wins[a, b] is how many (pass of a, fail of b) pairs are
    ordered rightly, ties counting half. passes, fails: runs a problem."""

    wins: Floats
    passes: Floats
    fails: Floats

    def pooled(self, weights: Floats) -> Floats:
        """AUROC over all runs if problem b is taken weights[..., b] times; shape (...)."""
        total = (weights @ self.passes) * (weights @ self.fails)
        right = ((weights @ self.wins) * weights).sum(axis=-1)
        return _ratio(right, total)

    def within(self, weights: Floats) -> Floats:
        """Weighted mean of the AUROCs of the problems that hold both outcomes; shape (...)."""
        both = (self.passes > 0) & (self.fails > 0)
        each = np.diag(self.wins)[both] / (self.passes * self.fails)[both]
        total = weights[..., both].sum(axis=-1)
        return _ratio(weights[..., both] @ each, total)


def _ratio(part: Floats, whole: Floats) -> Floats:
    """part / whole, NaN where whole is 0."""
    whole = np.asarray(whole, dtype=float)
    result: Floats = np.divide(part, whole, out=np.full_like(whole, np.nan), where=whole > 0)
    return result


def pair_counts(scores: Floats, passed: Bools, problems: npt.NDArray[np.intp]) -> PairCounts:
    """Count pairs between problems. `problems` holds numbers from 0; all arrays have shape (runs,)."""
    count = int(problems.max()) + 1 if len(problems) else 0
    wins = np.zeros((count, count))
    failing, failing_problems = scores[~passed], problems[~passed]
    for a in range(count):
        of_a = np.sort(scores[passed & (problems == a)])
        below = np.searchsorted(of_a, failing, side="left") + np.searchsorted(of_a, failing, side="right")
        wins[a] = np.bincount(failing_problems, weights=len(of_a) - below / 2, minlength=count)
    return PairCounts(
        wins=wins,
        passes=np.bincount(problems[passed], minlength=count).astype(float),
        fails=np.bincount(problems[~passed], minlength=count).astype(float),
    )


def resamples(problems: int, *, seed: int, draws: int = BOOTSTRAPS) -> Floats:
    """How often each problem is drawn in each bootstrap sample, shape (draws, problems)."""
    picks = np.random.default_rng(seed).integers(0, problems, size=(draws, problems))
    weights = np.zeros((draws, problems))
    np.add.at(weights, (np.arange(draws)[:, None], picks), 1.0)
    return weights


def interval(value: float, samples: Floats) -> Interval:
    """The middle 95 % of bootstrap samples around a value; NaN samples are left out."""
    usable = samples[~np.isnan(samples)]
    if not len(usable):
        return Interval(value=value, low=float("nan"), high=float("nan"))
    low, high = np.quantile(usable, [0.025, 0.975])
    return Interval(value=value, low=float(low), high=float(high))


def discrimination(
    scores: Floats, passed: Bools, problems: npt.NDArray[np.intp], *, seed: int
) -> Discrimination | None:
    """AUROC pooled and within problems; None without both outcomes."""
    if passed.all() or not passed.any():
        return None
    counts = pair_counts(scores, passed, problems)
    weights = resamples(len(counts.passes), seed=seed)
    ones = np.ones(len(counts.passes))
    return Discrimination(
        pooled=interval(float(counts.pooled(ones)), counts.pooled(weights)),
        within=interval(float(counts.within(ones)), counts.within(weights)),
        problems=int(((counts.passes > 0) & (counts.fails > 0)).sum()),
        p=float(stats.mannwhitneyu(scores[passed], scores[~passed]).pvalue),
    )


def paired_difference(
    better: Floats, worse: Floats, passed: Bools, problems: npt.NDArray[np.intp], *, seed: int
) -> tuple[Interval, Interval]:
    """AUROC of one score minus that of another on the same runs and the same resampled problems: pooled and
    within."""
    a, b = pair_counts(better, passed, problems), pair_counts(worse, passed, problems)
    weights, ones = resamples(len(a.passes), seed=seed), np.ones(len(a.passes))
    return (
        interval(float(a.pooled(ones) - b.pooled(ones)), a.pooled(weights) - b.pooled(weights)),
        interval(float(a.within(ones) - b.within(ones)), a.within(weights) - b.within(weights)),
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Classification:
    """How a threshold does on problems it was not chosen on. threshold: the one chosen on all runs."""

    accuracy: float
    f1: float
    threshold: float


def youden(scores: Floats, passed: Bools) -> float:
    """The score from which on a run is called passing, maximising true minus false positive rate; the lowest
    such score."""
    order = np.argsort(scores, kind="stable")
    ranked, outcome = scores[order], passed[order]
    fails_below = np.concatenate([[0], np.cumsum(~outcome)[:-1]]) / max(1, (~passed).sum())
    passes_below = np.concatenate([[0], np.cumsum(outcome)[:-1]]) / max(1, passed.sum())
    gain = fails_below - passes_below
    first_of_value = np.concatenate([[True], ranked[1:] != ranked[:-1]])
    gain[~first_of_value] = -np.inf
    return float(ranked[int(gain.argmax())])


def held_out_classification(
    scores: Floats, passed: Bools, problems: npt.NDArray[np.intp]
) -> Classification | None:
    """Accuracy and F1 at Youden's J, the threshold for each problem chosen on all the others."""
    if passed.all() or not passed.any() or len(np.unique(problems)) < 2:
        return None
    called = np.zeros(len(scores), dtype=bool)
    for problem in np.unique(problems):
        held_out = problems == problem
        called[held_out] = scores[held_out] >= youden(scores[~held_out], passed[~held_out])
    hits = int((called & passed).sum())
    return Classification(
        accuracy=float((called == passed).mean()),
        f1=2 * hits / int(called.sum() + passed.sum()),
        threshold=youden(scores, passed),
    )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Association:
    """χ² of a contingency table with its degrees of freedom, p, and Cramér's V."""

    chi2: float
    degrees_of_freedom: int
    p: float
    cramers_v: float


def association(table: Sequence[Sequence[int]]) -> Association | None:
    """χ² and Cramér's V; empty rows and columns are dropped, None if less than 2 by 2 is left."""
    counts = np.array(table, dtype=np.int64)
    if counts.ndim != 2:
        return None
    counts = counts[counts.sum(axis=1) > 0][:, counts.sum(axis=0) > 0]
    if min(counts.shape, default=0) < 2:
        return None
    test = stats.chi2_contingency(counts, correction=False)
    return Association(
        chi2=float(test.statistic),
        degrees_of_freedom=int(test.dof),
        p=float(test.pvalue),
        cramers_v=float(stats.contingency.association(counts, method="cramer")),
    )


def kolmogorov_smirnov(scores: Floats, passed: Bools) -> tuple[float, float] | None:
    """The largest distance between the distributions of passing and failing scores, and its p."""
    if passed.all() or not passed.any():
        return None
    test = stats.ks_2samp(scores[passed], scores[~passed])
    return float(test.statistic), float(test.pvalue)


def spearman(columns: Sequence[Floats]) -> list[list[float | None]]:
    """Rank correlations between columns; None where a column is constant."""

    def rho(a: Floats, b: Floats) -> float | None:
        if len(a) < 3 or (a == a[0]).all() or (b == b[0]).all():
            return None
        return float(stats.spearmanr(a, b).statistic)

    return [[rho(a, b) for b in columns] for a in columns]
