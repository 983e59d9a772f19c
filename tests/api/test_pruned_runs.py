"""A run whose bodies were dropped is shown with its verdict, and says in a sentence what is gone."""

from __future__ import annotations

import datetime as dt

import httpx

from tests.integration.stored_runs import append, finish, store_run
from workers.provenance.retention.bodies import prune_runs
from workers.provenance.session import Database
from workers.stages.replay import replay

LATER = dt.datetime(2100, 1, 1, tzinfo=dt.UTC)


def pruned(database: Database) -> None:
    store_run(database)
    append(database, "candidate.written", {"code": "x = 1"})
    finish(database)
    prune_runs(database, before=LATER)


async def test_a_pruned_run_has_its_verdict_and_a_sentence(
    client: httpx.AsyncClient, database: Database
) -> None:
    pruned(database)
    shown = (await client.get("/v1/runs/run_1")).json()
    assert (shown["outcome"], shown["verdict"]) == ("accepted", {"outcome": "accepted", "files": {}})
    assert shown["gone"].startswith("the spec, code, prompts and replies of this run were dropped on 20")


async def test_a_run_with_everything_says_nothing(client: httpx.AsyncClient, database: Database) -> None:
    store_run(database)
    assert (await client.get("/v1/runs/run_1")).json()["gone"] is None
    assert (await client.get("/v1/runs/run_1/provenance")).json()["gone"] is None


async def test_the_ledger_of_a_pruned_run_is_verified_and_its_replay_says_why_there_is_none(
    client: httpx.AsyncClient, database: Database
) -> None:
    pruned(database)
    document = (await client.get("/v1/runs/run_1/provenance")).json()
    assert (document["verified"], document["problem"]) == (True, None)
    assert [event["payload"] for event in document["events"]] == [
        None,
        None,
        {"outcome": "accepted", "files": {}},
    ]
    replayed = replay(document)
    assert replayed.is_compared is False
    assert replayed.problem == f"{document['gone']}, so its verdict cannot be computed again"


async def test_the_stream_of_a_pruned_run_still_ends(client: httpx.AsyncClient, database: Database) -> None:
    pruned(database)
    told = (await client.get("/v1/runs/run_1/events")).text
    assert told.count("event: ") >= 3
    assert "run.finished" in told


async def test_a_run_of_the_same_spec_brings_the_bodies_back_and_the_old_run_shows_them(
    client: httpx.AsyncClient, database: Database
) -> None:
    pruned(database)
    store_run(database, "run_2")
    document = (await client.get("/v1/runs/run_1/provenance")).json()
    assert document["events"][0]["payload"] is not None
    assert document["verified"] is True
