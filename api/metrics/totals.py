"""Counters and histograms that grow by what was found, in memory: what has been counted is never counted again, and
never falls when rows are deleted."""

from __future__ import annotations

import dataclasses
import itertools
from collections import defaultdict
from collections.abc import Iterable, Sequence

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from api.metrics.families import Family


@dataclasses.dataclass(slots=True)
class _Spread:
    """A histogram: how many per bucket, the last of which is open at the top, and the sum."""

    counts: list[int]
    total: float = 0.0


class Totals:
    """Sums by metric and labels. Not safe to use from several threads at once."""

    def __init__(self) -> None:
        self._sums: dict[Family, dict[tuple[str, ...], float]] = defaultdict(dict)
        self._spreads: dict[Family, dict[tuple[str, ...], _Spread]] = defaultdict(dict)

    def know(self, family: Family, *labels: str) -> None:
        """There may be such: it is exported as 0 until there are, so that the first one is seen as a rise."""
        if family.kind == "histogram":
            self._spread(family, labels)
        else:
            self._sums[family].setdefault(labels, 0.0)

    def add(self, family: Family, value: float, *labels: str) -> None:
        sums = self._sums[family]
        sums[labels] = sums.get(labels, 0.0) + value

    def observe(self, family: Family, bucket: int, count: int, total: float, *labels: str) -> None:
        """`count` durations of the bucket, `total` seconds together. bucket: how many of the bounds are not above
        them, 0 to len(bounds)."""
        spread = self._spread(family, labels)
        spread.counts[bucket] += count
        spread.total += total

    def _spread(self, family: Family, labels: tuple[str, ...]) -> _Spread:
        return self._spreads[family].setdefault(labels, _Spread([0] * (len(family.bounds) + 1)))

    def collect(self, families: Iterable[Family]) -> list[Metric]:
        return [self._collected(family) for family in families]

    def _collected(self, family: Family) -> Metric:
        metric = family.empty()
        if isinstance(metric, HistogramMetricFamily):
            for labels, spread in self._spreads[family].items():
                metric.add_metric(labels, _cumulative(family.bounds, spread.counts), spread.total)
        elif isinstance(metric, CounterMetricFamily):
            for labels, value in self._sums[family].items():
                metric.add_metric(labels, value)
        return metric


def _cumulative(bounds: Sequence[float], counts: Sequence[int]) -> list[tuple[str, float]]:
    """Prometheus's form: for each bound, and for infinity at the end, how many are not above it."""
    names = [*(str(bound) for bound in bounds), "+Inf"]
    return [(name, float(sum_)) for name, sum_ in zip(names, itertools.accumulate(counts), strict=True)]
