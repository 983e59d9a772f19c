"""What pages read beside the API's own queries."""

from __future__ import annotations

import datetime as dt

from sqlalchemy import func, select

from tests.integration.stored_runs import AT, finish, open_seats, seat_key, set_seat, store_run
from workers.core.run import SeatState, Stage
from workers.provenance.redaction import Selection, redact
from workers.provenance.repository import run_titles, seat_times
from workers.provenance.repository.run_titles import MOST_BYTES, first_line
from workers.provenance.session import Database


def test_seats_come_in_the_order_of_rounds_with_their_times(database: Database) -> None:
    store_run(database)
    second = seat_key("coder", Stage.CODER, round_=2)
    open_seats(database, second)
    open_seats(database, seat_key("left"), seat_key("right"))
    later = AT + dt.timedelta(seconds=5)
    set_seat(database, seat_key("left"), state=SeatState.RUNNING, started_at=later, rescues=2)
    with database.begin() as connection:
        found = seat_times.of_run(connection, "run_1")
        assert seat_times.of_run(connection, "run_none") == []
    assert [(time.round, time.stage, time.seat, time.state) for time in found] == [
        (1, Stage.PANEL, "left", SeatState.RUNNING),
        (1, Stage.PANEL, "right", SeatState.PENDING),
        (2, Stage.CODER, "coder", SeatState.PENDING),
    ]
    assert (found[0].started_at, found[0].rescues, found[1].started_at) == (later, 2, None)


def test_titles_are_first_lines_of_specs_that_are_there_and_small(database: Database) -> None:
    store_run(database, "run_1", spec="\n\n## Slugs ##\nmore")
    store_run(database, "run_2", spec="x" * 1000)
    store_run(database, "run_3", spec="huge", files={"a.py": "x" * MOST_BYTES})
    store_run(database, "run_4", spec="hidden")
    finish(database, "run_4")
    gone = store_run(database, "run_5", spec="dropped").input_digest
    with database.begin() as connection:
        connection.execute(select(func.drop_payload_bodies([gone], func.now(), "a test")))
        redact(connection, "run_4", Selection(everything=True), who="me", why="a test", at=AT)
        found = run_titles.of_runs(connection, ["run_1", "run_2", "run_3", "run_4", "run_5", "run_none"])
        assert run_titles.of_runs(connection, []) == {}
    assert found == {"run_1": "Slugs ##", "run_2": "x" * 240}


def test_the_first_line_is_the_first_that_says_something() -> None:
    assert [first_line(spec) for spec in ("", "\n \n", "  a\nb", "# \n# Title")] == ["", "", "a", "Title"]
