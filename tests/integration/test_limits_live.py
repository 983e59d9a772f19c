"""A worker in the middle of its work keeps to limits that an operator sets."""

from __future__ import annotations

import time

from tests.integration.conftest import DEADLINE_SECONDS, Bench, pause
from tests.integration.model_server import ModelServer
from workers.governor.base import Limits
from workers.governor.limit_book import LimitsSet
from workers.provenance.repository import limits

FAMILIES = ("alder", "birch", "cedar")
#: Of five calls each.
RUNS = 24


def next_requests(models: ModelServer, count: int) -> int:
    """The most that were being answered at once while the next `count` requests came."""
    models.most_running = models.running
    last = sum(models.requests.values()) + count
    deadline = time.monotonic() + DEADLINE_SECONDS
    while sum(models.requests.values()) < last:
        assert time.monotonic() < deadline, "no more requests come"
        pause()
    return models.most_running


def test_limits_hold_within_a_heartbeat_while_runs_are_going(bench: Bench, models: ModelServer) -> None:
    """Three model families, each with a bucket of its own: at most three calls at once, where there were more."""
    models.answer_seconds = 0.03
    # Nobody is answered before four ask at once: whether they would overlap is not left to the speed of the machine.
    models.holding = True
    run_ids = [bench.submit() for _ in range(RUNS)]
    next_requests(models, 4)
    assert models.running > 3

    with bench.database.begin() as connection:
        for family in FAMILIES:
            entry = LimitsSet(provider="local", family=family, limits=Limits(concurrency=1))
            limits.put(connection, entry)
    models.holding = False

    # One beat to read them; what had begun before may end. A deadline in `next_requests` ends this if they never hold.
    while next_requests(models, 6) > 3:
        assert sum(models.requests.values()) < 4 * RUNS, "the limits came too late to be seen"
    models.most_running = models.running
    for run_id in run_ids:
        assert bench.verdict(run_id)["outcome"] == "accepted"
    assert 1 <= models.most_running <= 3
