"""Fit the weights of the profiles `tuned` and `unreferenced` and print them as they stand in `profiles.py`.

    python benchmarks/fit_tuned.py FOLDER_WITH_PTA_FILES

The loss is half a logistic regression over all runs, half a logistic ranking loss over the pass/fail pairs
inside each problem (so that neither hard problems nor large ones decide alone), with non-negative weights and
a pull towards the starting weights of AGENTLENS §5. What is printed as held out comes from weights fitted
without the problem that is scored. Ends with 1 if the stored weights are not the fitted ones."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import bench_runs
import numpy as np
import numpy.typing as npt
from scipy import optimize

from workers.agentlens import waste
from workers.agentlens.measure import process_signals
from workers.agentlens.profiles import (
    PUBLISHED_IDEAL_SHARE,
    PUBLISHED_LUCKY_SHARE,
    TUNED,
    UNREFERENCED,
    Profile,
)

Floats = npt.NDArray[np.float64]
STARTS: Mapping[str, Mapping[str, float]] = {
    "tuned": {"struct": 0.35, "edit": 0.35, "coh": 0.15, "temp": 0.15},
    "unreferenced": {"coh": 0.25, "edited": 0.25, "checked": 0.25, "reproduced": 0.25},
}
PULL = 0.3
TOLERANCE = 0.011


def fit(
    signals: Floats, passed: npt.NDArray[np.bool_], problems: npt.NDArray[np.intp], start: Floats
) -> Floats:
    """Weights that sum to 1. signals: shape (runs, signals), each on 0 to 1."""
    pairs, weights = _pairs(signals, passed, problems)
    sign = np.where(passed, -1.0, 1.0)

    def loss(parameters: Floats) -> float:
        bias, slope = parameters[0], parameters[1:]
        share = slope / max(float(slope.sum()), 1e-9)
        pooled = np.logaddexp(0, sign * (signals @ slope + bias)).mean()
        within = (weights * np.logaddexp(0, -(pairs @ slope))).sum()
        return float(0.5 * pooled + 0.5 * within + PULL * ((share - start) ** 2).sum())

    bounds = [(None, None)] + [(0, None)] * len(start)
    found = optimize.minimize(loss, np.concatenate([[-5.0], 10 * start]), method="L-BFGS-B", bounds=bounds)
    slope = found.x[1:]
    shares: Floats = slope / slope.sum()
    return shares


def _pairs(
    signals: Floats, passed: npt.NDArray[np.bool_], problems: npt.NDArray[np.intp]
) -> tuple[Floats, Floats]:
    """Differences of all pass/fail pairs inside problems, each problem with the same total weight."""
    differences: list[Floats] = []
    weights: list[Floats] = []
    for _, rows in bench_runs.held_out(problems):
        good, bad = signals[rows & passed], signals[rows & ~passed]
        if len(good) and len(bad):
            pairs = (good[:, None] - bad[None]).reshape(-1, signals.shape[1])
            differences.append(pairs)
            weights.append(np.full(len(pairs), 1 / len(pairs)))
    joined = np.concatenate(weights)
    return np.concatenate(differences), joined / joined.sum()


def held_out_scores(
    signals: Floats, passed: npt.NDArray[np.bool_], problems: npt.NDArray[np.intp], start: Floats
) -> Floats:
    """Each run's weighted sum, the weights fitted on the other problems."""
    scores = np.zeros(len(signals))
    for _, rows in bench_runs.held_out(problems):
        scores[rows] = signals[rows] @ fit(signals[~rows], passed[~rows], problems[~rows], start)
    return scores


def knots(sums: Floats, passed: npt.NDArray[np.bool_], profile: Profile) -> tuple[tuple[float, float], ...]:
    """The rising map that gives the published shares of Lucky and Ideal among passing runs."""
    low, high = np.quantile(sums[passed], [PUBLISHED_LUCKY_SHARE, 1 - PUBLISHED_IDEAL_SHARE])
    return (
        (0.0, 0.0),
        (round(float(low), 1), profile.lucky_cut),
        (round(float(high), 1), profile.ideal_cut),
        (100.0, 100.0),
    )


def _is_stored(profile: Profile, weights: Mapping[str, float]) -> bool:
    return profile.weights.keys() == weights.keys() and all(
        abs(profile.weights[name] - weight) <= TOLERANCE for name, weight in weights.items()
    )


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    problems = bench_runs.prepared(bench_runs.problem_folders(parser.parse_args(arguments).folder))
    scored = bench_runs.rows(problems)
    passed, numbers = bench_runs.outcomes(scored), bench_runs.problem_numbers(scored)
    alone = [
        process_signals(run.trace, blind_retries=waste.blind_retries(run.findings))
        for runs in problems
        for run in runs
        if run.trajectory.outcome != "unknown"
    ]
    same = True
    for profile, values in ((TUNED, [r.signals for r in scored]), (UNREFERENCED, alone)):
        names = list(STARTS[profile.name])
        start = np.array(list(STARTS[profile.name].values()))
        signals = np.array([[run[name] for name in names] for run in values]) / 100.0
        pooled, within = bench_runs.auroc(scored, held_out_scores(signals, passed, numbers, start).tolist())
        fitted = np.round(fit(signals, passed, numbers, start), 2)
        fitted[0] += round(1 - float(fitted.sum()), 2)
        weights = {name: round(float(weight), 2) for name, weight in zip(names, fitted, strict=True)}
        print(f"{profile.name}: AUROC with held-out problems {pooled:.3f} pooled, {within:.3f} within")
        print(f"    weights={weights},")
        print(f"    knots={knots(100.0 * signals @ fitted, passed, profile)},")
        same &= _is_stored(profile, weights)
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
