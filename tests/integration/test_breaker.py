"""A provider that is down: who is kept from asking, who finds out, and how seats wait for it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from sqlalchemy import func, select

from tests.integration.desk import Clock, Desk, chain_team, desk, providers_at, store
from tests.integration.model_server import HANG, ModelServer, error_500
from tests.integration.stored_batches import put_into_batch, store_batch
from tests.integration.stored_runs import ago, events_of, kinds_of, seat_row, set_seat
from workers.core.run import SeatState
from workers.governor.breaker import FAILURES_TO_OPEN, SHORTEST_OPEN_SECONDS
from workers.provenance.repository.stages import SeatKey
from workers.provenance.session import Database
from workers.stages.rescue import rescue
from workers.stages.walk import MOST_DELIVERIES, MOST_DELIVERIES_WHEN_DOWN

MODEL = "gpt-5"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def down(database: Database, redis_url: str, models: ModelServer, clock: Clock) -> Iterator[Desk]:
    """A desk whose breaker was just opened by five failures in a row, of five seats that sent one request each."""
    models.behave[MODEL] = error_500
    with desk(database, redis_url, providers_at(models), clock=clock) as opened:
        for number in range(FAILURES_TO_OPEN):
            run_id = store(database, f"run_{number}", chain_team([f"openai/{MODEL}"], retries=0))
            opened.work(opened.open(run_id))
        assert models.requests[MODEL] == FAILURES_TO_OPEN
        models.requests.clear()
        yield opened


def coder_of(down: Desk, run_id: str, *, is_batch: bool = False) -> SeatKey:
    store(down.context.database, run_id, chain_team([f"openai/{MODEL}"], retries=0))
    if is_batch:
        store_batch(down.context.database, count=0)
        put_into_batch(down.context.database, run_id, "batch_1")
    return down.open(run_id)


def waits(down: Desk, key: SeatKey) -> float:
    """Seconds until the seat's time comes."""
    row = seat_row(down.context.database, key)
    with down.context.database.begin() as connection:
        now = connection.scalar(select(func.now()))
    return float((row.not_before - now).total_seconds())


def test_an_open_breaker_keeps_others_from_sending_and_defers_their_seats(
    down: Desk, models: ModelServer
) -> None:
    key = coder_of(down, "later")

    assert down.work(key) is None

    row = seat_row(down.context.database, key)
    assert (models.requests[MODEL], row.state, row.owner, row.attempts) == (0, "pending", None, 0)
    assert 0 < waits(down, key) <= SHORTEST_OPEN_SECONDS
    event = events_of(down.context.database, "later")[-1]
    assert event.kind == "seat.deferred"
    assert event.payload["wait_seconds"] == SHORTEST_OPEN_SECONDS
    assert f"openai/{MODEL}: not asked: " in event.payload["detail"]


def test_a_deferred_seat_comes_back_with_the_rescue_and_its_trial_closes_the_breaker(
    down: Desk, models: ModelServer, clock: Clock, database: Database
) -> None:
    key = coder_of(down, "later")
    down.work(key)
    assert sweep(down) == ()  # its time has not come
    models.behave.clear()

    clock.now += SHORTEST_OPEN_SECONDS
    set_seat(database, key, not_before=ago(0))
    assert sweep(down) == (key,)
    down.work(key)

    assert seat_row(database, key).state == "done"
    assert models.requests[MODEL] == 1
    assert kinds_of(database, "later")[-3:] == ["seat.deferred", "candidate.written", "stage.opened"]
    assert [change.state for change in down.accounts.take_changes()] == ["good"]


def sweep(down: Desk) -> tuple[SeatKey, ...]:
    return rescue(down.context, pending_seconds=60, stalled_seconds=60, max_rescues=3).seats


def test_a_trial_that_fails_sends_one_request_and_doubles_the_time(
    down: Desk, models: ModelServer, clock: Clock
) -> None:
    clock.now += SHORTEST_OPEN_SECONDS
    down.work(coder_of(down, "trial"))
    assert models.requests[MODEL] == 1

    key = coder_of(down, "later")
    down.work(key)

    assert models.requests[MODEL] == 1
    assert SHORTEST_OPEN_SECONDS < waits(down, key) <= 2 * SHORTEST_OPEN_SECONDS


def test_one_call_at_a_time_is_the_trial_and_a_cancelled_one_leaves_it_to_the_next(
    down: Desk, models: ModelServer, clock: Clock
) -> None:
    clock.now += SHORTEST_OPEN_SECONDS
    models.behave[MODEL] = HANG
    trial = threading.Thread(target=down.work, args=(coder_of(down, "trial"),))
    trial.start()
    assert models.hanging.wait(10)

    other = coder_of(down, "other")
    down.work(other)
    assert (models.requests[MODEL], seat_row(down.context.database, other).state) == (1, "pending")

    down.gateway.cancel("trial")
    trial.join(10)
    models.behave.clear()
    down.work(coder_of(down, "next"))
    assert models.requests[MODEL] == 2
    assert kinds_of(down.context.database, "next")[-2] == "candidate.written"


@pytest.mark.parametrize(
    ("is_batch", "earlier", "state"),
    [
        # The delivery that is coming makes it one more.
        (False, MOST_DELIVERIES_WHEN_DOWN - 2, SeatState.PENDING),
        (False, MOST_DELIVERIES_WHEN_DOWN - 1, SeatState.FAILED),
        (True, MOST_DELIVERIES_WHEN_DOWN - 1, SeatState.PENDING),
        # A batch waits as long as it takes, and it costs the seat nothing.
        (True, MOST_DELIVERIES - 1, SeatState.PENDING),
    ],
)
def test_a_batch_waits_longer_for_a_provider_that_is_down_than_somebody_who_sits_and_waits(
    is_batch: bool, earlier: int, state: SeatState, down: Desk, models: ModelServer
) -> None:
    key = coder_of(down, "later", is_batch=is_batch)
    set_seat(down.context.database, key, deliveries=earlier)

    down.work(key)

    row = seat_row(down.context.database, key)
    assert (row.state, models.requests[MODEL]) == (state, 0)
    assert row.deliveries == earlier + (not is_batch)
    if state is SeatState.FAILED:
        assert row.cause == "overload"
        assert "not asked" in row.detail


def test_a_seat_with_another_model_does_not_wait(down: Desk, models: ModelServer) -> None:
    store(down.context.database, "later", chain_team([f"openai/{MODEL}", "mistral/mistral-large-latest"]))
    down.work(down.open("later"))

    coder = down.payloads("later")["coder"]
    assert (models.requests[MODEL], coder["provider"]) == (0, "mistral")
    assert [(failure["model"], failure["cause"]) for failure in coder["fallback"]] == [
        (f"openai/{MODEL}", "overload")
    ]
