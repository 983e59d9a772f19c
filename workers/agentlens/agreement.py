"""How far people agree with each other, and the labeler with them: Fleiss' and Cohen's κ, the confusion of the
four intents, and bootstrap intervals that keep the steps of one run together."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from workers.agentlens.statistics import Floats, Interval, interval, resamples
from workers.agentlens.trajectory import Intent

CATEGORIES: Final = (Intent.E, Intent.I, Intent.V, Intent.O)
"""The order of every table here."""
Codes = npt.NDArray[np.intp]
_NONE: Final = -1


def fleiss_kappa(counts: Floats, weights: Floats | None = None) -> Floats:
    """Fleiss' κ. `counts` has shape (items, categories): how many raters put an item into a category, the same
    number of raters for each item, at least 2. `weights` of shape (..., items) say how often each item counts;
    the result has shape (...). NaN where every rating is of one category, because chance agreement is 1 then.

    J. L. Fleiss, "Measuring nominal scale agreement among many raters", Psychological Bulletin 76 (1971)
    378-382: κ = (P̄ − P̄e) / (1 − P̄e) with P̄ the mean share of agreeing pairs and P̄e = Σ pj²."""
    raters = counts.sum(axis=1)
    if counts.ndim != 2 or not len(counts) or (raters != raters[0]).any() or raters[0] < 2:
        raise ValueError("every item needs the same number of ratings, at least 2")
    weights = np.ones(len(counts)) if weights is None else weights
    shares = _mean(counts / raters[0], weights)
    return _beyond_chance(_mean(_agreeing_pairs(counts)[:, None], weights)[..., 0], (shares**2).sum(axis=-1))


def cohen_kappa(one: Codes, other: Codes, weights: Floats | None = None) -> Floats:
    """Cohen's κ of two raters. `one` and `other` hold category numbers, shape (items,); `weights` as in
    `fleiss_kappa`. NaN where both use one category only, the same.

    J. Cohen, "A coefficient of agreement for nominal scales", Educational and Psychological Measurement 20
    (1960) 37-46: as Fleiss', but chance agreement is Σ pj·qj with each rater's own shares."""
    if one.shape != other.shape or one.ndim != 1 or not len(one):
        raise ValueError("two raters need the same items, at least 1")
    weights = np.ones(len(one)) if weights is None else weights
    size = int(max(one.max(), other.max())) + 1
    same = _mean((one == other).astype(float)[:, None], weights)[..., 0]
    chance = (_mean(np.eye(size)[one], weights) * _mean(np.eye(size)[other], weights)).sum(axis=-1)
    return _beyond_chance(same, chance)


def _agreeing_pairs(counts: Floats) -> Floats:
    """The share of agreeing pairs of raters, for each item; shape (items,)."""
    raters = counts.sum(axis=1)
    shares: Floats = (counts * (counts - 1)).sum(axis=1) / (raters * (raters - 1))
    return shares


def _mean(values: Floats, weights: Floats) -> Floats:
    """Weighted mean over the items: values (items, columns), weights (..., items), result (..., columns)."""
    result: Floats = weights @ values / weights.sum(axis=-1)[..., None]
    return result


def _beyond_chance(observed: Floats, chance: Floats) -> Floats:
    room = np.asarray(1.0 - chance)
    result: Floats = np.divide(observed - chance, room, out=np.full_like(room, np.nan), where=room > 1e-12)
    return result


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """κ with its 95 % interval (runs are resampled), and the share of equal answers, over `steps` steps."""

    kappa: Interval
    raw: float
    steps: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """One intent against the majority. precision: of the steps that the labeler calls so, the share that the
    majority calls so too. recall: of the steps that the majority calls so, the share that the labeler finds.
    NaN where there is no such step."""

    precision: float
    recall: float
    rated: int
    labeled: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """What the sheets say.

    among: Fleiss' κ of the raters, None with one. by_rater: Cohen's κ of each rater and the labeler.
    majority: Cohen's κ of the majority and the labeler, over the steps that have one; None if none has.
    undecided: steps without a majority, left out of it. everyone: Fleiss' κ with the labeler as one more
    rater. confusion: majority (rows) by labeler (columns), in the order of `CATEGORIES`; classes in that order
    too. disputes: positions of the steps where the majority differs from the labeler, or where there is none.
    """

    raters: tuple[str, ...]
    among: Agreement | None
    by_rater: tuple[Agreement, ...]
    majority: Agreement | None
    undecided: int
    everyone: Agreement
    confusion: tuple[tuple[int, ...], ...]
    classes: tuple[Class, ...]
    majorities: tuple[Intent | None, ...]
    disputes: tuple[int, ...]


def study(
    raters: Sequence[str],
    ratings: Sequence[Sequence[Intent]],
    labels: Sequence[Intent],
    runs: Sequence[object],
    *,
    seed: int = 0,
) -> Study:
    """Compare raters with each other and with the labeler.

    `ratings` holds a sequence for each rater, all in the order of `labels`; `runs` says which run each step is
    of. Raises: ValueError if the lengths differ or there is nothing to compare."""
    if not labels or not raters or len(ratings) != len(raters):
        raise ValueError("there must be at least 1 step, and ratings for each rater")
    if any(len(column) != len(labels) for column in (*ratings, runs)):
        raise ValueError("every rater must have rated every step")
    given = np.array([_codes(column) for column in ratings])
    labeled = _codes(labels)
    weights = _weights(runs, seed)
    majority = _majority(given)
    decided = majority != _NONE
    confusion = np.zeros((len(CATEGORIES),) * 2, dtype=int)
    np.add.at(confusion, (majority[decided], labeled[decided]), 1)
    return Study(
        raters=tuple(raters),
        among=_fleiss(given, weights) if len(raters) > 1 else None,
        by_rater=tuple(_cohen(column, labeled, weights) for column in given),
        majority=_cohen(majority[decided], labeled[decided], weights[:, decided]) if decided.any() else None,
        undecided=int((~decided).sum()),
        everyone=_fleiss(np.vstack([given, labeled]), weights),
        confusion=tuple(tuple(int(count) for count in row) for row in confusion),
        classes=_classes(confusion),
        majorities=tuple(None if code == _NONE else CATEGORIES[code] for code in majority),
        disputes=tuple(int(position) for position in np.flatnonzero(majority != labeled)),
    )


def _codes(intents: Sequence[Intent]) -> Codes:
    return np.array([CATEGORIES.index(intent) for intent in intents], dtype=np.intp)


def _weights(runs: Sequence[object], seed: int) -> Floats:
    """How often each step counts in each bootstrap sample; shape (draws, steps)."""
    numbers = {run: number for number, run in enumerate(dict.fromkeys(runs))}
    drawn = np.concatenate(list(resamples(len(numbers), seed=seed)))
    return drawn[:, [numbers[run] for run in runs]]


def _counts(codes: Codes) -> Floats:
    """Ratings as counts: (raters, items) to (items, categories)."""
    counts: Floats = np.eye(len(CATEGORIES))[codes].sum(axis=0)
    return counts


def _majority(codes: Codes) -> Codes:
    """The category that more raters chose than any other, for each item; -1 where two share the lead."""
    counts = _counts(codes)
    most = counts.max(axis=1, keepdims=True)
    is_single = (counts == most).sum(axis=1) == 1
    return np.where(is_single, counts.argmax(axis=1), _NONE)


def _fleiss(codes: Codes, weights: Floats) -> Agreement:
    counts = _counts(codes)
    return Agreement(
        kappa=interval(float(fleiss_kappa(counts)), fleiss_kappa(counts, weights)),
        raw=float(_agreeing_pairs(counts).mean()),
        steps=len(counts),
    )


def _cohen(one: Codes, other: Codes, weights: Floats) -> Agreement:
    # A sample that happens to hold none of the decided steps says nothing about them.
    usable = weights[weights.sum(axis=1) > 0]
    return Agreement(
        kappa=interval(float(cohen_kappa(one, other)), cohen_kappa(one, other, usable)),
        raw=float((one == other).mean()),
        steps=len(one),
    )


def _classes(confusion: npt.NDArray[np.int_]) -> tuple[Class, ...]:
    found = []
    for code in range(len(CATEGORIES)):
        hits, rated, labeled = confusion[code, code], confusion[code].sum(), confusion[:, code].sum()
        found.append(
            Class(
                precision=float(hits / labeled) if labeled else float("nan"),
                recall=float(hits / rated) if rated else float("nan"),
                rated=int(rated),
                labeled=int(labeled),
            )
        )
    return tuple(found)
