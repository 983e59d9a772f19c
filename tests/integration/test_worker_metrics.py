"""What a worker tells of its own doings, over HTTP, while runs go through it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import promql_parser as promql
import pytest
from prometheus_client import REGISTRY as UNUSED
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from starlette.responses import Response

from tests.architecture.test_operations import _children, expressions
from tests.cages import NoCage, result
from tests.exported_metrics import exported, scraped, value
from tests.integration.conftest import Bench
from tests.integration.model_server import GOOD, ModelServer, error_429
from workers import metrics
from workers.errors import CageError, UnavailableError
from workers.metrics_port import MetricsPort
from workers.sandbox.base import Ending, Limits
from workers.sandbox.counted import CountedCage
from workers.worker_load import WorkerLoad


@pytest.fixture
def port() -> Iterator[str]:
    """The address of this process's metrics."""
    load = WorkerLoad(queues="llm,control", slots=16)
    metrics.REGISTRY.register(load)
    opened = MetricsPort(metrics.REGISTRY, host="127.0.0.1", port=0)
    yield f"http://127.0.0.1:{opened.port}/metrics"
    opened.close()
    metrics.REGISTRY.unregister(load)


def read(port: str) -> str:
    return httpx.get(port).raise_for_status().text


def refused_once(role: str, body: dict[str, Any], before: int) -> str | Response:
    return error_429(role, body, before) if before == 0 else json.dumps(GOOD[role])


def test_a_run_shows_in_tasks_governor_waits_and_refusals(
    bench: Bench, models: ModelServer, port: str
) -> None:
    before = read(port)
    models.behave["birch-1"] = refused_once

    bench.verdict(bench.submit())
    after = read(port)

    def rise(name: str, **labels: str) -> float:
        return (value(after, name, **labels) or 0) - (value(before, name, **labels) or 0)

    tasks = {
        task: rise("consensus_worker_tasks_total", task=task)
        for task in ("coder", "review", "consensus", "lead", "finish")
    }
    assert tasks == {"coder": 1, "review": 2, "consensus": 1, "lead": 1, "finish": 1}
    # Five calls, one of which was refused and sent again after a turn of its own.
    lane = {"provider": "local", "lane": "interactive"}
    assert rise("consensus_governor_wait_seconds_count", **lane) == 6
    assert rise("consensus_provider_refusals_total", provider="local", kind="rate_limited") == 1
    assert rise("consensus_calls_in_flight", provider="local") == 0
    assert value(after, "consensus_worker_slots", queues="llm,control") == 16


def test_what_is_scraped_is_what_is_declared(bench: Bench, models: ModelServer, port: str) -> None:
    bench.verdict(bench.submit())

    shown = {name: labels for name, labels in scraped(read(port)).items() if name.startswith("consensus_")}

    declared = exported()
    assert {name: labels for name, labels in shown.items() if declared.get(name) != labels} == {}
    # Nothing of ours stands in the registry that Flower shows.
    assert not [name for name in UNUSED._names_to_collectors if name.startswith("consensus_")]


def _given(node: Any) -> Iterator[tuple[str, str, str]]:
    """(metric, label, value) of every selector in an expression."""
    if isinstance(node, promql.VectorSelector):
        for matcher in node.matchers.matchers:
            for alternative in matcher.value.split("|"):
                yield node.name, matcher.name, alternative
        return
    for child in _children(node):
        yield from _given(child)


def test_dashboard_and_alerts_ask_for_labels_that_have_these_values(
    bench: Bench, models: ModelServer, port: str, scrape: str
) -> None:
    bench.verdict(bench.submit())
    known = {
        (sample.name, label, named)
        for text in (read(port), scrape)
        for metric in text_string_to_metric_families(text)
        for sample in metric.samples
        for label, named in sample.labels.items()
    }
    asked = {
        given
        for _, expression in expressions()
        for given in _given(promql.parse(expression.replace("$__rate_interval", "1m")))
    }
    asked = {given for given in asked if given[0].startswith("consensus_") and ".*" not in given[2]}

    assert ("consensus_provider_refusals_total", "kind", "rate_limited") in asked
    assert asked - known == set()


@pytest.fixture
def scrape(bench: Bench) -> str:
    """What the API tells of the installation."""
    from prometheus_client import generate_latest

    from api.metrics.scrape import Installation, Sources

    registry = CollectorRegistry()
    registry.register(
        Installation(
            Sources(database=bench.database, providers=dict, depths=lambda: None, snapshots=lambda _: {})
        )
    )
    return generate_latest(registry).decode()


def _rises(cage: CountedCage, name: str, **labels: str) -> float:
    before = metrics.REGISTRY.get_sample_value(name, labels) or 0
    cage.run({}, ["x", '{"repeats": {}}'], Limits())
    return (metrics.REGISTRY.get_sample_value(name, labels) or 0) - before


class Ends(NoCage):
    """A cage whose programs end so."""

    def __init__(self, ending: Ending) -> None:
        self.ending = ending

    def run(self, workspace: Any, command: Any, limits: Limits) -> Any:
        assert metrics.REGISTRY.get_sample_value("consensus_cages_running") == 1
        return result(b"", limits, ending=self.ending)


class Breaks(NoCage):
    def run(self, workspace: Any, command: Any, limits: Limits) -> Any:
        raise CageError("the engine is gone")


@pytest.mark.parametrize("ending", list(Ending))
def test_programs_in_cages_are_counted_by_how_they_end(ending: Ending) -> None:
    cage = CountedCage(Ends(ending))
    assert _rises(cage, "consensus_cages_ended_total", ending=ending.value) == 1
    assert _rises(cage, "consensus_cage_duration_seconds_count") == 1
    assert metrics.REGISTRY.get_sample_value("consensus_cages_running") == 0


def test_programs_without_a_cage_and_broken_cages_are_counted_apart() -> None:
    assert _rises(CountedCage(NoCage()), "consensus_cages_refused_total", reason="no_engine") == 1
    assert CountedCage(NoCage()).check() == NoCage().check()
    before = metrics.REGISTRY.get_sample_value("consensus_cages_broken_total") or 0
    with pytest.raises(CageError):
        CountedCage(Breaks()).run({}, ["x"], Limits())
    assert metrics.REGISTRY.get_sample_value("consensus_cages_broken_total") == before + 1


@pytest.mark.parametrize(
    ("path", "token", "offered", "status"),
    [
        ("/metrics", None, None, 200),
        ("/", None, None, 404),
        ("/metrics", "tok-1", None, 401),
        ("/metrics", "tok-1", "tok-2", 401),
        ("/metrics", "tok-1", "tok-1", 200),
    ],
)
def test_a_port_answers_those_who_bring_its_token(
    path: str, token: str | None, offered: str | None, status: int
) -> None:
    opened = MetricsPort(CollectorRegistry(), host="127.0.0.1", port=0, token=token)
    try:
        headers = {} if offered is None else {"Authorization": f"Bearer {offered}"}
        answer = httpx.get(f"http://127.0.0.1:{opened.port}{path}", headers=headers)
    finally:
        opened.close()

    assert answer.status_code == status


def test_a_port_in_use_is_told_in_a_sentence() -> None:
    first = MetricsPort(CollectorRegistry(), host="127.0.0.1", port=0)
    try:
        with pytest.raises(UnavailableError, match=f"at 127.0.0.1:{first.port}: .*METRICS_PORT"):
            MetricsPort(CollectorRegistry(), host="127.0.0.1", port=first.port)
    finally:
        first.close()
