"""What a health check is told of a worker and of beat."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import schedule

from workers.broker_loss import Scheduler
from workers.celery_app import app
from workers.cli.port import free_port
from workers.errors import UnavailableError
from workers.queues import Queue
from workers.worker_health import served_queues

#: What Celery's own test worker is called.
_NAME = f"gen{os.getpid()}"


def test_a_worker_that_answers_names_its_queues(worker: None) -> None:
    assert served_queues(app, _NAME, timeout_seconds=10) == sorted(queue.value for queue in Queue)


def test_a_worker_that_is_not_there_is_missed_by_name(unserved: Celery) -> None:
    with pytest.raises(UnavailableError, match=r"worker nobody@here has not answered within 0\.2 s"):
        served_queues(unserved, "nobody", timeout_seconds=0.2, host="here")


def test_another_worker_does_not_answer_for_it(worker: None) -> None:
    with pytest.raises(UnavailableError, match="worker nobody@"):
        served_queues(app, "nobody", timeout_seconds=0.5)


def test_a_broker_that_is_away_is_said_to_be_away() -> None:
    lonely = Celery("lonely", broker=f"redis://127.0.0.1:{free_port()}/0", set_as_current=False)
    with pytest.raises(UnavailableError, match="the broker does not answer"):
        served_queues(lonely, "llm", timeout_seconds=0.2)


def _send(sender: Celery, folder: Path) -> None:
    beat = Scheduler(sender, lazy=True, schedule_filename=f"{folder}/schedule")
    beat.apply_entry(ScheduleEntry(name="rescue", task="rescue", schedule=schedule(1), app=sender))


def test_beat_touches_its_file_when_it_has_sent_something(unserved: Celery, tmp_path: Path) -> None:
    heartbeat = tmp_path / "beat"
    unserved.conf.update(heartbeat_file=heartbeat)
    _send(unserved, tmp_path)
    assert heartbeat.exists()


def test_beat_leaves_its_file_alone_while_the_broker_is_away(tmp_path: Path) -> None:
    lonely = Celery("lonely", broker=f"redis://127.0.0.1:{free_port()}/0", set_as_current=False)
    lonely.conf.task_publish_retry_policy = {"max_retries": 1, "interval_start": 0}
    heartbeat = tmp_path / "beat"
    lonely.conf.update(heartbeat_file=heartbeat)
    _send(lonely, tmp_path)
    assert not heartbeat.exists()
