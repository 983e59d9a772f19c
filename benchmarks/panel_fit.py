"""Parameters of the clustering and of a claim's probability, fitted on some pull requests for use on others."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from panel_replay import COUNTS, Change, Judged, Panel, figures, judge, panels_of, records_of, reviewers_of
from scipy.optimize import minimize

from workers.core.claim import Claim
from workers.core.clustering import in_order
from workers.core.consensus import tally
from workers.core.finding import Review
from workers.core.probability import Scorecard, signs_of
from workers.core.similarity import RemarkRule, pair_signs
from workers.core.weights import Record

FITTING_PANELS = 24
LEAST_LIKENESSES = (0.3, 0.4)
#: Each further claim of a run must be that much likelier, times ln(1 + claims before it).
DISCOUNT = 1.0
#: Ridge on the standardised slopes of the scorecard: few pull requests, many correlated signs.
RIDGE = 100.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    rule: RemarkRule
    scorecard: Scorecard
    records: Mapping[str, Record]

    def counted(self, change: Change, panel: Panel) -> tuple[Sequence[Claim], list[Review]]:
        reviews = [change.reviews[name] for name in panel if name in change.reviews]
        return tally(reviews, None, rule=self.rule).claims, reviews

    def promote(self, change: Change, panel: Panel) -> tuple[list[Sequence[str]], list[Sequence[str]]]:
        """The claims worth reporting, as finding ids; and the same claims at the default quorum of two heads."""
        claims, reviews = self.counted(change, panel)
        scores = self.scorecard.ranked(signs_of(claims, reviews, self.records))
        worth = [claim for claim, score in zip(claims, scores, strict=True) if score >= self.scorecard.least]
        voted = [claim for claim in claims if len(claim.flagged_by) >= 2]
        return [claim.finding_ids for claim in worth], [claim.finding_ids for claim in voted]


def fit(changes: Sequence[Change]) -> Parameters:
    """Everything that is chosen, chosen on these pull requests with panels of five."""
    panels = panels_of(reviewers_of(changes), 5, at_most=FITTING_PANELS)
    intercept, slopes = _fit_pairs(changes, panels)
    records = records_of(changes)
    best: tuple[float, Parameters] | None = None
    for least in LEAST_LIKENESSES:
        rule = RemarkRule(intercept=intercept, slopes=slopes, least=least)
        scored = _fit_scorecard(changes, panels, rule, records)
        if best is None or scored[0] > best[0]:
            best = scored
    assert best is not None
    return best[1]


def logistic(rows: np.ndarray, is_true: np.ndarray, ridge: float) -> tuple[float, np.ndarray]:
    """Intercept and slopes of a logistic regression, ridge on standardised columns."""
    mean, spread = rows.mean(axis=0), rows.std(axis=0) + 1e-9
    standard = (rows - mean) / spread

    def loss(theta: np.ndarray) -> tuple[float, np.ndarray]:
        odds = standard @ theta[1:] + theta[0]
        error = 1 / (1 + np.exp(-odds)) - is_true
        gradient = np.concatenate([[error.sum()], standard.T @ error + ridge * theta[1:]])
        return float(
            np.logaddexp(0, odds).sum() - is_true @ odds + ridge / 2 * theta[1:] @ theta[1:]
        ), gradient

    theta = minimize(loss, np.zeros(rows.shape[1] + 1), jac=True, method="L-BFGS-B").x
    slopes = theta[1:] / spread
    return float(theta[0] - slopes @ mean), slopes


def _fit_pairs(
    changes: Sequence[Change], panels: Sequence[Panel]
) -> tuple[float, tuple[float, float, float]]:
    """What makes two remarks one claim: pairs of different reviewers, at least one of which is known to be
    right about something; the pair is true if both match one issue."""
    rows, is_true = [], []
    for change in changes:
        for panel in panels:
            findings = in_order(f for name in panel for f in change.reviews[name].findings)
            for (left, right), signs in pair_signs(tuple(f.claim for f in findings)).items():
                one, other = (change.matches[findings[index].finding_id] for index in (left, right))
                if findings[left].reviewer != findings[right].reviewer and (one or other):
                    rows.append(signs)
                    is_true.append(bool(one & other))
    intercept, slopes = logistic(np.array(rows), np.array(is_true, dtype=float), ridge=1.0)
    return intercept, (float(slopes[0]), float(slopes[1]), float(slopes[2]))


def _fit_scorecard(
    changes: Sequence[Change], panels: Sequence[Panel], rule: RemarkRule, records: Mapping[str, Record]
) -> tuple[float, Parameters]:
    """The scorecard with the best mean F1 on these pull requests, and that F1.

    The mean of the strict count and of the one that counts an issue once: by the strict count alone it would
    pay to split one issue into many small claims that are each right.
    """
    blank = Parameters(rule=rule, scorecard=Scorecard(intercept=0.0, slopes=()), records=records)
    rows, right, place = [], [], []
    judged = []
    for at, panel in enumerate(panels):
        for change in changes:
            claims, reviews = blank.counted(change, panel)
            for claim, signs in zip(claims, signs_of(claims, reviews, records), strict=True):
                rows.append(signs)
                judged.append(judge(change, claim.finding_ids))
                right.append(judged[-1].found is not None)
                place.append((at, change.name))
    intercept, slopes = logistic(np.array(rows), np.array(right, dtype=float), RIDGE)
    card = Scorecard(intercept=intercept, slopes=tuple(map(float, slopes)), discount=DISCOUNT)
    runs: dict[tuple[int, str], list[int]] = {}
    for index, key in enumerate(place):
        runs.setdefault(key, []).append(index)
    scores = np.empty(len(rows))
    for indices in runs.values():
        scores[indices] = card.ranked([rows[index] for index in indices])
    known = sum(len(change.issues) for change in changes)
    reached, least = max(
        (_mean_f1(scores >= least, judged, place, len(panels), known), float(least))
        for least in np.quantile(scores, np.linspace(0.6, 0.98, 39))
    )
    return reached, dataclasses.replace(blank, scorecard=dataclasses.replace(card, least=least))


def _mean_f1(
    keep: np.ndarray, judged: Sequence[Judged], place: Sequence[tuple[int, str]], panels: int, known: int
) -> float:
    table = np.zeros((panels, COUNTS))
    found: set[tuple[int, str, str]] = set()
    for index in np.flatnonzero(keep):
        at, change = place[index]
        issue = judged[index].found
        table[at, 0] += 1
        if issue is not None:
            table[at, 1] += 1
            if (at, change, issue) not in found:
                found.add((at, change, issue))
                table[at, 2] += 1
    result = figures(table, known)
    return float(result.strict.mean())
