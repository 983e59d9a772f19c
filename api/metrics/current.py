"""How the installation stands now: what is open, how the queues, the providers and the governor are doing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from prometheus_client.core import GaugeMetricFamily, Metric
from sqlalchemy import Connection

from api.metrics import families as f
from api.metrics.families import Family
from workers.core.batch import BatchState
from workers.core.run import Stage
from workers.core.scoring import OPEN_PARTS, OPEN_STATES, ScoringStage
from workers.governor.base import Lane, Limits, Snapshot
from workers.governor.breaker import Health
from workers.governor.limit_book import LimitBook
from workers.provenance.repository import accounts, limits, open_work
from workers.providers.registry import ProviderConfig, bucket_key
from workers.queues import Queue

Snapshots = Callable[[Mapping[str, Limits]], Mapping[str, Snapshot]]


class Gauges:
    """Values by metric and labels; what is known to exist is 0 until it is set."""

    def __init__(self) -> None:
        self._values: dict[Family, dict[tuple[str, ...], float]] = {}

    def set(self, family: Family, value: float, *labels: str) -> None:
        self._values.setdefault(family, {})[labels] = float(value)

    def collect(self) -> list[Metric]:
        """Only what has a value: a gauge that could not be read is absent, not 0."""
        metrics: list[Metric] = []
        for family, values in self._values.items():
            metric = family.empty()
            assert isinstance(metric, GaugeMetricFamily)  # noqa: S101 - for the type checker
            for labels, value in values.items():
                metric.add_metric(labels, value)
            metrics.append(metric)
        return metrics


def read_rows(gauges: Gauges, connection: Connection, providers: Mapping[str, ProviderConfig]) -> LimitBook:
    """What the database knows; also the limits that hold, for `read_governor`."""
    ages = dict.fromkeys((Queue.LLM, Queue.SANDBOX, Queue.SCORING), 0.0)
    _read_runs(gauges, connection)
    _read_seats(gauges, connection, ages)
    _read_scorings(gauges, connection, ages)
    for queue, age_seconds in ages.items():
        gauges.set(f.QUEUE_AGE, age_seconds, queue.value)
    _read_accounts(gauges, connection, providers)
    book = LimitBook({name: config.limits for name, config in providers.items()})
    book.replace(limits.all_set(connection))
    return book


def _read_runs(gauges: Gauges, connection: Connection) -> None:
    for state in ("waiting", "queued", "running"):
        gauges.set(f.RUNS_OPEN, 0, state)
    oldest = 0.0
    for row in open_work.open_runs(connection):
        gauges.set(f.RUNS_OPEN, row.number, row.state)
        oldest = max(oldest, float(row.oldest_seconds or 0))
    gauges.set(f.OLDEST_RUN, oldest)
    for batch in (BatchState.RUNNING, BatchState.PAUSED, BatchState.CANCELLED):
        gauges.set(f.BATCHES_OPEN, 0, batch.value)
    for row in open_work.open_batches(connection):
        gauges.set(f.BATCHES_OPEN, row.number, row.state)


def _read_seats(gauges: Gauges, connection: Connection, ages: dict[Queue, float]) -> None:
    for stage in Stage:
        for state in ("pending", "deferred", "running"):
            gauges.set(f.SEATS_OPEN, 0, stage.value, state)
    for row in open_work.open_seats(connection):
        gauges.set(f.SEATS_OPEN, row.number, row.stage, row.state)
        if row.state == "pending":
            queue = Queue.SANDBOX if row.stage == Stage.GATE else Queue.LLM
            ages[queue] = max(ages[queue], float(row.oldest_seconds))


def _read_scorings(gauges: Gauges, connection: Connection, ages: dict[Queue, float]) -> None:
    for state in OPEN_STATES:
        gauges.set(f.SCORINGS_OPEN, 0, state.value)
    for row in open_work.open_scorings(connection):
        gauges.set(f.SCORINGS_OPEN, row.number, row.state)
    for stage in ScoringStage:
        for part in OPEN_PARTS:
            gauges.set(f.PARTS_OPEN, 0, stage.value, part.value)
    for row in open_work.open_parts(connection):
        gauges.set(f.PARTS_OPEN, row.number, row.stage, row.state)
        ages[Queue.SCORING] = max(ages[Queue.SCORING], float(row.oldest_seconds or 0))


def _read_accounts(gauges: Gauges, connection: Connection, providers: Mapping[str, ProviderConfig]) -> None:
    for name in providers:
        gauges.set(f.PROVIDER_UP, 1, name)
        gauges.set(f.LOW_QUOTA, 0, name)
    for entry in accounts.published(connection):
        state = entry.state
        # What became of a key that was replaced says nothing of the one in use.
        if state.provider in providers and providers[state.provider].key_digest == state.key_digest:
            gauges.set(f.PROVIDER_UP, not state.is_down, state.provider)
            gauges.set(f.LOW_QUOTA, state.state == Health.LOW, state.provider)


def read_governor(
    gauges: Gauges,
    families: Iterable[tuple[str, str]],
    providers: Mapping[str, ProviderConfig],
    book: LimitBook,
    snapshots: Snapshots,
) -> None:
    """How the buckets stand for everybody; nothing while Redis is away."""
    buckets = {
        bucket_key(providers[provider], family): (provider, family)
        for provider, family in families
        if provider in providers
    }
    for key, snapshot in snapshots({key: book.of_key(key) for key in buckets}).items():
        labels = buckets[key]
        gauges.set(f.GOVERNOR_RUNNING, snapshot.running, *labels)
        gauges.set(f.GOVERNOR_WAITING, snapshot.waiting_interactive, *labels, Lane.INTERACTIVE.value)
        gauges.set(f.GOVERNOR_WAITING, snapshot.waiting_batch, *labels, Lane.BATCH.value)
        gauges.set(f.GOVERNOR_BLOCKED, snapshot.blocked_seconds, *labels)
        bounds = [
            bound for bound in (snapshot.concurrency, snapshot.adaptive_concurrency) if bound is not None
        ]
        if bounds:
            gauges.set(f.GOVERNOR_LIMIT, min(bounds), *labels)


def read_queues(gauges: Gauges, depths: Mapping[Queue, int] | None) -> None:
    """Depths of the queues; None: the broker does not answer."""
    gauges.set(f.BROKER_UP, depths is not None)
    for queue, depth in (depths or {}).items():
        gauges.set(f.QUEUE_MESSAGES, depth, queue.value)
