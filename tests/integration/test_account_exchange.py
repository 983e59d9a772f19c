"""Workers tell each other through the database what became of an account, with every heartbeat."""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest
from sqlalchemy import delete, insert
from starlette.responses import JSONResponse, Response

from tests.integration.conftest import pause
from tests.integration.desk import chain_team, store
from tests.integration.model_server import ModelServer
from tests.integration.stored_runs import ago, open_seats, seat_key, seat_row, set_seat
from workers.core.run import SeatState, Stage
from workers.governor.base import Limits
from workers.governor.limit_book import LimitsSet
from workers.provenance.models import limits as limits_table
from workers.provenance.models import provider_states
from workers.provenance.repository import accounts, limits
from workers.provenance.repository.stages import SeatKey
from workers.provenance.session import Database
from workers.providers.chain import parse_link
from workers.providers.registry import enabled
from workers.settings import Settings
from workers.stages import STAGES
from workers.stages.seat import advance, run_seat
from workers.wiring import Runtime

OPENAI = parse_link("openai/gpt-5")
#: A beat every 50 ms; nobody waits for longer than this for what one beat has to bring.
BEAT_SECONDS, DEADLINE_SECONDS = 0.05, 5.0

Start = Callable[[], Runtime]


def empty(_: str, __: dict[str, Any], ___: int) -> Response:
    return JSONResponse({"error": {"message": "no credit"}}, status_code=402)


@pytest.fixture(params=["Redis is there", "Redis is away"])
def start(
    request: pytest.FixtureRequest,
    database: Database,
    database_url: str,
    redis_url: str,
    models: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Start]:
    """Starts workers' runtimes, which know nothing of each other but the database."""
    for name in ("OPENAI", "MISTRAL"):
        monkeypatch.setenv(f"{name}_BASE_URL", models.url)
        monkeypatch.setenv(f"{name}_API_KEY", "k")
    settings = Settings(
        database_url=database_url,
        redis_url=redis_url if request.param == "Redis is there" else "redis://127.0.0.1:1/0",
        heartbeat_seconds=BEAT_SECONDS,
        database_pool=4,
    )
    with ExitStack() as stack:
        yield lambda: stack.enter_context(closing(Runtime(settings)))


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not holds():
        assert time.monotonic() < deadline, "it did not come with a heartbeat"
        pause()


def refusal(worker: Runtime) -> str | None:
    """Why this worker would send nothing to OpenAI now."""
    found = worker.context.models.refusal(OPENAI)
    return None if found is None else f"{found.kind}: {found.detail}"


def code(worker: Runtime, database: Database, run_id: str) -> None:
    """This worker does a run's first seat."""
    store(database, run_id, chain_team(["openai/gpt-5", "mistral/mistral-large-latest"]))
    advance(worker.context, run_id)
    key = SeatKey(run_id=run_id, round=1, stage=Stage.CODER, seat="coder")
    run_seat(worker.context, key, STAGES[Stage.CODER])


def words(database: Database) -> list[accounts.Published]:
    with database.begin() as connection:
        return accounts.published(connection)


def test_what_one_worker_learns_the_others_know_with_the_next_beat(
    start: Start, database: Database, models: ModelServer
) -> None:
    models.behave["gpt-5"] = empty
    first, second = start(), start()

    code(first, database, "run_1")
    until(lambda: refusal(second))
    code(second, database, "run_2")

    assert refusal(second) is not None
    assert str(refusal(second)).startswith("quota: ")
    assert "no credit" in str(refusal(second))
    # The second worker was told; it asked the empty account nothing.
    assert (models.requests["gpt-5"], models.requests["mistral-large-latest"]) == (1, 2)


def test_a_worker_that_starts_later_knows_it_too(
    start: Start, database: Database, models: ModelServer
) -> None:
    models.behave["gpt-5"] = empty
    code(start(), database, "run_1")
    until(lambda: words(database))

    late = start()

    until(lambda: refusal(late))
    assert str(refusal(late)).startswith("quota: ")


def test_an_account_that_is_good_again_is_good_for_all(start: Start, database: Database) -> None:
    first, second = start(), start()
    tell(database, state="quota", seconds_left=600)
    until(lambda: refusal(first) and refusal(second))

    tell(database, state="good", seconds_left=0)

    until(lambda: refusal(first) is None and refusal(second) is None)
    assert (refusal(first), refusal(second)) == (None, None)


def test_what_became_of_another_key_concerns_nobody_who_has_this_one(
    start: Start, database: Database
) -> None:
    worker = start()
    tell(database, key_digest="replaced", state="quota", seconds_left=600)
    tell(database, provider="mistral", state="overload", seconds_left=600)
    mistral = parse_link("mistral/mistral-large-latest")

    # The second word was heard, so the first was, too.
    until(lambda: worker.context.models.refusal(mistral))

    assert worker.context.models.chain(chain_team(["openai/gpt-5"]).coder, 0, is_lead=False).low_quota is None


def test_a_word_that_is_committed_late_is_heard(start: Start, database: Database) -> None:
    """It was written before the newest word that everybody has heard."""
    worker = start()
    tell(database, provider="mistral", state="overload", seconds_left=600)
    mistral = parse_link("mistral/mistral-large-latest")
    until(lambda: worker.context.models.refusal(mistral))

    now = dt.datetime.now(dt.UTC)
    with database.begin() as connection:
        connection.execute(
            insert(provider_states).values(
                provider="openai",
                key_digest=digest("openai"),
                state="quota",
                reason="late",
                until=now + dt.timedelta(seconds=600),
                updated_at=now - dt.timedelta(seconds=60),
            )
        )

    until(lambda: refusal(worker))
    assert refusal(worker) == "quota: late"


def test_limits_that_an_operator_sets_reach_every_worker_with_a_beat(
    start: Start, database: Database, models: ModelServer
) -> None:
    """One request a day: the second seat's call finds none left, and goes to the next provider."""
    worker = start()
    entry = LimitsSet(provider="openai", family="gpt", limits=Limits(requests_per_day=1))
    with database.begin() as connection:
        limits.put(connection, entry)
    tell(database, provider="mistral", state="overload", seconds_left=600)
    mistral = parse_link("mistral/mistral-large-latest")
    until(lambda: worker.context.models.refusal(mistral))
    tell(database, provider="mistral", state="good", seconds_left=0)
    until(lambda: worker.context.models.refusal(mistral) is None)

    code(worker, database, "run_1")
    code(worker, database, "run_2")

    assert dict(models.requests) == {"gpt-5": 1, "mistral-large-latest": 1}


def test_limits_that_nobody_can_keep_to_cost_no_lease(start: Start, database: Database) -> None:
    """Somebody wrote the row by hand, past every check; the seats at work here stay this process's all the same."""
    worker = start()
    key = seat_key()
    store(database, "run_1", chain_team(["openai/gpt-5"]))
    open_seats(database, key)
    set_seat(database, key, state=SeatState.RUNNING, owner=worker.context.owner, lease_expires_at=ago(0))
    with database.begin() as connection:
        connection.execute(insert(limits_table).values(provider="openai", family="gpt", concurrency=0))

    worker.context.at_work.add(key)
    until(lambda: (seat_row(database, key).lease_expires_at - dt.datetime.now(dt.UTC)).total_seconds() > 10)
    first = seat_row(database, key).lease_expires_at
    until(lambda: seat_row(database, key).lease_expires_at > first)

    # And once the row is gone, words are heard again.
    with database.begin() as connection:
        connection.execute(delete(limits_table))
    tell(database, state="quota", seconds_left=600)
    until(lambda: refusal(worker))
    assert str(refusal(worker)).startswith("quota: ")


def digest(provider: str) -> str:
    return enabled({f"{provider.upper()}_API_KEY": "k"})[provider].key_digest


def tell(database: Database, *, state: str, seconds_left: float, **changes: str) -> None:
    """What another worker publishes."""
    provider = changes.get("provider", "openai")
    said = accounts.AccountState(
        provider=provider,
        key_digest=changes.get("key_digest", digest(provider)),
        state=state,
        reason="said by another",
        seconds_left=seconds_left,
    )
    with database.begin() as connection:
        accounts.publish(connection, [said])
