"""What the API exports of the installation, metric by metric. Labels take few values, all of them known before: kinds,
stages, states, providers, families of models. Never ids."""

from __future__ import annotations

import dataclasses
from typing import Literal

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

#: Upper bounds of durations, seconds.
RUN_BOUNDS = (5.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0, 3600.0)
STAGE_BOUNDS = (0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0, 640.0)
CALL_BOUNDS = (0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0)
PART_BOUNDS = (0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """One metric. `name` is what is scraped, but for a histogram's `_bucket`, `_sum` and `_count`."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    labels: tuple[str, ...]
    help: str
    bounds: tuple[float, ...] = ()

    def empty(self) -> Metric:
        """What samples are added to."""
        if self.kind == "counter":
            return CounterMetricFamily(self.name, self.help, labels=self.labels)
        if self.kind == "gauge":
            return GaugeMetricFamily(self.name, self.help, labels=self.labels)
        return HistogramMetricFamily(self.name, self.help, labels=self.labels)


def _counter(name: str, labels: str, text: str) -> Family:
    return Family(name=f"consensus_{name}_total", kind="counter", labels=tuple(labels.split()), help=text)


def _gauge(name: str, labels: str, text: str) -> Family:
    return Family(name=f"consensus_{name}", kind="gauge", labels=tuple(labels.split()), help=text)


def _histogram(name: str, labels: str, text: str, bounds: tuple[float, ...]) -> Family:
    return Family(
        name=f"consensus_{name}_seconds",
        kind="histogram",
        labels=tuple(labels.split()),
        help=text,
        bounds=bounds,
    )


# Counted from the rows of what has ended since this process was first asked.
RUNS_ENDED = _counter("runs_ended", "outcome simulated", "Runs that have ended; cancelled is an outcome here")
RUN_DURATION = _histogram("run_duration", "outcome", "From a run's first message to its end", RUN_BOUNDS)
SEATS_ENDED = _counter("seats_ended", "stage state", "Seats whose work has ended, one way or another")
STAGE_DURATION = _histogram("stage_duration", "stage", "From a seat's first start to its end", STAGE_BOUNDS)
RESCUES = _counter("rescues", "stage", "Lost workers and messages made good, counted when the seat ends")
CALLS = _counter("calls", "provider state", "Model calls that have ended: done, failed, orphaned")
CALL_FAILURES = _counter("call_failures", "provider kind", "Model calls without a reply, by kind of error")
CALL_DURATION = _histogram(
    "call_duration", "provider", "Model calls, the wait for the governor included", CALL_BOUNDS
)
PROVIDER_REQUESTS = _counter(
    "provider_requests", "provider", "HTTP requests of model calls, repeats included"
)
TOKENS = _counter("tokens", "provider direction", "Tokens as billed; input includes what a cache served")
COST = _counter("cost_usd", "provider", "Cost of calls whose model has a known price, US dollars")
UNPRICED = _counter("unpriced_calls", "provider", "Calls whose model has no known price")
SCORINGS_ENDED = _counter("scorings_ended", "state", "Scorings that have ended")
PARTS_ENDED = _counter("scoring_parts_ended", "stage state", "Parts of scorings that have ended")
PART_DURATION = _histogram("scoring_part_duration", "stage", "From a part's start to its end", PART_BOUNDS)
PART_RESCUES = _counter("scoring_rescues", "stage", "Lost parts made good, counted when the part ends")
ASSESSMENTS = _counter("assessments", "origin", "Assessments of ended scorings: computed, or reused")

# As it is now.
DATABASE_UP = _gauge(
    "database_up", "", "1 while the database answers; without it, the gauges below are left out"
)
BROKER_UP = _gauge("broker_up", "", "1 while the broker answers")
RUNS_OPEN = _gauge("runs_open", "state", "Runs waiting in the database, queued or running")
OLDEST_RUN = _gauge("oldest_open_run_seconds", "", "Age of the run that has been under way longest")
BATCHES_OPEN = _gauge("batches_open", "state", "Batches with work left")
SEATS_OPEN = _gauge("seats_open", "stage state", "Seats pending, deferred until a later time, or running")
SCORINGS_OPEN = _gauge("scorings_open", "state", "Scorings queued or running")
PARTS_OPEN = _gauge("scoring_parts_open", "stage state", "Parts of scorings pending or running")
QUEUE_MESSAGES = _gauge("queue_messages", "queue", "Messages that no worker has taken")
QUEUE_AGE = _gauge("queue_age_seconds", "queue", "How long the oldest work that could start has waited")
PROVIDER_UP = _gauge("provider_up", "provider", "0 while nothing is sent to the provider because it failed")
LOW_QUOTA = _gauge("provider_low_quota", "provider", "1 while low-quota mode is on because of the provider")
GOVERNOR_RUNNING = _gauge("governor_running", "provider family", "Calls that hold a lease at the governor")
GOVERNOR_WAITING = _gauge("governor_waiting", "provider family lane", "Calls that wait for a slot")
GOVERNOR_BLOCKED = _gauge("governor_blocked_seconds", "provider family", "For how long nobody may start")
GOVERNOR_LIMIT = _gauge(
    "governor_concurrency_limit",
    "provider family",
    "Calls that may run at once just now, where that is limited",
)

COUNTERS = (
    *(RUNS_ENDED, RUN_DURATION, SEATS_ENDED, STAGE_DURATION, RESCUES),
    *(CALLS, CALL_FAILURES, CALL_DURATION, PROVIDER_REQUESTS, TOKENS, COST, UNPRICED),
    *(SCORINGS_ENDED, PARTS_ENDED, PART_DURATION, PART_RESCUES, ASSESSMENTS),
)
GAUGES = (
    *(DATABASE_UP, BROKER_UP, RUNS_OPEN, OLDEST_RUN, BATCHES_OPEN, SEATS_OPEN, SCORINGS_OPEN, PARTS_OPEN),
    *(QUEUE_MESSAGES, QUEUE_AGE, PROVIDER_UP, LOW_QUOTA),
    *(GOVERNOR_RUNNING, GOVERNOR_WAITING, GOVERNOR_BLOCKED, GOVERNOR_LIMIT),
)
