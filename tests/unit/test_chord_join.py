"""A chord's join may be lost: the rows say what is left to do."""

from __future__ import annotations

import pytest
import redis.exceptions
from celery import Celery
from celery.backends.redis import RedisBackend

from workers.chord_join import JoinBackend


@pytest.fixture
def backend() -> JoinBackend:
    app = Celery("test", set_as_current=False, broker="memory://")
    return JoinBackend(app=app, url="redis://127.0.0.1:1/0")


def test_a_broker_that_is_away_fails_no_seat_that_has_settled(
    backend: JoinBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise redis.exceptions.ConnectionError("gone")

    monkeypatch.setattr(RedisBackend, "on_chord_part_return", away)
    assert backend.on_chord_part_return(None, "SUCCESS", None) is None


def test_a_join_that_broke_calls_nobody_back(backend: JoinBackend) -> None:
    def body(*_: object) -> None:
        raise AssertionError("called back")

    assert backend.chord_error_from_stack(body, ValueError("a header failed")) is None


def test_nobody_waits_for_a_result(backend: JoinBackend) -> None:
    result = object()
    assert backend.add_pending_result(result) is result
    assert backend.on_task_call(None, "task") == {}
