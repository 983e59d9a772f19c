"""What a Celery worker is doing, by task, as its main process knows it: the same for threads and for processes."""

from __future__ import annotations

from collections.abc import Iterator

from celery.worker import state
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from workers.queues import TaskName


class WorkerLoad(Collector):
    """Read at the moment of a scrape: tasks pay nothing for it."""

    def __init__(self, *, queues: str, slots: int) -> None:
        """`slots`: how many tasks may run at once."""
        self._queues = queues
        self._slots = slots

    def collect(self) -> Iterator[Metric]:
        slots = GaugeMetricFamily("consensus_worker_slots", "Tasks that may run at once", labels=("queues",))
        slots.add_metric((self._queues,), self._slots)
        yield slots
        taken = CounterMetricFamily(
            "consensus_worker_tasks_total", "Messages this worker has taken, by task", labels=("task",)
        )
        running = GaugeMetricFamily(
            "consensus_worker_tasks_running", "Tasks at work in this worker", labels=("task",)
        )
        # A set that the worker changes while we count: a copy first.
        at_work = [request.name for request in tuple(state.active_requests)]
        for task in TaskName:
            taken.add_metric((task.value,), state.total_count.get(task.value, 0))
            running.add_metric((task.value,), at_work.count(task.value))
        yield taken
        yield running
