"""The database goes away for a moment while a seat's work is done: the work is kept, once."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, text

from tests.factories import team_data
from tests.integration.desk import desk, providers_at
from tests.integration.model_server import ModelServer
from tests.integration.stored_runs import kinds_of, seat_row, store_run
from workers.core.run import Enqueue, SeatState, Stage
from workers.errors import UnavailableError
from workers.provenance.repository.stages import SeatKey
from workers.provenance.session import Database
from workers.stages.context import Context
from workers.stages.seat import Work, advance, run_seat
from workers.stages.walk import SeatFailedError

KEY = SeatKey(run_id="run_1", round=1, stage=Stage.CODER, seat="coder")


@dataclasses.dataclass
class Restarting:
    """A database that refuses the next `refusals` transactions."""

    database: Database
    refusals: int = 0

    @contextmanager
    def begin(self) -> Iterator[Connection]:
        if self.refusals:
            self.refusals -= 1
            raise UnavailableError("the database does not answer: it is starting up")
        with self.database.begin() as connection:
            yield connection


@pytest.fixture
def away(database: Database) -> Restarting:
    store_run(database, team=team_data())
    return Restarting(database)


@pytest.fixture
def context(away: Restarting, redis_url: str, models: ModelServer) -> Iterator[Context]:
    with desk(away.database, redis_url, providers_at(models)) as made:
        advance(made.context, KEY.run_id)
        yield dataclasses.replace(made.context, database=away)  # type: ignore[arg-type]


def test_an_answer_is_kept_although_the_database_restarts_before_it_is_settled(
    context: Context, away: Restarting
) -> None:
    def do(_work: Work) -> tuple[str, dict[str, Any]]:
        assert context.at_work.all() == [KEY]
        away.refusals = 5
        return "candidate.written", {"seat": "coder", "files": {}}

    following = run_seat(context, KEY, do)

    assert isinstance(following, Enqueue)
    assert following.stage is Stage.PANEL
    assert seat_row(away.database, KEY).state == SeatState.DONE
    assert kinds_of(away.database).count("candidate.written") == 1
    assert context.at_work.all() == []


def test_a_seat_that_gives_up_while_the_database_restarts_has_given_up(
    context: Context, away: Restarting
) -> None:
    def do(_work: Work) -> tuple[str, dict[str, Any]]:
        away.refusals = 5
        raise SeatFailedError("refusal", "the model refuses")

    run_seat(context, KEY, do)

    assert seat_row(away.database, KEY).state == SeatState.FAILED
    assert kinds_of(away.database).count("coder.failed") == 1


def test_a_database_that_stays_away_leaves_the_seat_to_the_rescue(context: Context, away: Restarting) -> None:
    def do(_work: Work) -> tuple[str, dict[str, Any]]:
        away.refusals = 1_000_000
        return "candidate.written", {"seat": "coder", "files": {}}

    with pytest.raises(UnavailableError, match="starting up"):
        run_seat(context, KEY, do)
    assert seat_row(away.database, KEY).state == SeatState.RUNNING
    assert context.at_work.all() == []


def test_a_client_that_stands_still_in_a_transaction_gives_back_its_locks(database: Database) -> None:
    with database.begin() as connection:
        shown = connection.execute(text("SHOW idle_in_transaction_session_timeout")).scalar_one()
    assert shown == "1min"
