"""What `/metrics` answers: a look at the installation, at most every few seconds however often it is asked for, and
this process's own traffic."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterator, Mapping

import structlog
from prometheus_client import CollectorRegistry, ProcessCollector, disable_created_metrics, generate_latest
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from sqlalchemy import text

from api.metrics import families as f
from api.metrics.current import Gauges, Snapshots, read_governor, read_queues, read_rows
from api.metrics.ended import Ended
from api.metrics.traffic import Traffic
from workers.errors import UnavailableError
from workers.provenance.session import Database
from workers.providers.registry import ProviderConfig
from workers.queues import Queue

#: A look serves everybody who asks within this time.
FRESH_SECONDS = 5.0
#: What is older is no longer told, should a look hang.
STALE_SECONDS = 60.0

#: No look may burden the database for longer.
_BOUNDED = text("SET LOCAL statement_timeout = '5s'")

log = structlog.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sources:
    """Where an installation is looked at. `depths`: messages by queue, None while the broker is away."""

    database: Database
    providers: Callable[[], Mapping[str, ProviderConfig]]
    depths: Callable[[], Mapping[Queue, int] | None]
    snapshots: Snapshots


class Installation(Collector):
    """The installation's metrics, from its rows, its broker and its governor."""

    def __init__(self, sources: Sources, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._sources = sources
        self._clock = clock
        self._began_at = clock()
        self._ended = Ended()
        self._lock = threading.Lock()
        self._seen: list[Metric] = []
        self._seen_at: float | None = None

    def describe(self) -> list[Metric]:
        return [family.empty() for family in (*f.COUNTERS, *f.GAUGES)]

    def collect(self) -> Iterator[Metric]:
        # Whoever comes while somebody looks gets what was seen before: a look that hangs must not gather threads.
        if self._lock.acquire(blocking=self._seen_at is None):
            try:
                if self._age_seconds >= FRESH_SECONDS:
                    self._seen = self._look()
                    self._seen_at = self._clock()
            finally:
                self._lock.release()
        elif self._age_seconds > STALE_SECONDS:
            yield from _down()
            return
        yield from self._seen

    @property
    def _age_seconds(self) -> float:
        return float("inf") if self._seen_at is None else self._clock() - self._seen_at

    def _look(self) -> list[Metric]:
        gauges, sources = Gauges(), self._sources
        providers = sources.providers()
        try:
            with sources.database.begin() as connection:
                connection.execute(_BOUNDED)
                self._ended.count(connection, providers, of_seconds=self._clock() - self._began_at)
                book = read_rows(gauges, connection, providers)
        except UnavailableError as error:
            log.warning("metrics.database_away", error=str(error))
            gauges = Gauges()
            gauges.set(f.DATABASE_UP, 0)
        else:
            gauges.set(f.DATABASE_UP, 1)
            read_governor(gauges, self._ended.families, providers, book, sources.snapshots)
        read_queues(gauges, sources.depths())
        return [*self._ended.collect(), *gauges.collect()]


def _down() -> list[Metric]:
    gauges = Gauges()
    gauges.set(f.DATABASE_UP, 0)
    return gauges.collect()


class Scrape:
    """One API process's exposition."""

    def __init__(self, sources: Sources) -> None:
        # A second sample for every one, of when it began, which nobody reads.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self._registry = CollectorRegistry()
        self.traffic = Traffic(self._registry)
        self._registry.register(Installation(sources))
        ProcessCollector(registry=self._registry)

    def __call__(self) -> bytes:
        """In Prometheus's text format."""
        return generate_latest(self._registry)
