"""Counters and histograms that are added up in memory."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from api.metrics.families import Family
from api.metrics.totals import Totals
from tests.exported_metrics import value

COUNTER = Family(name="things_total", kind="counter", labels=("kind",), help="Things")
SPREAD = Family(name="lasts_seconds", kind="histogram", labels=("kind",), help="Lasts", bounds=(1.0, 10.0))


def shown(totals: Totals) -> str:
    class Collected(Collector):
        def collect(self):  # type: ignore[no-untyped-def]
            return totals.collect([COUNTER, SPREAD])

    registry = CollectorRegistry()
    registry.register(Collected())
    return generate_latest(registry).decode()


def test_what_may_come_is_told_as_nothing_before_it_comes() -> None:
    totals = Totals()
    totals.know(COUNTER, "a")
    totals.know(SPREAD, "a")

    text = shown(totals)

    assert value(text, "things_total", kind="a") == 0
    assert value(text, "lasts_seconds_count", kind="a") == 0
    assert value(text, "things_total", kind="b") is None


def test_what_is_known_already_keeps_its_value() -> None:
    totals = Totals()
    totals.add(COUNTER, 2, "a")
    totals.know(COUNTER, "a")

    assert value(shown(totals), "things_total", kind="a") == 2


def test_buckets_are_told_as_prometheus_adds_them_up() -> None:
    totals = Totals()
    totals.observe(SPREAD, 0, 4, 2.0, "a")  # four below 1 s
    totals.observe(SPREAD, 2, 1, 60.0, "a")  # one from 10 s on

    text = shown(totals)

    assert value(text, "lasts_seconds_bucket", kind="a", le="1.0") == 4
    assert value(text, "lasts_seconds_bucket", kind="a", le="10.0") == 4
    assert value(text, "lasts_seconds_bucket", kind="a", le="+Inf") == 5
    assert value(text, "lasts_seconds_sum", kind="a") == 62


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(1, 5), st.floats(0, 100))))
def test_buckets_never_fall_and_end_at_the_count(seen: list[tuple[int, int, float]]) -> None:
    totals = Totals()
    totals.know(SPREAD, "a")
    for bucket, count, seconds in seen:
        totals.observe(SPREAD, bucket, count, seconds, "a")

    text = shown(totals)
    heights = [value(text, "lasts_seconds_bucket", kind="a", le=le) or 0 for le in ("1.0", "10.0", "+Inf")]

    assert heights == sorted(heights)
    assert heights[-1] == sum(count for _, count, _ in seen) == value(text, "lasts_seconds_count", kind="a")
