"""A scoring through real Celery, Valkey and PostgreSQL."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery import Celery

from tests.integration.conftest import DEADLINE_SECONDS, pause
from tests.integration.scoring_desk import Desk, scored_here, write_mixed
from tests.recorded_runs import write_cohort
from workers.celery_app import app
from workers.core.scoring import ScoringState
from workers.enqueue import queued_messages, send_parts
from workers.provenance.repository import scorings
from workers.provenance.session import Database
from workers.queues import Queue
from workers.scoring_runtime import make_context
from workers.settings import Settings
from workers.tasks import scoring as tasks


@pytest.fixture
def served(
    worker: None,
    worker_settings: Settings,
    database: Database,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Desk]:
    """The session's worker serves this queue too; threads stand in for its processes."""
    config = worker_settings.model_copy(update={"heartbeat_seconds": 1.0})
    context = make_context(config)
    monkeypatch.setattr(tasks, "scoring_context", lambda: context)
    monkeypatch.setattr(tasks, "settings", lambda: config)
    yield Desk(database)
    context.database.close()


def ended(desk: Desk, scoring_id: str) -> ScoringState:
    deadline = time.monotonic() + DEADLINE_SECONDS * 2
    while not (found := desk.scoring(scoring_id)).has_ended:
        assert time.monotonic() < deadline, f"the scoring has not ended: {found}"
        pause()
    return found.state


def test_a_scoring_ends_with_the_report_of_one_here_and_now(served: Desk, tmp_path: Path) -> None:
    folder = write_mixed(write_cohort(tmp_path / "runs"))
    served.upload(folder)
    scoring_id = served.start()
    send_parts(app, [scorings.first_part(scoring_id)])
    assert ended(served, scoring_id) is ScoringState.FINISHED
    assert served.report(served.scoring(scoring_id)) == scored_here(folder, tmp_path / "spool")


def test_messages_that_never_came_are_sent_by_the_next_look(served: Desk, tmp_path: Path) -> None:
    served.upload(write_cohort(tmp_path / "runs"))
    scoring_id = served.start()
    tasks.tend_scorings()
    assert ended(served, scoring_id) is ScoringState.FINISHED


def test_a_scoring_waits_in_a_queue_of_its_own(unserved: Celery, database: Database, tmp_path: Path) -> None:
    desk = Desk(database)
    desk.upload(write_cohort(tmp_path / "runs"))
    send_parts(unserved, [scorings.first_part(desk.start())])
    assert [queued_messages(unserved, queue) for queue in (Queue.SCORING, Queue.LLM)] == [{3: 1}, {}]
