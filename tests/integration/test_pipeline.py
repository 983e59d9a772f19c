"""Whole runs through real Celery, Valkey and PostgreSQL: the good path, and the degradation ladder."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from sqlalchemy import func, select, update
from starlette.responses import JSONResponse, Response

from tests.factories import make_team, team_data
from tests.integration.conftest import Bench, pause
from tests.integration.model_server import (
    CANDIDATE,
    GOOD,
    HANG,
    Behaviour,
    ModelServer,
    error_429,
    error_500,
    garbage,
)
from workers.core.run import Enqueue, Outcome, RunState, Stage
from workers.core.team import Team
from workers.provenance import ledger, payload
from workers.provenance.digest import GENESIS
from workers.provenance.models import calls, stages
from workers.provenance.models import runs as run_table
from workers.provenance.repository import runs
from workers.provenance.repository.stages import SeatKey
from workers.provenance.repository.usage import usage_of
from workers.providers.usage import usage_scope
from workers.stages import STAGES
from workers.stages.seat import advance, run_seat
from workers.tasks.rescue import rescue_lost_work
from workers.wiring import now, runtime

FAULTS: dict[str, Behaviour | str] = {"answers 500": error_500, "hangs": HANG, "sends garbage": garbage}
CAUSES = {"answers 500": "overload", "hangs": "timeout", "sends garbage": "torn"}
#: Which model of `team_data` sits in which seat.
MODEL_OF = {"coder": "alder-1", "left": "birch-1", "consensus": "birch-2", "lead": "cedar-2"}


def impatient_team() -> Team:
    """The small team with 0.3 s for a call, so that a hang is over soon."""
    data = team_data()
    for seat in (data["coder"], *data["reviewers"].values(), data["consensus"], data["lead"]):
        seat["timeout_seconds"] = 0.3
    return Team.model_validate(data)


def test_a_run_is_accepted_after_one_call_a_seat(bench: Bench, models: ModelServer) -> None:
    run_id = bench.submit()

    verdict = bench.verdict(run_id)

    assert verdict["outcome"] == "accepted"
    assert verdict["files"] == CANDIDATE
    assert verdict["signed_by_lead"] is True
    assert dict(models.requests) == {"alder-1": 1, "birch-1": 1, "cedar-1": 1, "birch-2": 1, "cedar-2": 1}


def test_the_usage_of_a_run_is_the_sum_of_its_call_rows(bench: Bench, models: ModelServer) -> None:
    run_id = bench.submit()
    bench.ended(run_id)

    with bench.database.begin() as connection:
        usage = usage_of(connection, run_id)

    # Five calls (coder, two reviewers, consensus, lead) of 10 tokens in and 5 out each.
    assert (usage.calls, usage.input_tokens, usage.output_tokens) == (5, 50, 25)
    assert usage.failed_calls == 0


def test_every_step_is_in_the_ledger_and_the_chain_holds(bench: Bench, models: ModelServer) -> None:
    run_id = bench.submit()
    run = bench.ended(run_id)

    with bench.database.begin() as connection:
        entries = ledger.read(connection, run_id)

    kinds = [entry.kind for entry in entries]
    assert kinds[:4] == ["run.created", "run.started", "stage.opened", "candidate.written"]
    assert kinds.count("review.arrived") == 2
    assert kinds[-1] == "run.finished"
    assert kinds.index("consensus.counted") < kinds.index("lead.signed")
    assert ledger.verify(entries, run_id=run_id, head=run.ledger_head, genesis=GENESIS) is None


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("seat", MODEL_OF)
def test_a_run_ends_with_its_typed_outcome_when_a_seat(
    seat: str, fault: str, bench: Bench, models: ModelServer
) -> None:
    models.behave[MODEL_OF[seat]] = FAULTS[fault]
    # Only a hang needs patience to end; a slow machine must not turn another fault into one.
    team = impatient_team() if fault == "hangs" else make_team()

    verdict = bench.verdict(bench.submit(team))

    reasons = [(reason["code"], reason["cause"]) for reason in verdict["reasons"]]
    if seat == "left":
        # One of two reviewers is fewer than the quorum of two.
        assert reasons == [("quorum_not_met", "abstentions")]
        assert [(item["reviewer"], item["cause"]) for item in verdict["coverage"]["abstained"]] == [
            ("left", CAUSES[fault])
        ]
    else:
        assert reasons == [(f"{seat}_missing", CAUSES[fault])]
    assert verdict["outcome"] == "degraded"
    assert verdict["files"] == ({} if seat == "coder" else CANDIDATE)
    # retries: 1, so N+1 = 2 requests and no more, whatever the fault.
    assert models.requests[MODEL_OF[seat]] == 2


def test_a_dead_reviewer_leaves_the_denominator_when_the_quorum_still_holds(
    bench: Bench, models: ModelServer
) -> None:
    data = team_data()
    data["reviewers"]["third"] = {"models": ["local/dogwood-1"]}
    models.behave["dogwood-1"] = error_500

    verdict = bench.verdict(bench.submit(Team.model_validate(data)))

    assert verdict["outcome"] == "accepted"
    assert (verdict["coverage"]["valid_reviews"], verdict["coverage"]["panel_size"]) == (2, 3)


def test_the_lead_arbitrates_on_the_raw_reviews_when_consensus_is_dead(
    bench: Bench, models: ModelServer
) -> None:
    models.behave["birch-2"] = error_500

    bench.verdict(bench.submit())

    asked = next(body for body in models.bodies if body["model"] == "cedar-2")
    assert "\n<reviews " in asked["messages"][1]["content"]


def test_a_429_for_ever_is_asked_n_plus_one_times_and_the_next_link_answers(
    bench: Bench, models: ModelServer
) -> None:
    models.behave["alder-1"] = error_429
    coder = {"models": ["local/alder-1", "local/alder-9"]}

    verdict = bench.verdict(bench.submit(make_team(coder=coder)))

    assert verdict["outcome"] == "accepted"
    assert (models.requests["alder-1"], models.requests["alder-9"]) == (2, 1)


def test_alternating_429_and_500_stay_at_n_plus_one(bench: Bench, models: ModelServer) -> None:
    def alternate(role: str, body: dict[str, Any], before: int) -> str | Response:
        return (error_429 if before % 2 == 0 else error_500)(role, body, before)

    models.behave["alder-1"] = alternate
    policy = {"quorum": {"heads": 2, "families": 2}, "retries": 3}

    verdict = bench.verdict(bench.submit(make_team(policy=policy)))

    assert verdict["reasons"][0]["code"] == "coder_missing"
    assert models.requests["alder-1"] == 4


def test_a_torn_reply_is_asked_for_again_with_a_hint_and_more_tokens(
    bench: Bench, models: ModelServer
) -> None:
    whole = json.dumps(GOOD["coder"])

    def cut_once(_: str, __: dict[str, Any], before: int) -> str | Response:
        return models.reply("alder-1", whole[:30], finish="length") if before == 0 else whole

    models.behave["alder-1"] = cut_once

    verdict = bench.verdict(bench.submit())

    first, second = (body for body in models.bodies if body["model"] == "alder-1")
    assert verdict["outcome"] == "accepted"
    assert (first["max_tokens"], second["max_tokens"]) == (256, 512)
    assert "cut off at 5 tokens" in second["messages"][-1]["content"]


def test_a_truncated_reply_is_never_repaired_and_accepted(bench: Bench, models: ModelServer) -> None:
    """It parses as it is, but `length` says that something may be missing behind it."""

    def always_cut(_: str, __: dict[str, Any], ___: int) -> Response:
        return models.reply("alder-1", json.dumps(GOOD["coder"]), finish="length")

    models.behave["alder-1"] = always_cut

    verdict = bench.verdict(bench.submit())

    assert verdict["reasons"][0]["cause"] == "torn"


def test_the_leads_limit_grows_with_every_attempt_whatever_it_died_of(
    bench: Bench, models: ModelServer
) -> None:
    def fail_once(role: str, body: dict[str, Any], before: int) -> str | Response:
        return error_500(role, body, before) if before == 0 else json.dumps(GOOD["lead"])

    models.behave["cedar-2"] = fail_once

    assert bench.verdict(bench.submit())["outcome"] == "accepted"
    limits = [body["max_tokens"] for body in models.bodies if body["model"] == "cedar-2"]
    assert limits == [256, 512]


def test_simulated_is_read_from_the_reply(bench: Bench, models: ModelServer) -> None:
    plain = bench.ended(bench.submit())
    models.marks_simulated = True
    marked = bench.ended(bench.submit())

    assert (plain.is_simulated, marked.is_simulated) == (False, True)


def test_an_agreed_claim_rejects_and_a_lone_one_does_not(bench: Bench, models: ModelServer) -> None:
    finding = {
        "claim": "negative numbers are added with the wrong sign",
        "severity": "medium",
        "location": {"path": "a.py", "start": 2, "end": 2},
        "evidence": [{"path": "a.py", "line": 2, "quote": "return a + b"}],
    }

    def complain(_: str, __: dict[str, Any], ___: int) -> str:
        return json.dumps({"findings": [finding], "summary": "wrong"})

    models.behave["birch-1"] = complain
    alone = bench.verdict(bench.submit())
    models.behave["cedar-1"] = complain
    agreed = bench.verdict(bench.submit())

    assert (alone["outcome"], agreed["outcome"]) == ("accepted", "rejected")
    assert agreed["claims"][0]["claim"]["agreement"] == 1.0
    assert agreed["claims"][0]["claim"]["flagged_by"] == ["left", "right"]


def test_cancelling_breaks_off_the_call_in_flight(bench: Bench, models: ModelServer) -> None:
    models.behave["alder-1"] = HANG
    run_id = bench.submit()
    assert models.hanging.wait(10)

    with bench.database.begin() as connection:
        runs.cancel(connection, run_id, tenant_id="default", at=now())

    assert models.gone.wait(5), "the provider still has the connection"
    run = bench.ended(run_id)
    assert run.state is RunState.CANCELLED
    assert models.requests["alder-1"] == 1


def test_a_run_ends_degraded_when_no_provider_serves_any_seat(bench: Bench, models: ModelServer) -> None:
    """Every seat names a provider that is off, and the one that is on lists no models."""
    data = json.loads(json.dumps(team_data()).replace("local/", "groq/"))

    run = bench.ended(bench.submit(Team.model_validate(data)))

    assert run.outcome is Outcome.DEGRADED


def test_calls_are_rows_before_they_are_sent(bench: Bench, models: ModelServer) -> None:
    models.behave["alder-1"] = HANG
    run_id = bench.submit()
    assert models.hanging.wait(10)

    with bench.database.begin() as connection:
        states = connection.execute(select(calls.c.state).where(calls.c.run_id == run_id)).scalars().all()
        attempts = connection.scalar(select(func.sum(stages.c.attempts)).where(stages.c.run_id == run_id))
        runs.cancel(connection, run_id, tenant_id="default", at=now())

    assert (states, attempts) == (["sent"], 1)
    assert models.gone.wait(5)


def test_a_cut_reply_that_claims_to_be_complete_is_asked_for_again(bench: Bench, models: ModelServer) -> None:
    def cut_once(_: str, __: dict[str, Any], before: int) -> str:
        whole = json.dumps(GOOD["coder"])
        return whole[: whole.index("return")] if before == 0 else whole

    models.behave["alder-1"] = cut_once

    assert bench.verdict(bench.submit())["files"] == CANDIDATE
    assert models.requests["alder-1"] == 2


def test_a_run_whose_team_this_version_refuses_ends_degraded_and_the_sweep_goes_on(
    bench: Bench, models: ModelServer
) -> None:
    broken = bench.create(make_team())
    with bench.database.begin() as connection:
        refused = payload.store(connection, {"name": "from another version"})
        connection.execute(update(run_table).where(run_table.c.run_id == broken).values(team_digest=refused))
    healthy = bench.create()

    rescue_lost_work()

    assert bench.verdict(healthy)["outcome"] == "accepted"
    verdict = bench.verdict(broken, replays=False)
    assert verdict["outcome"] == "degraded"
    assert [reason["code"] for reason in verdict["reasons"]] == ["internal_error"]


def test_a_usage_scope_counts_the_calls_of_its_thread_without_being_passed_around(
    bench: Bench, models: ModelServer
) -> None:
    run_id = bench.create()
    assert isinstance(advance(runtime().context, run_id), Enqueue)

    with usage_scope() as scope:
        run_seat(
            runtime().context,
            SeatKey(run_id=run_id, round=1, stage=Stage.CODER, seat="coder"),
            STAGES[Stage.CODER],
        )

    # One call of 10 tokens in and 5 out; the calls of the worker's own threads are not of this scope.
    assert (scope.calls, scope.total.input_tokens, scope.total.output_tokens) == (1, 10, 5)


def limited(seconds: float) -> Behaviour:
    def refuse(_: str, __: dict[str, Any], ___: int) -> Response:
        return JSONResponse(
            {"error": {"message": "later"}}, status_code=429, headers={"Retry-After": str(seconds)}
        )

    return refuse


def test_a_provider_that_says_come_back_in_a_day_does_not_hold_a_run(
    bench: Bench, models: ModelServer
) -> None:
    models.behave["alder-1"] = limited(9_999_999)

    verdict = bench.verdict(bench.submit())

    assert [(reason["code"], reason["cause"]) for reason in verdict["reasons"]] == [("coder_missing", "rate")]
    assert models.requests["alder-1"] == 1


def test_a_long_wait_sends_the_seat_to_its_next_model(bench: Bench, models: ModelServer) -> None:
    models.behave["alder-8"] = limited(60)

    verdict = bench.verdict(bench.submit(make_team(coder={"models": ["ollama/alder-8", "local/alder-1"]})))

    assert verdict["outcome"] == "accepted"
    assert (models.requests["alder-8"], models.requests["alder-1"]) == (1, 1)


def test_a_wait_for_the_only_model_gives_the_thread_back_and_says_why(
    bench: Bench, models: ModelServer
) -> None:
    models.behave["alder-1"] = limited(60)
    run_id = bench.submit()
    deadline = time.monotonic() + 10
    while True:
        with bench.database.begin() as connection:
            entries = ledger.read(connection, run_id)
        if entries[-1].kind == "seat.deferred":
            break
        assert time.monotonic() < deadline, [entry.kind for entry in entries]
        pause()

    with bench.database.begin() as connection:
        row = connection.execute(select(stages).where(stages.c.run_id == run_id)).one()
        waits = (row.not_before - connection.scalar(select(func.now()))).total_seconds()

    assert (row.state, row.attempts, row.owner) == ("pending", 1, None)
    assert 55 < waits <= 60
    assert entries[-1].payload["wait_seconds"] == 60.0
