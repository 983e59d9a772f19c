"""A broker or a database that goes away ends no worker, fails no chord and fills no log."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
import redis
from celery import Celery
from celery.beat import ScheduleEntry
from celery.schedules import schedule
from kombu import Connection

from workers.broker_loss import Channel, Scheduler, Transport
from workers.celery_app import app
from workers.cli.port import free_port
from workers.errors import UnavailableError


@app.task(name="test.broken-off")
def broken_off() -> None:
    raise UnavailableError("the database does not answer")


def test_every_connection_to_redis_is_one_that_bears_its_loss(redis_url: str) -> None:
    with Connection(redis_url) as connection:
        assert isinstance(connection.transport, Transport)
        assert isinstance(connection.default_channel, Channel)


def test_a_channel_whose_connection_was_given_up_closes_with_an_error_that_kombu_expects(
    redis_url: str,
) -> None:
    """It used to be an AttributeError, which ended the worker."""
    connection = Connection(redis_url)
    channel = connection.default_channel
    channel._pool = None
    connection.transport.client = None

    channel.basic_ack("a message of the lost connection")
    with pytest.raises(redis.exceptions.ConnectionError, match="given up"):
        channel._connparams()
    assert redis.exceptions.ConnectionError in connection.connection_errors
    connection.release()


def test_a_message_that_cannot_be_acknowledged_is_left_to_come_again(
    redis_url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with Connection(redis_url) as connection:
        channel = connection.default_channel
        channel._disconnect_pools()
        channel._pool = redis.ConnectionPool(port=free_port())

        channel.basic_ack("a message")

        channel._pool = None
    assert "broker.away" in capsys.readouterr().out


def test_a_task_that_the_database_broke_off_has_not_failed() -> None:
    assert broken_off() is None


def test_beat_says_in_a_line_that_the_broker_is_away(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    lonely = Celery("lonely", broker=f"redis://127.0.0.1:{free_port()}/0")
    lonely.conf.task_publish_retry_policy = {"max_retries": 1, "interval_start": 0}
    beat = Scheduler(lonely, lazy=True, schedule_filename=f"{tmp_path}/schedule")
    entry = ScheduleEntry(name="rescue", task="rescue", schedule=schedule(1), app=lonely)
    with caplog.at_level(logging.INFO):
        beat.apply_entry(entry)
    # Beat itself would have logged an error with four tracebacks.
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []
    assert capsys.readouterr().out.count("\n") == 1
