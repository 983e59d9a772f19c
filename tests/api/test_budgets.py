"""Budgets and dry runs over HTTP: taken, refused with a sentence, shown; a dry run leaves nothing behind."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from tests.api.conftest import Broker
from tests.api.test_runs_create import OTHER_TEAM, SPEC, stored
from tests.factories import make_price
from tests.integration.stored_runs import events_of, open_seats, seat_key
from tests.integration.test_call_rows import new_call, reply
from workers.core.budget import Amount
from workers.provenance.models import runs as runs_table
from workers.provenance.repository import calls
from workers.provenance.session import Database
from workers.providers.registry import enabled

PRICE = make_price("0", "1000")


@pytest.fixture
def priced(app: FastAPI) -> FastAPI:
    """The local provider is on, and every model but the left reviewer's has a price."""
    app.state.services = dataclasses.replace(
        app.state.services,
        enabled=lambda: enabled({"LOCAL_BASE_URL": "http://127.0.0.1:9/v1"}),
        price_of=lambda _, model: None if model == "birch-9" else PRICE,
    )
    return app


@pytest.fixture
def other_team(team_folder: Path) -> str:
    (team_folder / "other.yaml").write_text(OTHER_TEAM, encoding="utf-8")
    return "other-team"


async def test_a_budget_is_kept_with_the_run_and_the_leads_share_with_it(
    client: httpx.AsyncClient, priced: FastAPI, other_team: str, database: Database
) -> None:
    body = {**SPEC, "team": other_team, "budget_usd": 0.5, "budget_tokens": 90_000}
    created = (await client.post("/v1/runs", json=body)).json()
    assert (created["budget_usd"], created["budget_tokens"]) == (0.5, 90_000)
    shown = (await client.get(f"/v1/runs/{created['id']}")).json()
    assert (shown["budget_usd"], shown["budget_tokens"]) == (0.5, 90_000)
    with database.begin() as connection:
        row = connection.execute(runs_table.select()).one()
    assert row.budget_usd == Decimal("0.5")
    # The lead may write 4096 tokens of a tenth of a cent.
    assert row.lead_share_usd == Decimal("4.096")
    # Its own, the candidate, and 600 tokens of claims a reviewer.
    assert row.lead_share_tokens > 4096 + 4096 + 2 * 600
    (event,) = events_of(database, created["id"])
    assert (event.payload["budget_usd"], event.payload["budget_tokens"]) == (0.5, 90_000)


async def test_without_a_budget_there_is_none(client: httpx.AsyncClient, database: Database) -> None:
    created = (await client.post("/v1/runs", json=SPEC)).json()
    assert (created["budget_usd"], created["budget_tokens"]) == (None, None)
    with database.begin() as connection:
        row = connection.execute(runs_table.select()).one()
    assert (row.lead_share_usd, row.lead_share_tokens) == (None, 0)


@pytest.mark.parametrize(
    "budget",
    [
        {"budget_usd": 0},
        {"budget_usd": -1},
        {"budget_usd": 1e7},
        {"budget_usd": "NaN"},
        {"budget_usd": 0.1234567},
        {"budget_usd": "much"},
        {"budget_tokens": 0},
        {"budget_tokens": 1.5},
        {"budget_tokens": 2**60},
    ],
)
async def test_a_wrong_budget_is_refused_and_leaves_nothing(
    client: httpx.AsyncClient, priced: FastAPI, database: Database, budget: dict[str, Any]
) -> None:
    refused = await client.post("/v1/runs", json={**SPEC, **budget})
    assert refused.status_code == 422
    assert refused.json()["detail"].startswith(f"{next(iter(budget))}: ")
    assert stored(database)["runs"] == 0


async def test_dollars_for_a_model_without_a_price_are_refused_and_tokens_are_taken(
    client: httpx.AsyncClient, priced: FastAPI, team_folder: Path, database: Database, broker: Broker
) -> None:
    (team_folder / "other.yaml").write_text(OTHER_TEAM.replace("birch-1", "birch-9"), encoding="utf-8")
    body = {**SPEC, "team": "other-team"}
    refused = await client.post("/v1/runs", json={**body, "budget_usd": 5})
    assert refused.status_code == 422
    assert refused.json()["detail"] == (
        "no price is known for local/birch-9 (seat 'left'), so a budget in dollars cannot be kept; "
        "give a budget in tokens, or a team whose models have prices"
    )
    assert (stored(database)["runs"], broker.submitted) == (0, [])
    assert (await client.post("/v1/runs", json={**body, "budget_tokens": 5})).status_code == 202


async def test_the_same_key_with_another_budget_is_another_body(
    client: httpx.AsyncClient, priced: FastAPI
) -> None:
    headers = {"Idempotency-Key": "k"}
    bodies = [{**SPEC, "budget_usd": 1}, {**SPEC, "budget_usd": 1.0}, {**SPEC, "budget_usd": 2}, SPEC]
    answers = [await client.post("/v1/runs", json=body, headers=headers) for body in bodies]
    assert [answer.status_code for answer in answers] == [202, 200, 422, 422]


async def test_a_dry_run_says_what_it_will_cost_and_stores_and_sends_nothing(
    client: httpx.AsyncClient, priced: FastAPI, other_team: str, database: Database, broker: Broker
) -> None:
    before = stored(database)
    body = {**SPEC, "team": other_team, "dry_run": True, "budget_usd": 100}
    answer = await client.post("/v1/runs", json=body, headers={"Idempotency-Key": "k"})
    assert answer.status_code == 200
    estimate = answer.json()
    assert (stored(database), broker.submitted) == (before, [])
    assert [seat["seat"] for seat in estimate["seats"]] == [
        "coder",
        "left",
        "right",
        "consensus",
        "refuter",
        "prover",
        "control",
        "lead",
    ]
    assert estimate["seats"][0]["model"] == "alder-1"
    # At a tenth of a cent a token: five seats of 4096, twelve refutations of 2048, six tests and controls of 4096.
    assert estimate["total"]["worst_cost_usd"] == 20.48 + 24.576 + 2 * 24.576
    assert (estimate["simulated"], estimate["unpriced"], estimate["fits_budget"]) == (False, [], True)
    assert "location" not in answer.headers


async def test_a_dry_run_of_a_wrong_body_is_refused_as_a_submission_would_be(
    client: httpx.AsyncClient, priced: FastAPI
) -> None:
    for change in ({"spec": " "}, {"team": "nobody"}, {"budget_usd": -1}, {"dry_run": "perhaps"}):
        refused = await client.post("/v1/runs", json={**SPEC, "dry_run": True, **change})
        assert refused.status_code == 422, change


async def test_a_dry_run_needs_no_provider(client: httpx.AsyncClient) -> None:
    """This process has no key; its workers may. The first model of each chain is shown, without a price."""
    estimate = (await client.post("/v1/runs", json={**SPEC, "dry_run": True})).json()
    assert estimate["seats"][0]["provider"] == "anthropic"
    assert estimate["total"]["cost_usd"] is None


async def test_the_estimate_is_described(client: httpx.AsyncClient) -> None:
    description = (await client.get("/openapi.json")).json()
    answers = description["paths"]["/v1/runs"]["post"]["responses"]
    shown = answers["200"]["content"]["application/json"]["schema"]["anyOf"]
    assert {part["$ref"].rpartition("/")[2] for part in shown} == {"RunSummary", "EstimateOut"}
    accepted = answers["202"]["content"]["application/json"]["schema"]
    assert accepted["$ref"].endswith("/RunSummary")


async def test_a_run_shows_cost_reservations_and_orphans(
    client: httpx.AsyncClient, database: Database
) -> None:
    run_id = (await client.post("/v1/runs", json=SPEC)).json()["id"]
    key = seat_key(run_id=run_id)
    open_seats(database, key)
    worst = Amount(input_tokens=40, output_tokens=100, usd=Decimal("0.1"))
    with database.begin() as connection:
        calls.sent(connection, new_call("c1", key, worst=worst))
        calls.orphan_seats(connection, [key])
        calls.sent(connection, new_call("c2", key, worst=worst))
        done = reply(input_tokens=30, output_tokens=9, cached_input_tokens=20, cache_write_input_tokens=5)
        calls.sent(connection, new_call("c3", key, worst=worst))
        calls.done(connection, "c3", done, rung=1, cost_usd=Decimal("0.009"))
    usage = (await client.get(f"/v1/runs/{run_id}")).json()["usage"]
    assert (usage["cost_usd"], usage["has_estimates"], usage["unpriced_calls"]) == (0.109, True, 0)
    assert (usage["reserved_usd"], usage["reserved_tokens"]) == (0.1, 140)
    assert (usage["cached_input_tokens"], usage["cache_write_input_tokens"]) == (20, 5)
    (orphan,) = usage["orphaned"]
    assert (orphan["call_id"], orphan["seat"], orphan["output_tokens"]) == ("c1", "left", 100)
    (seat,) = usage["seats"]
    assert (seat["cost_usd"], seat["has_estimates"], seat["calls"]) == (0.109, True, 3)
