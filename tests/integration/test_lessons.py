"""What a starting worker learns from the calls of others."""

from __future__ import annotations

from structlog.testing import capture_logs

from tests.integration.stored_runs import seat_key
from tests.integration.test_call_rows import new_call, reply
from workers.provenance.repository import calls
from workers.provenance.repository.call_history import Lesson, lessons
from workers.provenance.session import Database
from workers.settings import Settings
from workers.wiring import Runtime

REQUEST = {"messages": [{"content": "12345"}, {"content": "678"}], "max_tokens": 100}


def finish_call(database: Database, call_id: str, **usage: int | bool) -> None:
    with database.begin() as connection:
        calls.sent(connection, new_call(call_id, seat_key(), request=REQUEST))
        calls.done(connection, call_id, reply(**usage), rung=1, cost_usd=None)


def test_a_lesson_is_what_was_asked_and_what_was_used(seated: Database) -> None:
    finish_call(seated, "c1", input_tokens=20, output_tokens=7, cached_input_tokens=12)

    with seated.begin() as connection:
        found = lessons(connection)

    # 5 + 3 characters; 20 tokens in, 12 of them from a cache.
    assert found == [
        Lesson(
            model="birch-1",
            stage="panel",
            input_characters=8,
            max_tokens=100,
            input_tokens=8,
            output_tokens=7,
        )
    ]


def test_only_the_newest_calls_and_only_counted_ones_teach(seated: Database) -> None:
    for number in range(5):
        finish_call(seated, f"c{number}", input_tokens=number, output_tokens=1)
    finish_call(seated, "guess", input_tokens=99, output_tokens=1, is_estimated=True)
    with seated.begin() as connection:
        calls.sent(connection, new_call("open", seat_key(), request=REQUEST))

    with seated.begin() as connection:
        found = lessons(connection, each=3)

    assert [lesson.input_tokens for lesson in found] == [2, 3, 4]


def test_a_worker_starts_while_the_database_does_not_answer(redis_url: str) -> None:
    away = "postgresql+psycopg://nobody@127.0.0.1:9/nothing"

    with capture_logs() as log:
        runtime = Runtime(Settings(database_url=away, redis_url=redis_url))

    runtime.close()
    assert "lessons.missed" in [entry["event"] for entry in log]
