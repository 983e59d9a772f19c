"""Whole runs with budgets: what has room is asked, the rest gives up, and the run ends with a result.

A written token costs a tenth of a cent here and a seat may write 256, so a call is 0.256 dollars at the worst and
0.005 in fact (the model server bills 5)."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from starlette.responses import JSONResponse, Response

from tests.factories import make_team, team_data
from tests.integration.conftest import Bench
from tests.integration.model_server import GOOD, HANG, ModelServer, error_429
from tests.integration.stored_runs import set_seat
from tests.integration.test_pipeline import impatient_team
from workers.core.budget import Amount, Budget
from workers.core.run import Enqueue, SeatState, Stage
from workers.provenance import ledger
from workers.provenance.models import calls as calls_table
from workers.provenance.repository import calls, runs
from workers.provenance.repository.stages import SeatKey
from workers.provenance.repository.usage import RunUsage, usage_of
from workers.stages import STAGES
from workers.stages.broken import break_off
from workers.stages.finish import finish_run
from workers.stages.rescue import rescue
from workers.stages.seat import advance, run_seat
from workers.wiring import now, runtime

SHARE = Amount(output_tokens=256, usd=Decimal("0.256"))


def usd(value: str) -> Budget:
    return Budget(usd=Decimal(value))


def used_by(bench: Bench, run_id: str) -> RunUsage:
    with bench.database.begin() as connection:
        return usage_of(connection, run_id)


def events(bench: Bench, run_id: str, kind: str) -> list[dict[str, Any]]:
    with bench.database.begin() as connection:
        return [event.payload for event in ledger.read(connection, run_id) if event.kind == kind]


def call_rows(bench: Bench, run_id: str) -> list[Any]:
    query = calls_table.select().where(calls_table.c.run_id == run_id).order_by(calls_table.c.sent_at)
    with bench.database.begin() as connection:
        return list(connection.execute(query).all())


def test_a_run_within_its_budget_ends_as_without_one(bench: Bench, models: ModelServer) -> None:
    # Two reviewers at once, the lead's share, and 0.005 for the coder: 3 x 0.256 + 0.005.
    run_id = bench.submit(budget=usd("0.773"), lead_share=SHARE)

    verdict = bench.verdict(run_id)

    assert verdict["outcome"] == "accepted"
    # Five calls of 5 tokens written.
    assert verdict["spending"]["cost_usd"] == 0.025
    assert (verdict["spending"]["budget_usd"], verdict["spending"]["overshoot_usd"]) == (0.773, 0.0)
    assert events(bench, run_id, "budget.exhausted") == []


def test_a_budget_too_small_for_the_first_call_sends_nothing(bench: Bench, models: ModelServer) -> None:
    run_id = bench.submit(budget=usd("0.511"), lead_share=SHARE)  # 0.256 for the coder and 0.256 for the lead

    verdict = bench.verdict(run_id)

    assert models.requests.total() == 0
    assert verdict["outcome"] == "degraded"
    assert [(reason["code"], reason["cause"]) for reason in verdict["reasons"]] == [
        ("coder_missing", "budget")
    ]
    assert events(bench, run_id, "budget.exhausted") == [
        {
            "stage": "coder",
            "seat": "coder",
            "scope": "run",
            "unit": "usd",
            "budget": 0.511,
            "spent": 0.0,
            "reserved": 0.0,
            "lead_share": 0.256,
            "wanted": 0.256,
        }
    ]


def test_reviewers_abstain_when_the_money_is_short_and_the_lead_still_signs(
    bench: Bench, models: ModelServer
) -> None:
    # After the coder 0.005 is spent: a reviewer would need 0.005 + 0.256 + 0.256.
    run_id = bench.submit(budget=usd("0.512"), lead_share=SHARE)

    verdict = bench.verdict(run_id)

    assert [item["cause"] for item in verdict["coverage"]["abstained"]] == ["budget", "budget"]
    assert verdict["signed_by_lead"] is True
    assert [reason["code"] for reason in verdict["reasons"]] == ["quorum_not_met"]
    assert dict(models.requests) == {"alder-1": 1, "cedar-2": 1}
    assert {event["seat"] for event in events(bench, run_id, "budget.exhausted")} == {"left", "right"}
    assert len(events(bench, run_id, "budget.exhausted")) == 2
    assert used_by(bench, run_id).cost_usd == Decimal("0.010000")


def test_of_two_reviewers_at_once_only_one_gets_the_last_of_the_money(
    bench: Bench, models: ModelServer
) -> None:
    # One fits (0.005 + 0.256 + 0.256 = 0.517); the other finds 0.261 held back or 0.010 spent: 0.522 at least.
    verdict = bench.verdict(bench.submit(budget=usd("0.520"), lead_share=SHARE))

    assert verdict["coverage"]["valid_reviews"] == 1
    assert [item["cause"] for item in verdict["coverage"]["abstained"]] == ["budget"]


def test_a_budget_in_tokens_stops_a_run_of_models_without_prices(bench: Bench, models: ModelServer) -> None:
    team = team_data()
    team["coder"]["models"] = ["local/unpriced-1"]
    run_id = bench.submit(make_team(coder=team["coder"]), budget=Budget(tokens=100), lead_share=SHARE)

    verdict = bench.verdict(run_id)

    assert verdict["reasons"][0]["cause"] == "budget"
    (event,) = events(bench, run_id, "budget.exhausted")
    assert (event["unit"], event["budget"], event["lead_share"]) == ("tokens", 100, 256)
    assert models.requests.total() == 0


def test_under_a_budget_in_dollars_a_link_without_a_price_is_passed_over(
    bench: Bench, models: ModelServer
) -> None:
    coder = {"models": ["local/unpriced-1", "local/alder-1"], "max_tokens": 256}

    run_id = bench.submit(make_team(coder=coder), budget=usd("5"), lead_share=SHARE)
    verdict = bench.verdict(run_id)

    assert verdict["outcome"] == "accepted"
    assert (models.requests["unpriced-1"], models.requests["alder-1"]) == (0, 1)
    alone = make_team(coder={"models": ["local/unpriced-1"]})
    reason = bench.verdict(bench.submit(alone, budget=usd("5"), lead_share=SHARE))["reasons"][0]
    assert reason["cause"] == "no_price"
    assert "local/unpriced-1: no price is known for it" in reason["detail"]


def test_without_a_budget_a_model_without_a_price_is_asked_and_said_to_have_none(
    bench: Bench, models: ModelServer
) -> None:
    run_id = bench.submit(make_team(coder={"models": ["local/unpriced-1"]}))
    spending = bench.verdict(run_id)["spending"]

    assert models.requests["unpriced-1"] == 1
    # Four priced calls of five tokens.
    assert (spending["unpriced_calls"], spending["cost_usd"]) == (1, 0.02)


def test_asking_again_counts_and_stops_at_the_budget(bench: Bench, models: ModelServer) -> None:
    """The second question may write 512: 0.005 + 0.512 + 0.256 for the lead is 0.773."""
    models.behave["alder-1"] = lambda *_: "no JSON at all"

    for budget, requests in (("0.772", 1), ("0.773", 2)):
        models.requests.clear()
        verdict = bench.verdict(bench.submit(budget=usd(budget), lead_share=SHARE))
        assert models.requests["alder-1"] == requests
        cause = verdict["reasons"][0]["cause"]
        assert cause == ("budget" if requests == 1 else "torn")


def test_a_repeat_of_the_http_layer_needs_room_of_its_own(bench: Bench, models: ModelServer) -> None:
    """A repeat holds 0.256 besides the first request's 0.256 and the lead's share."""
    models.behave["alder-1"] = error_429

    for budget, requests in (("0.767", 1), ("0.768", 2)):
        models.requests.clear()
        run_id = bench.submit(budget=usd(budget), lead_share=SHARE)
        reason = bench.verdict(run_id)["reasons"][0]
        assert models.requests["alder-1"] == requests
        assert reason["cause"] == ("budget" if requests == 1 else "rate")
        (row,) = call_rows(bench, run_id)
        # What was held back is free again: nobody bills a 429.
        assert (row.state, row.error_kind, row.http_requests) == ("failed", "rate", requests)
        assert row.cost_usd == 0


ODD = {
    "prompt_tokens": 1237,
    "completion_tokens": 97,
    "prompt_tokens_details": {"cached_tokens": 611},
    "total_tokens": 9,
}


def test_finished_calls_match_the_providers_usage_to_the_token(bench: Bench, models: ModelServer) -> None:
    def odd(role: str, body: dict[str, Any], _: int) -> Response:
        message = {"role": "assistant", "content": json.dumps(GOOD[role])}
        return JSONResponse(
            {
                "model": body["model"],
                "choices": [{"message": message, "finish_reason": "stop"}],
                "usage": ODD,
            }
        )

    for model in ("alder-1", "birch-1", "cedar-1", "birch-2", "cedar-2"):
        models.behave[model] = odd
    run_id = bench.submit()
    spending = bench.verdict(run_id)["spending"]

    rows = call_rows(bench, run_id)
    counts = {
        (row.input_tokens, row.output_tokens, row.cached_input_tokens, row.usage_is_estimated) for row in rows
    }
    assert (len(rows), counts) == (5, {(1237, 97, 611, False)})
    # 97 tokens of a tenth of a cent, five times.
    assert {row.cost_usd for row in rows} == {Decimal("0.097000")}
    assert (spending["input_tokens"], spending["output_tokens"]) == (5 * 1237, 5 * 97)
    assert spending["cost_usd"] == 0.485
    used = used_by(bench, run_id)
    assert (used.cached_input_tokens, used.has_estimates) == (5 * 611, False)


def test_a_seats_event_says_what_it_spent(bench: Bench, models: ModelServer) -> None:
    run_id = bench.submit()
    bench.ended(run_id)

    (written,) = events(bench, run_id, "candidate.written")
    assert written["usage"] == {
        "calls": 1,
        "input_tokens": 10,
        "output_tokens": 5,
        "has_estimates": False,
        "cost_usd": 0.005,
    }
    reviews = events(bench, run_id, "review.arrived")
    assert [review["usage"]["output_tokens"] for review in reviews] == [5, 5]


def test_a_provider_that_bills_more_than_was_asked_for_is_shown(bench: Bench, models: ModelServer) -> None:
    def greedy(role: str, body: dict[str, Any], _: int) -> Response:
        answer = models.reply(body["model"], json.dumps(GOOD[role]))
        value = json.loads(bytes(answer.body))
        value["usage"]["completion_tokens"] = 2000
        return JSONResponse(value)

    models.behave["alder-1"] = greedy
    run_id = bench.submit(budget=usd("1"), lead_share=SHARE)
    spending = bench.verdict(run_id)["spending"]

    # Two dollars for the coder alone; nobody else has room, not even the lead.
    assert (spending["cost_usd"], spending["overshoot_usd"]) == (2.0, 1.0)
    assert dict(models.requests) == {"alder-1": 1}


def test_a_call_that_we_broke_off_counts_at_its_worst_case(bench: Bench, models: ModelServer) -> None:
    models.behave["alder-1"] = HANG
    run_id = bench.submit(impatient_team())
    bench.ended(run_id)

    rows = call_rows(bench, run_id)
    assert {(row.error_kind, row.usage_is_estimated) for row in rows} == {("timeout", True)}
    assert {row.output_tokens for row in rows} == {256}
    assert used_by(bench, run_id).cost_usd == Decimal("0.512000")  # two requests


def lost_coder(bench: Bench) -> SeatKey:
    """A run whose coder's worker died with a call under way."""
    run_id = bench.create()
    assert isinstance(advance(runtime().context, run_id), Enqueue)
    key = SeatKey(run_id=run_id, round=1, stage=Stage.CODER, seat="coder")
    worst = Amount(input_tokens=40, output_tokens=256, usd=Decimal("0.256"))
    with bench.database.begin() as connection:
        calls.sent(
            connection,
            calls.NewCall(
                call_id=f"call_{run_id}",
                key=key,
                link=0,
                provider="local",
                model="alder-1",
                family="alder",
                request={},
                worst=worst,
            ),
        )
    return key


@pytest.mark.parametrize("way", ["claimed again", "rescued", "given up"])
def test_a_call_orphaned_by_a_dead_worker_is_billed_by_estimate_and_listed(
    bench: Bench, models: ModelServer, way: str
) -> None:
    key = lost_coder(bench)
    if way == "claimed again":
        set_seat(bench.database, key, deliveries=1)
        run_seat(runtime().context, key, STAGES[Stage.CODER])
    else:
        rescues = 9 if way == "given up" else 0
        past = now().replace(year=2020)
        set_seat(
            bench.database,
            key,
            state=SeatState.RUNNING,
            owner="dead",
            lease_expires_at=past,
            rescues=rescues,
        )
        rescue(runtime().context, pending_seconds=60, stalled_seconds=60, max_rescues=3)

    (orphan,) = used_by(bench, key.run_id).orphaned
    assert (orphan.seat, orphan.output_tokens, orphan.cost_usd) == ("coder", 256, Decimal("0.256"))
    row = next(row for row in call_rows(bench, key.run_id) if row.call_id == orphan.call_id)
    assert (row.state, row.usage_is_estimated) == ("orphaned", True)


def test_a_run_that_ends_with_a_call_still_open_lists_it_in_its_last_event(
    bench: Bench, models: ModelServer
) -> None:
    key = lost_coder(bench)
    set_seat(bench.database, key, state=SeatState.FAILED, cause="lost_worker", finished_at=now())
    with bench.database.begin() as connection:
        runs.start(connection, key.run_id)
    finish_run(runtime().context, key.run_id)

    (finished,) = events(bench, key.run_id, "run.finished")
    (orphan,) = finished["spending"]["orphaned"]
    assert (orphan["seat"], orphan["model"], orphan["cost_usd"]) == ("coder", "alder-1", 0.256)
    assert (finished["spending"]["cost_usd"], finished["spending"]["has_estimates"]) == (0.256, True)


def test_a_run_that_is_broken_off_says_what_it_spent(bench: Bench, models: ModelServer) -> None:
    key = lost_coder(bench)

    break_off(runtime().context, key.run_id, ValueError("a fault of ours"))

    (finished,) = events(bench, key.run_id, "run.finished")
    assert finished["reasons"][0]["code"] == "internal_error"
    assert finished["spending"]["cost_usd"] == 0.256
    assert [orphan["seat"] for orphan in finished["spending"]["orphaned"]] == ["coder"]
