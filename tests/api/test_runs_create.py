"""`POST /v1/runs`."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from celery import Celery
from fastapi import FastAPI

from api.app import create_app
from api.dependencies import Services
from api.live import Hub
from tests.api.conftest import Broker
from tests.integration.stored_runs import count, events_of, run_of
from workers.core.run import RunState
from workers.enqueue import broker_problem, submit_run
from workers.provenance import payload
from workers.provenance.session import Database

SPEC = {"spec": "Write slugify(text)."}


def stored(database: Database) -> dict[str, int]:
    with database.begin() as connection:
        return {table: count(connection, table) for table in ("runs", "events", "payloads", "stages")}


async def test_a_new_run_is_queued_recorded_and_submitted_once(
    client: httpx.AsyncClient, database: Database, broker: Broker
) -> None:
    body: dict[str, Any] = {
        **SPEC,
        "id": "mine/1",
        "files": {"src/a.py": "x = 1\n"},
        "tests": {"test_a.py": "assert True\n"},
        "priority": 3,
        "metadata": {"ticket": 7, "nested": [{"a": None}]},
    }
    answer = await client.post("/v1/runs", json=body)
    assert answer.status_code == 202
    shown = answer.json()
    assert answer.headers["location"] == f"/v1/runs/{shown['id']}"
    assert shown["state"] == "queued"
    assert shown["team"] == "consensus"
    assert (shown["external_id"], shown["priority"]) == ("mine/1", 3)
    assert shown["metadata"] == body["metadata"]
    assert (shown["outcome"], shown["started_at"], shown["finished_at"]) == (None, None, None)
    assert broker.submitted == [shown["id"]]
    row = run_of(database, shown["id"])
    with database.begin() as connection:
        material = payload.load(connection, row.input_digest)
        team = payload.load(connection, row.team_digest)
    assert material == {"spec": body["spec"], "files": body["files"], "tests": body["tests"]}
    assert team["name"] == "consensus"
    (event,) = events_of(database, shown["id"])
    assert (event.seq, event.kind) == (1, "run.created")
    assert event.payload["input_digest"] == row.input_digest


async def test_code_to_judge_is_kept_with_what_was_left_out(
    client: httpx.AsyncClient, database: Database
) -> None:
    left_out = [{"path": "logo.png", "reason": "binary"}]
    body = {**SPEC, "review": True, "files": {"a.py": "x = 1\n"}, "left_out": left_out}
    run_id = (await client.post("/v1/runs", json=body)).json()["id"]
    diff = "--- a/a.py\n+++ b/a.py\n@@ -3 +3 @@\n-x = 2\n+x = 1\n"
    of_diff = (await client.post("/v1/runs", json={**SPEC, "diff": diff})).json()["id"]

    with database.begin() as connection:
        material, changed = (
            payload.load(connection, run_of(database, run).input_digest) for run in (run_id, of_diff)
        )
    assert material["files"] == body["files"]
    assert material["review"] == {"left_out": left_out, "parts": {}, "removed": {}}
    assert changed["files"] == {"a.py": "\n\nx = 1\n"}
    assert changed["review"] == {
        "left_out": [],
        "parts": {"a.py": [[3, 3]]},
        "removed": {"a.py": [{"before": 3, "text": "x = 2"}]},
    }


async def test_the_run_is_committed_before_it_is_submitted(database: Database, database_url: str) -> None:
    seen: list[RunState] = []
    services = Services(
        database=database,
        hub=Hub(database_url),
        submit=lambda run_id: seen.append(run_of(database, run_id).state),
        broker_problem=lambda: None,
    )
    transport = httpx.ASGITransport(app=create_app(services))
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        await client.post("/v1/runs", json=SPEC)
    assert seen == [RunState.QUEUED]


async def test_the_same_key_and_body_give_the_same_run(
    client: httpx.AsyncClient, database: Database, broker: Broker
) -> None:
    headers = {"Idempotency-Key": "k 1"}
    first = await client.post("/v1/runs", json=SPEC, headers=headers)
    before = stored(database)
    again = await client.post("/v1/runs", json=SPEC, headers=headers)
    assert (first.status_code, again.status_code) == (202, 200)
    assert again.json() == first.json()
    assert again.headers["location"] == first.headers["location"]
    assert len(broker.submitted) == 1
    assert stored(database) == before


async def test_a_body_that_only_spells_out_defaults_is_the_same_body(client: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "k"}
    first = await client.post("/v1/runs", json=SPEC, headers=headers)
    spelled = {"metadata": {}, "team": "consensus", **SPEC, "priority": 0, "files": {}}
    again = await client.post("/v1/runs", json=spelled, headers=headers)
    assert (again.status_code, again.json()["id"]) == (200, first.json()["id"])


@pytest.mark.parametrize(
    "change",
    [
        {"spec": "Write slugify(text)!"},
        {"id": "other"},
        {"files": {"a.py": ""}},
        {"tests": {"a.py": ""}},
        {"priority": 1},
        {"metadata": {"a": 1}},
        {"team": "other-team"},
    ],
)
async def test_the_same_key_with_another_body_is_refused_and_leaves_nothing(
    client: httpx.AsyncClient, database: Database, broker: Broker, team_folder: Any, change: dict[str, Any]
) -> None:
    (team_folder / "other.yaml").write_text(OTHER_TEAM, encoding="utf-8")
    headers = {"Idempotency-Key": "k"}
    first = await client.post("/v1/runs", json=SPEC, headers=headers)
    before = stored(database)
    refused = await client.post("/v1/runs", json={**SPEC, **change}, headers=headers)
    assert refused.status_code == 422
    assert first.json()["id"] in refused.json()["detail"]
    assert "new key" in refused.json()["detail"]
    assert stored(database) == before
    assert len(broker.submitted) == 1


OTHER_TEAM = """
name: other-team
description: another team
coder: {models: [local/alder-1]}
reviewers:
  left: {models: [local/birch-1]}
  right: {models: [local/cedar-1]}
consensus: {models: [local/birch-2]}
lead: {models: [local/cedar-2]}
"""


async def test_a_key_stays_used_after_the_run_has_ended(client: httpx.AsyncClient, broker: Broker) -> None:
    headers = {"Idempotency-Key": "k"}
    first = (await client.post("/v1/runs", json=SPEC, headers=headers)).json()
    await client.post(f"/v1/runs/{first['id']}/cancel")
    again = await client.post("/v1/runs", json=SPEC, headers=headers)
    assert (again.status_code, again.json()["id"], again.json()["state"]) == (200, first["id"], "cancelled")
    assert len(broker.submitted) == 1


async def test_twenty_posts_at_once_with_one_key_make_one_run(
    client: httpx.AsyncClient, database: Database, broker: Broker
) -> None:
    headers = {"Idempotency-Key": "k"}
    answers = await asyncio.gather(*(client.post("/v1/runs", json=SPEC, headers=headers) for _ in range(20)))
    assert sorted(answer.status_code for answer in answers) == [200] * 19 + [202]
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert len(broker.submitted) == 1
    assert stored(database)["runs"] == 1


async def test_of_ten_bodies_at_once_under_one_key_one_wins(
    client: httpx.AsyncClient, database: Database, broker: Broker
) -> None:
    headers = {"Idempotency-Key": "k"}
    answers = await asyncio.gather(
        *(client.post("/v1/runs", json={"spec": f"spec {n}"}, headers=headers) for n in range(10))
    )
    assert sorted(answer.status_code for answer in answers) == [202] + [422] * 9
    assert (len(broker.submitted), stored(database)["runs"], stored(database)["events"]) == (1, 1, 1)


async def test_without_a_key_every_post_is_a_run(client: httpx.AsyncClient, broker: Broker) -> None:
    answers = await asyncio.gather(*(client.post("/v1/runs", json=SPEC) for _ in range(10)))
    assert {answer.status_code for answer in answers} == {202}
    assert len(set(broker.submitted)) == 10


@pytest.mark.parametrize("key", [b"", b"x" * 201, b"a\tb", b"\xa0", b"a\x7fb"])
async def test_a_bad_key_is_refused_with_a_sentence(
    client: httpx.AsyncClient, database: Database, key: bytes
) -> None:
    refused = await client.post("/v1/runs", json=SPEC, headers=[(b"Idempotency-Key", key)])
    assert refused.status_code == 422
    assert "Idempotency-Key must have 1 to 200 printable" in refused.json()["detail"]
    assert stored(database)["runs"] == 0


async def test_a_key_of_two_hundred_characters_is_taken(client: httpx.AsyncClient) -> None:
    headers = {"Idempotency-Key": "x" * 200}
    assert (await client.post("/v1/runs", json=SPEC, headers=headers)).status_code == 202
    assert (await client.post("/v1/runs", json=SPEC, headers=headers)).status_code == 200


async def test_a_team_of_ones_own_folder_is_found(client: httpx.AsyncClient, team_folder: Any) -> None:
    (team_folder / "other.yaml").write_text(OTHER_TEAM, encoding="utf-8")
    answer = await client.post("/v1/runs", json={**SPEC, "team": "other-team"})
    assert (answer.status_code, answer.json()["team"]) == (202, "other-team")


async def test_a_run_keeps_the_team_it_was_submitted_with(
    client: httpx.AsyncClient, team_folder: Any, database: Database
) -> None:
    file = team_folder / "other.yaml"
    file.write_text(OTHER_TEAM, encoding="utf-8")
    run_id = (await client.post("/v1/runs", json={**SPEC, "team": "other-team"})).json()["id"]
    file.write_text(OTHER_TEAM.replace("alder-1", "alder-9"), encoding="utf-8")
    with database.begin() as connection:
        team = payload.load(connection, run_of(database, run_id).team_digest)
    assert team["coder"]["models"] == ["local/alder-1"]


@pytest.fixture
def app_without_broker(database: Database, database_url: str) -> FastAPI:
    """The application with the real `submit`, whose broker's port is closed. A Celery of its own: the process's
    one keeps its connections, and would hand them to other tests."""
    celery = Celery("away", broker="redis://127.0.0.1:1/0", set_as_current=False)
    celery.conf.task_publish_retry_policy = {"max_retries": 2, "interval_start": 0, "interval_step": 0.2}
    return create_app(
        Services(
            database=database,
            hub=Hub(database_url),
            submit=lambda run_id: submit_run(celery, run_id),
            broker_problem=lambda: broker_problem(celery),
        )
    )


async def test_with_the_broker_away_a_run_is_accepted_and_stays_queued(
    app_without_broker: FastAPI, database: Database
) -> None:
    transport = httpx.ASGITransport(app=app_without_broker, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://api") as client:
        answer = await asyncio.wait_for(client.post("/v1/runs", json=SPEC), timeout=10)
        ready = await client.get("/readyz")
    assert answer.status_code == 202
    assert run_of(database, answer.json()["id"]).state is RunState.QUEUED
    assert ready.status_code == 503
    assert "broker does not answer" in ready.json()["detail"]


async def test_alarms_are_kept_as_they_were_understood(client: httpx.AsyncClient, database: Database) -> None:
    place = {"artifactLocation": {"uri": "./a.py"}, "region": {"startLine": 1}}
    alarm = {"ruleId": "B602", "message": {"text": "shell\x00"}, "locations": [{"physicalLocation": place}]}
    sarif = {"version": "2.1.0", "runs": [{"tool": {"driver": {"name": "Bandit"}}, "results": [alarm]}]}
    body = {**SPEC, "files": {"a.py": "x = 1\n"}, "sarif": sarif}
    run_id = (await client.post("/v1/runs", json=body)).json()["id"]

    with database.begin() as connection:
        material = payload.load(connection, run_of(database, run_id).input_digest)
    (kept,) = material["review"]["alarms"]
    assert (kept["alarm_id"], kept["tool"], kept["rule"], kept["message"]) == (
        "A1",
        "Bandit",
        "B602",
        "shell�",
    )
    assert kept["span"] == {"path": "a.py", "start": 1, "end": 1}


async def test_a_file_that_is_no_sarif_is_refused_with_its_place(client: httpx.AsyncClient) -> None:
    body = {**SPEC, "files": {"a.py": "x = 1\n"}, "sarif": {"runs": [{"results": {}}, {"results": "x"}]}}
    answer = await client.post("/v1/runs", json=body)
    assert (answer.status_code, answer.json()["detail"]) == (
        422,
        "runs[1].results: is a text; SARIF has an array there",
    )
