"""Providers, their accounts, and limits over HTTP."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from sqlalchemy import update

from tests.api.problem_documents import problem
from tests.integration.desk import chain_team, desk, providers_at, store
from tests.integration.model_server import model_server
from tests.integration.stored_runs import ago, open_seats, store_run
from tests.integration.test_call_rows import new_call
from workers.core.run import Stage
from workers.governor.accounts import AccountState
from workers.governor.base import Limits
from workers.governor.look import look
from workers.provenance.models import calls as calls_table
from workers.provenance.models import provider_states
from workers.provenance.repository import accounts, calls
from workers.provenance.repository.stages import SeatKey
from workers.provenance.session import Database
from workers.providers.registry import PROVIDERS, enabled

KEYS = {"OPENAI_API_KEY": "sk-one", "MISTRAL_API_KEY": "sk-two", "LOCAL_BASE_URL": "http://127.0.0.1:9/v1"}
ON = enabled(KEYS)
NONE_SET: dict[str, Any] = {
    "requests_per_minute": None,
    "input_tokens_per_minute": None,
    "output_tokens_per_minute": None,
    "requests_per_day": None,
    "concurrency": None,
}
OPENAI_DEFAULT = {**NONE_SET, "requests_per_minute": 500.0, "concurrency": 64}


@pytest.fixture(autouse=True)
def _on(app: FastAPI) -> None:
    app.state.services = dataclasses.replace(app.state.services, enabled=lambda: ON)


def tell(database: Database, state: str, *, seconds_left: float = 600, **changes: str) -> None:
    """What a worker publishes."""
    provider = changes.get("provider", "openai")
    said = AccountState(
        provider=provider,
        key_digest=changes.get("key_digest", ON[provider].key_digest),
        state=state,
        reason="HTTP 402: no credit",
        seconds_left=seconds_left,
    )
    with database.begin() as connection:
        accounts.publish(connection, [said])


async def providers(client: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    answer = await client.get("/v1/providers")
    assert answer.status_code == 200, answer.text
    assert "sk-" not in answer.text
    return {entry["name"]: entry for entry in answer.json()}


async def test_providers_are_listed_with_what_is_on_and_never_with_a_key(client: httpx.AsyncClient) -> None:
    listed = await providers(client)

    assert list(listed) == list(PROVIDERS)
    assert [name for name, entry in listed.items() if entry["on"]] == ["openai", "mistral", "local"]
    assert listed["local"]["address"] == "http://127.0.0.1:9/v1"
    assert listed["anthropic"]["address"] == "https://api.anthropic.com/v1"
    assert (listed["openai"]["wire"], listed["anthropic"]["wire"]) == ("openai", "anthropic")
    assert listed["openai"]["cheap_model"] == "gpt-6-luna"
    assert {entry["account"] for entry in listed.values()} == {None}


@pytest.mark.parametrize("state", ["quota", "overload", "low"])
async def test_an_account_shows_what_workers_found_out(
    client: httpx.AsyncClient, database: Database, state: str
) -> None:
    tell(database, state)

    account = (await providers(client))["openai"]["account"]

    assert (account["state"], account["reason"]) == (state, "HTTP 402: no credit")
    assert account["since"] < account["until"]


async def test_low_quota_whose_time_is_over_shows_as_good(
    client: httpx.AsyncClient, database: Database
) -> None:
    tell(database, "low")
    with database.begin() as connection:
        connection.execute(update(provider_states).values(until=ago(1)))

    account = (await providers(client))["openai"]["account"]

    assert (account["state"], account["until"]) == ("good", None)


async def test_the_state_of_another_key_is_not_shown(client: httpx.AsyncClient, database: Database) -> None:
    tell(database, "quota", key_digest="replaced")
    assert (await providers(client))["openai"]["account"] is None


async def shown(client: httpx.AsyncClient) -> dict[str, dict[str, Any]]:
    answer = await client.get("/v1/limits")
    assert answer.status_code == 200, answer.text
    return {f"{entry['provider']}/{entry['family']}": entry for entry in answer.json()}


def limits_of(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: entry[name] for name in NONE_SET}


async def test_limits_begin_with_the_defaults_of_what_is_on(client: httpx.AsyncClient) -> None:
    listed = await shown(client)

    assert list(listed) == ["local/*", "mistral/*", "openai/*"]
    assert limits_of(listed["openai/*"]) == OPENAI_DEFAULT
    assert {entry["is_set"] for entry in listed.values()} == {False}
    assert {entry["live"] for entry in listed.values()} == {None}


async def test_what_is_set_is_shown_and_holds_for_what_was_asked_lately(
    client: httpx.AsyncClient, database: Database
) -> None:
    for number, family in enumerate(("gpt", "o")):
        asked(database, f"run_{number}", provider="openai", family=family)
    asked(database, "run_2", provider="groq", family="llama")  # that is off here
    asked(database, "run_3", provider="openai", family="long-ago", seconds_ago=3700)

    answer = await client.put("/v1/limits/openai/gpt", json={"requests_per_minute": 300, "concurrency": 2})

    assert answer.status_code == 200
    expected = {**NONE_SET, "requests_per_minute": 300.0, "concurrency": 2}
    assert limits_of(answer.json()) == expected
    listed = await shown(client)
    assert list(listed) == ["local/*", "mistral/*", "openai/*", "openai/gpt", "openai/o"]
    assert (limits_of(listed["openai/gpt"]), listed["openai/gpt"]["is_set"]) == (expected, True)
    assert (limits_of(listed["openai/o"]), listed["openai/o"]["is_set"]) == (OPENAI_DEFAULT, False)


async def test_limits_of_a_provider_that_is_off_here_may_be_set_for_workers_elsewhere(
    client: httpx.AsyncClient,
) -> None:
    assert (await client.put("/v1/limits/groq/*", json={"concurrency": 1})).status_code == 200
    assert limits_of((await shown(client))["groq/*"]) == {**NONE_SET, "concurrency": 1}


async def test_setting_the_same_twice_is_the_same_as_once_and_another_replaces_all_five(
    client: httpx.AsyncClient,
) -> None:
    body = {"requests_per_minute": 0.5, "requests_per_day": 7}
    first = await client.put("/v1/limits/openai/*", json=body)
    before = await shown(client)
    second = await client.put("/v1/limits/openai/*", json=body)
    assert (first.json(), await shown(client)) == (second.json(), before)

    await client.put("/v1/limits/openai/*", json={"concurrency": 3})
    assert limits_of((await shown(client))["openai/*"]) == {**NONE_SET, "concurrency": 3}


async def test_a_reset_goes_back_to_the_defaults_and_a_second_one_finds_nothing(
    client: httpx.AsyncClient,
) -> None:
    await client.put("/v1/limits/openai/*", json={"concurrency": 3})

    answer = await client.delete("/v1/limits/openai/*")

    assert (answer.status_code, answer.content) == (204, b"")
    listed = await shown(client)
    assert (limits_of(listed["openai/*"]), listed["openai/*"]["is_set"]) == (OPENAI_DEFAULT, False)
    again = problem(await client.delete("/v1/limits/openai/*"), 404)
    assert again == "no limits are set for openai/*; the defaults hold"


ABOVE_0 = "Input should be greater than 0"


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ('{"requests_per_minute": 0}', f"requests_per_minute: {ABOVE_0}"),
        ('{"input_tokens_per_minute": -1}', f"input_tokens_per_minute: {ABOVE_0}"),
        ('{"output_tokens_per_minute": NaN}', "output_tokens_per_minute: Input should be a finite number"),
        ('{"requests_per_minute": Infinity}', "requests_per_minute: Input should be a finite number"),
        ('{"requests_per_minute": 1e999}', "requests_per_minute: Input should be a finite number"),
        ('{"requests_per_minute": 1e10}', "requests_per_minute: Input should be less than or equal to"),
        ('{"concurrency": 0}', "concurrency: Input should be greater than or equal to 1"),
        ('{"concurrency": 1.5}', "concurrency: Input should be a valid integer"),
        ('{"concurrency": 100001}', "concurrency: Input should be less than or equal to 100000"),
        (
            '{"requests_per_day": 99999999999999999999}',
            "requests_per_day: Input should be less than or equal",
        ),
        ('{"requests_per_minute": true}', "requests_per_minute: Input should be a valid number"),
        ('{"concurrency": true}', "concurrency: Input should be a valid integer"),
        ('{"concurrency": "5"}', "concurrency: Input should be a valid integer"),
        ('{"requests_per_minute": "many"}', "requests_per_minute: Input should be a valid number"),
        (
            '{"requests_per_hour": 5}',
            "body: there is no field 'requests_per_hour'; did you mean 'requests_per_day'? allowed are",
        ),
        ('{"burst": 5}', "body: there is no field 'burst'; allowed are requests_per_minute, "),
        ("[]", "body: there is no JSON object"),
        ("", "body: there is no JSON object"),
    ],
)
async def test_limits_that_let_nobody_through_or_mean_nothing_are_refused(
    client: httpx.AsyncClient, body: str, sentence: str
) -> None:
    answer = await client.put(
        "/v1/limits/openai/*", content=body, headers={"content-type": "application/json"}
    )

    assert problem(answer, 422).startswith(sentence)
    assert not (await shown(client))["openai/*"]["is_set"]


@pytest.mark.parametrize("method", ["PUT", "DELETE"])
async def test_a_provider_that_nobody_knows_is_refused_with_those_that_are_known(
    client: httpx.AsyncClient, method: str
) -> None:
    answer = await client.request(method, "/v1/limits/opnai/*", json={"concurrency": 1})
    assert problem(answer, 422) == f"there is no provider 'opnai'; known are {', '.join(PROVIDERS)}"


@pytest.mark.parametrize(
    ("family", "sentence"),
    [
        ("gpt-5-mini", "'gpt-5-mini' is a model of the family 'gpt', and limits hold for families"),
        ("GPT", "'GPT' is a model of the family 'gpt'"),
        ("o3", "'o3' is a model of the family 'gpt'"),
        ("a%20b", "family: String should match pattern"),
        ("gpt%00", "family: String should match pattern"),
        ("x" * 81, "family: String should have at most 80 characters"),
    ],
)
async def test_a_name_under_which_nothing_is_counted_is_refused(
    client: httpx.AsyncClient, family: str, sentence: str
) -> None:
    answer = await client.put(f"/v1/limits/openai/{family}", json={"concurrency": 1})
    assert problem(answer, 422).startswith(sentence)


@pytest.mark.parametrize("family", ["gpt", "sim-alder", "*"])
async def test_families_are_taken_as_they_are_listed(client: httpx.AsyncClient, family: str) -> None:
    assert (await client.put(f"/v1/limits/openai/{family}", json={"concurrency": 1})).status_code == 200
    assert f"openai/{family}" in await shown(client)


async def test_the_live_numbers_are_those_of_the_shared_store(
    client: httpx.AsyncClient, app: FastAPI, database: Database, redis_url: str
) -> None:
    """A worker made one call of a seat, under a limit that counts by the day."""
    with model_server() as server:
        on = providers_at(server)
        with desk(database, redis_url, on, limits={"openai": Limits(requests_per_day=9)}) as worker:
            store(database, "run_1", chain_team(["openai/gpt-5"]))
            worker.work(worker.open("run_1"))
    app.state.services = dataclasses.replace(
        app.state.services, enabled=lambda: on, snapshots=lambda limits: look(redis_url, limits)
    )
    await client.put("/v1/limits/openai/gpt", json={"requests_per_day": 9, "concurrency": 5})

    listed = await shown(client)

    assert listed["openai/gpt"]["live"] == {
        "running": 0,
        "waiting_interactive": 0,
        "waiting_batch": 0,
        "blocked_seconds": 0.0,
        "adaptive_concurrency": 5,
        "requests_today": 1,
    }
    # There is no bucket for all families together.
    assert listed["openai/*"]["live"] is None


async def test_limits_are_shown_while_redis_is_away(client: httpx.AsyncClient, app: FastAPI) -> None:
    app.state.services = dataclasses.replace(
        app.state.services, snapshots=lambda limits: look("redis://127.0.0.1:1/0", limits)
    )
    await client.put("/v1/limits/openai/gpt", json={"concurrency": 5})

    listed = await shown(client)

    assert (listed["openai/gpt"]["concurrency"], listed["openai/gpt"]["live"]) == (5, None)


async def test_the_interface_is_described(client: httpx.AsyncClient) -> None:
    paths = (await client.get("/openapi.json")).json()["paths"]
    assert paths["/v1/providers"].keys() == {"get"}
    assert paths["/v1/limits"].keys() == {"get"}
    assert paths["/v1/limits/{provider}/{family}"].keys() == {"put", "delete"}
    # A PUT can be repeated as it is; it takes no key.
    put = paths["/v1/limits/{provider}/{family}"]["put"]
    assert {parameter["name"] for parameter in put["parameters"]} == {"provider", "family"}


def asked(database: Database, run_id: str, *, provider: str, family: str, seconds_ago: float = 0) -> None:
    """A call that some worker sent."""
    key = SeatKey(run_id=run_id, round=1, stage=Stage.PANEL, seat="left")
    store_run(database, run_id)
    open_seats(database, key)
    with database.begin() as connection:
        calls.sent(connection, new_call(f"call_{run_id}", key, provider=provider, family=family))
        connection.execute(
            update(calls_table).where(calls_table.c.run_id == run_id).values(sent_at=ago(seconds_ago))
        )
