"""What a health check is told of a worker and of beat."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest
from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import schedule

from tests.e2e.conftest import until
from workers.broker_loss import Scheduler
from workers.celery_app import app
from workers.cli.port import free_port
from workers.worker_health import Heartbeat

#: What Celery's own test worker is called.
_NODE = f"gen{os.getpid()}@{socket.gethostname()}"


def test_a_worker_that_answers_leaves_a_mark(worker: None, tmp_path: Path) -> None:
    heart = Heartbeat(app, node=_NODE, file=tmp_path / "heartbeat")
    assert heart.look(answer_seconds=10)
    assert (tmp_path / "heartbeat").exists()


def test_a_worker_marks_by_itself_again_and_again_until_it_is_closed(worker: None, tmp_path: Path) -> None:
    file = tmp_path / "heartbeat"
    heart = Heartbeat(app, node=_NODE, file=file, every_seconds=0.01)
    heart.start()
    for _ in range(2):
        until(file.exists, "no mark is left")
        file.unlink()
    heart.close()
    assert "worker-health" not in {thread.name for thread in threading.enumerate()}


def test_another_worker_does_not_answer_for_one_that_is_not_there(worker: None, tmp_path: Path) -> None:
    heart = Heartbeat(app, node="nobody@here", file=tmp_path / "heartbeat")
    assert not heart.look(answer_seconds=0.5)
    assert not (tmp_path / "heartbeat").exists()


def test_no_mark_is_left_while_the_broker_is_away(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lonely = Celery("lonely", broker=f"redis://127.0.0.1:{free_port()}/0", set_as_current=False)
    heart = Heartbeat(lonely, node="llm@here", file=tmp_path / "heartbeat")
    assert not heart.look(answer_seconds=0.2)
    assert not (tmp_path / "heartbeat").exists()
    assert "worker.unheard" in capsys.readouterr().out


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
