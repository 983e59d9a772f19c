"""An account that runs empty: who is asked instead, what low-quota mode changes, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from tests.integration.desk import Clock, Desk, chain_team, desk, providers_at, store
from tests.integration.model_server import Behaviour, ModelServer, good
from workers.core.team import Seat
from workers.provenance.session import Database

FIRST, SECOND = "openai/gpt-5.4", "mistral/mistral-large-latest"
#: A reviewer's first model must be another than the coder's; otherwise everybody has the same chain.
CODER_FIRST = "openai/gpt-5"
CHEAP_FIRST, CHEAP_SECOND = "openai/gpt-6-luna", "mistral/mistral-small-latest"


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def worker_desk(database: Database, redis_url: str, models: ModelServer, clock: Clock) -> Iterator[Desk]:
    cheap = {"openai": "gpt-6-luna", "mistral": "mistral-small-latest"}
    with desk(database, redis_url, providers_at(models, **cheap), clock=clock) as opened:
        yield opened


def empty(_: str, __: dict[str, Any], ___: int) -> Response:
    return JSONResponse({"error": {"message": "no credit"}}, status_code=402)


def exhaust_first(models: ModelServer) -> None:
    models.behave |= dict.fromkeys(("gpt-5", "gpt-5.4", "gpt-6-luna"), empty)


def to_first(models: ModelServer) -> int:
    """Requests to the account that runs empty."""
    return sum(count for model, count in models.requests.items() if model.startswith("gpt"))


def test_an_empty_account_sends_the_seat_on_and_the_next_seats_send_it_nothing(
    worker_desk: Desk, database: Database, models: ModelServer
) -> None:
    exhaust_first(models)
    run_id = store(database, "run_1", chain_team((CODER_FIRST, SECOND), (FIRST, SECOND)))

    worker_desk.play(run_id)

    left = worker_desk.payloads(run_id)
    (failure,) = left["coder"]["fallback"]
    assert (failure["model"], failure["cause"]) == (CODER_FIRST, "quota")
    assert "low_quota" not in left["coder"]  # its chain was chosen before anybody knew
    # One request in all to the empty account: the coder's.
    assert to_first(models) == 1
    assert left["run.finished"]["outcome"] == "accepted"


def test_low_quota_mode_asks_cheap_models_first_for_every_seat_but_the_lead(
    worker_desk: Desk, database: Database, models: ModelServer
) -> None:
    exhaust_first(models)
    run_id = store(database, "run_1", chain_team((CODER_FIRST, SECOND), (FIRST, SECOND)))

    worker_desk.play(run_id)

    left = worker_desk.payloads(run_id)
    for seat in ("left", "right", "consensus"):
        assert f"{left[seat]['provider']}/{left[seat]['model']}" == CHEAP_SECOND
        assert left[seat]["low_quota"]["provider"] == "openai"
        assert "no credit" in left[seat]["low_quota"]["reason"]
    lead = left["lead"]
    # In its own order: its first model is passed by because the account is empty, and its second answers.
    assert f"{lead['provider']}/{lead['model']}" == SECOND
    assert [failure["model"] for failure in lead["fallback"]] == [FIRST]
    assert lead["fallback"][0]["detail"].startswith("not asked: ")
    assert "low_quota" not in lead


def test_the_chain_of_low_quota_mode_is_the_cheapest_first_and_the_leads_is_untouched(
    worker_desk: Desk,
) -> None:
    worker_desk.accounts.failed("openai", "other", kind="quota", reason="402")
    seat = Seat(models=(FIRST, SECOND))

    def names(*, is_lead: bool) -> list[str]:
        chosen = worker_desk.gateway.chain(seat, 0, is_lead=is_lead)
        return [f"{link.provider}/{link.model}" for link in chosen.links]

    # Dollars of a typical call: 0.0007, 0.0009, 0.0035, 0.025.
    assert names(is_lead=False) == [CHEAP_SECOND, CHEAP_FIRST, SECOND, FIRST]
    assert names(is_lead=True) == [FIRST, SECOND]


def test_the_mode_ends_by_itself_when_the_account_answers_again(
    worker_desk: Desk, database: Database, models: ModelServer, clock: Clock
) -> None:
    """Also where the lead, whose order is never touched, has no model of that account."""
    exhaust_first(models)
    team = chain_team((CODER_FIRST, SECOND), (FIRST, SECOND), lead=[SECOND])
    worker_desk.play(store(database, "run_1", team))
    assert worker_desk.accounts.low_quota() is not None
    models.behave.clear()

    clock.now += 599
    worker_desk.play(store(database, "run_2", team))
    assert to_first(models) == 1
    clock.now += 1
    worker_desk.play(store(database, "run_3", team))

    assert worker_desk.accounts.low_quota() is None
    left = worker_desk.payloads("run_3")
    for seat, model in {"coder": CODER_FIRST, "left": FIRST, "consensus": FIRST}.items():
        assert f"{left[seat]['provider']}/{left[seat]['model']}" == model
        assert "low_quota" not in left[seat]
    states = [change.state for change in worker_desk.accounts.take_changes()]
    assert states == ["good"]


def test_an_account_that_is_still_empty_costs_one_request_and_the_mode_is_on_again(
    worker_desk: Desk, database: Database, models: ModelServer, clock: Clock
) -> None:
    exhaust_first(models)
    worker_desk.play(store(database, "run_1", chain_team((CODER_FIRST, SECOND), (FIRST, SECOND))))

    clock.now += 600
    worker_desk.play(store(database, "run_2", chain_team((CODER_FIRST, SECOND), (FIRST, SECOND))))

    assert to_first(models) == 2
    assert worker_desk.accounts.low_quota() is not None


def asks_for_ten_minutes(_: str, __: dict[str, Any], ___: int) -> Response:
    return JSONResponse({"error": {"message": "later"}}, status_code=429, headers={"retry-after": "600"})


def says_little_is_left(models: ModelServer) -> Behaviour:
    def answer(role: str, body: dict[str, Any], before: int) -> Response:
        response = models.reply("gpt-5", good(role, body, before))
        response.headers["x-ratelimit-remaining-requests"] = "3"
        response.headers["x-ratelimit-reset-requests"] = "1h0m0s"
        return response

    return answer


@pytest.mark.parametrize(
    ("is_refused", "reason", "seconds"),
    [(True, "told to wait 60", 600.0), (False, "3 requests left for 3600 s", 3600.0)],
)
def test_the_mode_begins_with_a_long_wait_or_when_little_has_to_last(
    is_refused: bool,
    reason: str,
    seconds: float,
    worker_desk: Desk,
    database: Database,
    models: ModelServer,
    clock: Clock,
) -> None:
    models.behave["gpt-5"] = asks_for_ten_minutes if is_refused else says_little_is_left(models)
    run_id = store(database, "run_1", chain_team((CODER_FIRST, SECOND), (FIRST, SECOND)))

    worker_desk.play(run_id)

    left = worker_desk.payloads(run_id)
    coder = SECOND if is_refused else CODER_FIRST
    assert f"{left['coder']['provider']}/{left['coder']['model']}" == coder
    assert f"{left['left']['provider']}/{left['left']['model']}" == CHEAP_SECOND
    assert left["left"]["low_quota"]["provider"] == "openai"
    assert left["left"]["low_quota"]["reason"].startswith(reason)
    # The lead's order is its own: past a family that is blocked for minutes, else its first model as ever.
    assert f"{left['lead']['provider']}/{left['lead']['model']}" == (SECOND if is_refused else FIRST)
    clock.now += seconds + 1
    assert worker_desk.accounts.low_quota() is None


@pytest.mark.parametrize(
    ("chain", "asked"),
    [
        # 400,000 tokens were too few: 262,144 are not tried, 1,000,000 are.
        (("openai/gpt-5.4-mini", "mistral/mistral-medium-latest", "deepseek/deepseek-flash"), [0, 2]),
        # Nobody knows how much fits into this one, so it is asked.
        (("openai/gpt-5.4-mini", "mistral/mistral-large-latest"), [0, 1]),
    ],
)
def test_a_prompt_that_is_too_long_goes_to_a_larger_window_only(
    chain: tuple[str, ...],
    asked: list[int],
    worker_desk: Desk,
    database: Database,
    models: ModelServer,
) -> None:
    models.behave["gpt-5.4-mini"] = lambda *_: JSONResponse(
        {"error": {"message": "too large"}}, status_code=413
    )
    run_id = store(database, "run_1", chain_team(chain))

    worker_desk.work(worker_desk.open(run_id))

    names = [entry.partition("/")[2] for entry in chain]
    assert dict(models.requests) == {names[index]: 1 for index in asked}
    coder = worker_desk.payloads(run_id)["coder"]
    assert coder["model"] == names[-1]
    assert {failure["cause"] for failure in coder["fallback"]} == {"context"}


def test_a_refusal_goes_to_another_family(worker_desk: Desk, database: Database, models: ModelServer) -> None:
    models.behave["gpt-5.4"] = lambda *_: models.reply("gpt-5.4", "I cannot", finish="content_filter")
    run_id = store(database, "run_1", chain_team((FIRST, "openai/gpt-5-mini", SECOND)))

    worker_desk.work(worker_desk.open(run_id))

    assert dict(models.requests) == {"gpt-5.4": 1, "mistral-large-latest": 1}
    causes = [
        (failure["model"], failure["cause"]) for failure in worker_desk.payloads(run_id)["coder"]["fallback"]
    ]
    assert causes == [(FIRST, "refusal"), ("openai/gpt-5-mini", "refusal")]
