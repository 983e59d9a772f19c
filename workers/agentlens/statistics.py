"""The arithmetic of cohorts: AUROC with intervals over problems, Youden with held-out problems, and SciPy's
tests (AGENTLENS §9)."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
from scipy import stats

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.intp]
BOOTSTRAPS = 1000
_CELLS = 200_000
_FOLDS = 100


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """A value with its 95 % bootstrap interval; problems are resampled, so runs of one stay together."""

    value: float
    low: float
    high: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Discrimination:
    """How well a score tells passing from failing runs. pooled: over all runs. within: mean over the problems
    that hold both outcomes (`problems` of them). Runs without a problem take part in pooled alone.
    p: two-sided Mann-Whitney over all runs."""

    pooled: Interval
    within: Interval
    problems: int
    p: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PairCounts:
    """Everything that AUROC needs. passes, fails: runs of each cluster, shape (clusters,). right: pairs of a
    pass and a fail within each cluster that are ordered rightly, ties counting half. The rest describes the
    runs by rising score: failing: clusters of the fails; passing: clusters of the passes; under, upto: how many
    fails score less, and at most as much, as each pass."""

    passes: Floats
    fails: Floats
    right: Floats
    failing: Ints
    passing: Ints
    under: Ints
    upto: Ints

    def pooled(self, weights: Floats) -> Floats:
        """AUROC over all runs if cluster b is taken weights[..., b] times; shape (...)."""
        total = (weights @ self.passes) * (weights @ self.fails)
        fails = weights[..., self.failing]
        below = np.concatenate([np.zeros((*weights.shape[:-1], 1)), fails.cumsum(axis=-1)], axis=-1)
        right = (weights[..., self.passing] * (below[..., self.under] + below[..., self.upto])).sum(
            axis=-1
        ) / 2
        return _ratio(right, total)

    def within(self, weights: Floats) -> Floats:
        """Weighted mean of the AUROCs of the clusters that hold both outcomes; shape (...)."""
        both = (self.passes > 0) & (self.fails > 0)
        each = self.right[both] / (self.passes * self.fails)[both]
        total = weights[..., both].sum(axis=-1)
        return _ratio(weights[..., both] @ each, total)

    def samples(self, seed: int) -> tuple[Floats, Floats]:
        """Pooled and within over bootstrap samples of the clusters."""
        runs = len(self.failing) + len(self.passing)
        weights = resamples(len(self.passes), seed=seed, width=runs)
        drawn = [(self.pooled(w), self.within(w)) for w in weights]
        return np.concatenate([pooled for pooled, _ in drawn]), np.concatenate(
            [within for _, within in drawn]
        )


def _ratio(part: Floats, whole: Floats) -> Floats:
    """part / whole, NaN where whole is 0."""
    whole = np.asarray(whole, dtype=float)
    result: Floats = np.divide(part, whole, out=np.full_like(whole, np.nan), where=whole > 0)
    return result


def clusters(problems: Ints) -> Ints:
    """What is resampled and held out together: the runs of a problem; a run without one (a negative number)
    is a cluster of its own, and never forms a problem with others of its kind."""
    alone = problems < 0
    numbers = np.unique(problems[~alone], return_inverse=True)[1] if not alone.all() else problems[~alone]
    found = np.empty(len(problems), dtype=np.intp)
    found[~alone] = numbers
    found[alone] = np.arange(alone.sum()) + (numbers.max() + 1 if len(numbers) else 0)
    return found


def pair_counts(scores: Floats, passed: Bools, problems: Ints) -> PairCounts:
    """Count pairs. `problems` holds numbers from 0, or −1 for a run without a problem; all arrays have shape
    (runs,)."""
    members = clusters(problems)
    count = int(members.max()) + 1 if len(members) else 0
    order = np.argsort(scores, kind="stable")
    by_cluster = np.argsort(members[order], kind="stable")
    bounds = np.searchsorted(members[order][by_cluster], np.arange(count + 1))
    right = np.zeros(count)
    for cluster, (start, end) in enumerate(itertools.pairwise(bounds)):
        own = order[by_cluster[start:end]]
        under, upto = _fails_below(scores[own], passed[own])
        right[cluster] = (under.sum() + upto.sum()) / 2
    ranked, outcome = scores[order], passed[order]
    under, upto = _fails_below(ranked, outcome)
    return PairCounts(
        passes=np.bincount(members[passed], minlength=count).astype(float),
        fails=np.bincount(members[~passed], minlength=count).astype(float),
        right=right,
        failing=members[order][~outcome],
        passing=members[order][outcome],
        under=under,
        upto=upto,
    )


def _fails_below(ranked: Floats, passed: Bools) -> tuple[Ints, Ints]:
    """For each pass how many fails score less, and at most as much; `ranked` rises."""
    failing, passing = ranked[~passed], ranked[passed]
    return np.searchsorted(failing, passing, side="left"), np.searchsorted(failing, passing, side="right")


def resamples(count: int, *, seed: int, width: int = 0, draws: int = BOOTSTRAPS) -> Iterator[Floats]:
    """How often each of `count` clusters is drawn in each bootstrap sample, in parts of shape (some draws,
    count). The parts are small where the clusters, or what is worked out for each draw (`width` numbers), are
    many; their size changes no number."""
    generator = np.random.default_rng(seed)
    at_once = max(1, _CELLS // max(1, count, width))
    for start in range(0, draws, at_once):
        rows = min(at_once, draws - start)
        picks = generator.integers(0, count, size=(rows, count)) + count * np.arange(rows)[:, None]
        yield np.bincount(picks.ravel(), minlength=rows * count).reshape(rows, count).astype(float)


def interval(value: float, samples: Floats) -> Interval:
    """The middle 95 % of bootstrap samples around a value; NaN samples are left out."""
    usable = samples[~np.isnan(samples)]
    if not len(usable):
        return Interval(value=value, low=float("nan"), high=float("nan"))
    low, high = np.quantile(usable, [0.025, 0.975])
    return Interval(value=value, low=float(low), high=float(high))


def discrimination(scores: Floats, passed: Bools, problems: Ints, *, seed: int) -> Discrimination | None:
    """AUROC pooled and within problems; None without both outcomes."""
    if passed.all() or not passed.any():
        return None
    counts = pair_counts(scores, passed, problems)
    pooled, within = counts.samples(seed)
    ones = np.ones(len(counts.passes))
    return Discrimination(
        pooled=interval(float(counts.pooled(ones)), pooled),
        within=interval(float(counts.within(ones)), within),
        problems=int(((counts.passes > 0) & (counts.fails > 0)).sum()),
        p=float(stats.mannwhitneyu(scores[passed], scores[~passed]).pvalue),
    )


def paired_difference(
    better: Floats, worse: Floats, passed: Bools, problems: Ints, *, seed: int
) -> tuple[Interval, Interval]:
    """AUROC of one score minus that of another on the same runs and the same resampled problems: pooled and
    within."""
    a, b = pair_counts(better, passed, problems), pair_counts(worse, passed, problems)
    (pooled_a, within_a), (pooled_b, within_b) = a.samples(seed), b.samples(seed)
    ones = np.ones(len(a.passes))
    return (
        interval(float(a.pooled(ones) - b.pooled(ones)), pooled_a - pooled_b),
        interval(float(a.within(ones) - b.within(ones)), within_a - within_b),
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


def held_out_classification(scores: Floats, passed: Bools, problems: Ints) -> Classification | None:
    """Accuracy and F1 at Youden's J, the threshold for each problem chosen on all the others; of more than
    `_FOLDS` problems some are held out together."""
    members = clusters(problems)
    if passed.all() or not passed.any() or members.max() < 1:
        return None
    folds = members % _FOLDS
    called = np.zeros(len(scores), dtype=bool)
    for fold in range(min(_FOLDS, int(members.max()) + 1)):
        held_out = folds == fold
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
