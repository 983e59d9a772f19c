"""Every metric that the code exports, by the names that a scrape shows, with the labels it has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families

from api.metrics import families
from api.metrics.traffic import Traffic
from workers import metrics as of_workers
from workers.worker_load import WorkerLoad

#: Prometheus's own about a scrape, and what its client library says of a process on Linux.
OF_A_TARGET = frozenset({"job", "instance"})
OF_A_PROCESS = {
    name: frozenset[str]()
    for name in ("up", "process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds")
}


def exported() -> dict[str, frozenset[str]]:
    """Name of a series → its labels, those of its target left out."""
    found = dict(OF_A_PROCESS)
    for family in (*families.COUNTERS, *families.GAUGES):
        _add(found, family.name, family.kind, family.labels)
    registry = CollectorRegistry()
    Traffic(registry)
    for collector in (*of_workers.REGISTRY._collector_to_names, *registry._collector_to_names):
        # `_labelnames` is how the library keeps what nobody may ask of it: labels before there is a sample.
        if hasattr(collector, "_labelnames"):
            for metric in collector.describe():
                name = metric.name + ("_total" if metric.type == "counter" else "")
                _add(found, name, metric.type, collector._labelnames)
    for metric in WorkerLoad(queues="llm", slots=1).collect():
        found |= labels_seen([metric])
    return found


def _add(found: dict[str, frozenset[str]], name: str, kind: str, labels: Iterable[str]) -> None:
    if kind == "histogram":
        found[f"{name}_bucket"] = frozenset({*labels, "le"})
        found[f"{name}_sum"] = found[f"{name}_count"] = frozenset(labels)
    else:
        found[name] = frozenset(labels)


def labels_seen(metrics: Iterable[Metric]) -> dict[str, frozenset[str]]:
    return {
        sample.name: frozenset(sample.labels)
        for metric in metrics
        for sample in metric.samples
        if not sample.name.endswith("_created")
    }


def scraped(text: str) -> dict[str, frozenset[str]]:
    """The series of a scrape and their labels."""
    return labels_seen(text_string_to_metric_families(text))


def value(text: str, name: str, **labels: str) -> float | None:
    """A sample of a scrape; None if there is none."""
    for metric in text_string_to_metric_families(text):
        for sample in metric.samples:
            if sample.name == name and _matches(sample.labels, labels):
                return float(sample.value)
    return None


def _matches(has: Mapping[str, str], wanted: Mapping[str, str]) -> bool:
    return dict(has) == dict(wanted)
