"""Runs as they are listed, shown and cancelled."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from tests.integration.stored_runs import (
    AT,
    append,
    drop_bodies,
    finish,
    kinds_of,
    open_seats,
    run_of,
    seat_key,
    seat_row,
    set_seat,
    start_run,
    store_run,
    tamper,
)
from workers.core.identity import make_id
from workers.core.reply import Completion, FinishReason, Usage
from workers.core.run import Outcome, RunState, SeatState, Stage
from workers.provenance.repository import calls, runs, stages
from workers.provenance.session import Database


def an_id(number: int) -> str:
    """Ids in the order of their numbers, as the clock would give them."""
    return make_id("run", AT.fromtimestamp(1_700_000_000 + number, tz=AT.tzinfo), number.to_bytes(10))


async def pages(client: httpx.AsyncClient, **query: Any) -> list[list[str]]:
    """Every page of a list, to its end."""
    found: list[list[str]] = []
    cursor = None
    while True:
        asked = {**query, **({"cursor": cursor} if cursor else {})}
        page = (await client.get("/v1/runs", params=asked)).json()
        found.append([run["id"] for run in page["runs"]])
        cursor = page["next_cursor"]
        if cursor is None:
            return found
        assert len(found) < 50


async def test_an_empty_list_is_a_page_without_a_cursor(client: httpx.AsyncClient) -> None:
    assert (await client.get("/v1/runs")).json() == {"runs": [], "next_cursor": None}


async def test_pages_show_every_run_once_newest_first(client: httpx.AsyncClient, database: Database) -> None:
    for number in range(7):
        store_run(database, an_id(number))
    newest_first = [an_id(number) for number in reversed(range(7))]
    for limit in (1, 2, 3, 6, 7, 8, 200):
        found = await pages(client, limit=limit)
        assert [run_id for page in found for run_id in page] == newest_first
        assert all(len(page) == limit for page in found[:-1])


async def test_a_last_page_that_is_full_has_no_cursor(client: httpx.AsyncClient, database: Database) -> None:
    for number in range(4):
        store_run(database, an_id(number))
    assert [len(page) for page in await pages(client, limit=2)] == [2, 2]


async def test_runs_that_arrive_while_paging_neither_shift_nor_repeat_a_page(
    client: httpx.AsyncClient, database: Database
) -> None:
    for number in range(6):
        store_run(database, an_id(number))
    seen: list[str] = []
    cursor = None
    for arriving in (100, 101, 102):
        query = {"limit": 2, **({"cursor": cursor} if cursor else {})}
        page = (await client.get("/v1/runs", params=query)).json()
        seen += [run["id"] for run in page["runs"]]
        cursor = page["next_cursor"]
        store_run(database, an_id(arriving))
    assert seen == [an_id(number) for number in (5, 4, 3, 2, 1, 0)]
    assert cursor is None


async def test_filters_hold_on_every_page(client: httpx.AsyncClient, database: Database) -> None:
    for number in range(6):
        store_run(database, an_id(number))
    finish(database, an_id(0), Outcome.REJECTED)
    finish(database, an_id(2), Outcome.ACCEPTED)
    finish(database, an_id(4), Outcome.REJECTED)
    with database.begin() as connection:
        runs.cancel(connection, an_id(5), tenant_id="default", at=AT)
    start_run(database, an_id(1))
    assert await pages(client, state="finished", limit=1) == [[an_id(4)], [an_id(2)], [an_id(0)]]
    assert await pages(client, outcome="rejected", limit=1) == [[an_id(4)], [an_id(0)]]
    assert await pages(client, outcome="rejected", state="queued") == [[]]
    assert await pages(client, state="cancelled") == [[an_id(5)]]
    assert await pages(client, state="running") == [[an_id(1)]]
    assert await pages(client, state="queued") == [[an_id(3)]]
    assert await pages(client, team="small", limit=200) == [[an_id(number) for number in (5, 4, 3, 2, 1, 0)]]
    assert await pages(client, team="consensus") == [[]]


async def test_runs_of_another_tenant_are_not_there(client: httpx.AsyncClient, database: Database) -> None:
    store_run(database, "run_theirs", tenant_id="other", idempotency_key="k")
    assert await pages(client) == [[]]
    for method, rest in (("GET", ""), ("GET", "/events"), ("GET", "/provenance"), ("POST", "/cancel")):
        answer = await client.request(method, f"/v1/runs/run_theirs{rest}")
        assert answer.status_code == 404
        assert answer.json()["detail"] == "there is no run 'run_theirs'"
    with database.begin() as connection:
        assert runs.get(connection, "run_theirs", tenant_id="other").state is RunState.QUEUED
    # Their key is not ours either.
    answer = await client.post("/v1/runs", json={"spec": "x"}, headers={"Idempotency-Key": "k"})
    assert answer.status_code == 202


def _reply(text: str = "{}", usage: Usage | None = None) -> Completion:
    return Completion(
        text=text,
        reasoning="",
        model_served="birch-1-0131",
        finish_reason=FinishReason.STOP,
        usage=usage or Usage(),
        is_simulated=True,
    )


async def test_a_finished_run_shows_its_verdict_and_what_it_used(
    client: httpx.AsyncClient, database: Database
) -> None:
    store_run(database)
    key = seat_key("coder", Stage.CODER)
    open_seats(database, key)
    values: dict[str, Any] = {
        "key": key,
        "link": 0,
        "provider": "local",
        "model": "birch-1",
        "family": "birch",
    }
    with database.begin() as connection:
        for number in (1, 2):
            calls.sent(connection, calls.NewCall(call_id=f"call_{number}", request={"n": number}, **values))
        calls.failed(connection, "call_1", kind="overloaded", message="busy", usage=None)
        usage = Usage(input_tokens=11, output_tokens=7)
        calls.done(connection, "call_2", _reply(usage=usage), rung=1)
    append(database, "candidate.written", {"simulated": True})
    finish(database, outcome=Outcome.REJECTED)
    shown = (await client.get("/v1/runs/run_1")).json()
    assert (shown["state"], shown["outcome"], shown["simulated"]) == ("finished", "rejected", True)
    assert shown["verdict"] == {"outcome": "rejected", "files": {}}
    assert shown["finished_at"] is not None
    used = shown["usage"]
    assert (used["calls"], used["failed_calls"]) == (2, 1)
    assert (used["input_tokens"], used["output_tokens"]) == (11, 7)
    assert [(seat["model"], seat["calls"]) for seat in used["seats"]] == [("birch-1", 1), ("birch-1-0131", 1)]


async def test_a_run_whose_verdict_was_redacted_is_still_shown(
    client: httpx.AsyncClient, database: Database
) -> None:
    store_run(database)
    finish(database)
    drop_bodies(database)
    for answer in (await client.get("/v1/runs/run_1"), await client.post("/v1/runs/run_1/cancel")):
        assert (answer.status_code, answer.json()["outcome"]) == (200, "accepted")
        assert answer.json()["verdict"] is None


async def test_an_open_run_has_no_verdict_and_no_usage_yet(
    client: httpx.AsyncClient, database: Database
) -> None:
    store_run(database)
    shown = (await client.get("/v1/runs/run_1")).json()
    assert (shown["verdict"], shown["usage"]["calls"], shown["usage"]["seats"]) == (None, 0, [])


async def test_a_queued_run_is_cancelled(client: httpx.AsyncClient, database: Database) -> None:
    store_run(database)
    answer = await client.post("/v1/runs/run_1/cancel")
    assert (answer.status_code, answer.json()["state"], answer.json()["outcome"]) == (200, "cancelled", None)
    assert answer.json()["finished_at"] is not None
    assert kinds_of(database) == ["run.created", "run.cancelled"]


async def test_cancelling_a_running_run_cancels_its_open_seats_and_leaves_the_ended_ones(
    client: httpx.AsyncClient, database: Database
) -> None:
    store_run(database)
    start_run(database)
    seats = {name: seat_key(name) for name in ("pending", "running", "done", "abstained", "failed")}
    open_seats(database, *seats.values())
    for name, key in seats.items():
        set_seat(database, key, state=SeatState(name))
    other = seat_key(run_id="run_2")
    store_run(database, "run_2")
    open_seats(database, other)
    await client.post("/v1/runs/run_1/cancel")
    after = {name: seat_row(database, key).state for name, key in seats.items()}
    assert after == {
        "pending": "cancelled",
        "running": "cancelled",
        "done": "done",
        "abstained": "abstained",
        "failed": "failed",
    }
    assert seat_row(database, other).state == "pending"
    with database.begin() as connection:
        assert stages.claim(connection, seats["pending"], owner="late", lease_seconds=30) is None
        assert runs.cancelled_among(connection, ["run_1", "run_2"]) == {"run_1"}


async def test_cancelling_twice_writes_once(client: httpx.AsyncClient, database: Database) -> None:
    store_run(database)
    first = await client.post("/v1/runs/run_1/cancel")
    again = await client.post("/v1/runs/run_1/cancel", headers={"Idempotency-Key": "again"})
    assert again.status_code == 200
    assert again.json() == first.json()
    assert kinds_of(database) == ["run.created", "run.cancelled"]


async def test_ten_cancels_at_once_write_one_event(client: httpx.AsyncClient, database: Database) -> None:
    store_run(database)
    answers = await asyncio.gather(*(client.post("/v1/runs/run_1/cancel") for _ in range(10)))
    assert {(answer.status_code, answer.json()["state"]) for answer in answers} == {(200, "cancelled")}
    assert kinds_of(database) == ["run.created", "run.cancelled"]


async def test_a_finished_run_stays_as_it_ended(client: httpx.AsyncClient, database: Database) -> None:
    store_run(database)
    finish(database)
    before = run_of(database)
    answer = await client.post("/v1/runs/run_1/cancel")
    assert (answer.status_code, answer.json()["state"]) == (200, "finished")
    assert answer.json()["verdict"] is not None
    assert run_of(database) == before


async def test_provenance_shows_the_whole_ledger_and_that_it_holds(
    client: httpx.AsyncClient, database: Database
) -> None:
    store_run(database)
    finish(database)
    shown = (await client.get("/v1/runs/run_1/provenance")).json()
    assert (shown["verified"], shown["problem"]) == (True, None)
    assert [event["kind"] for event in shown["events"]] == ["run.created", "run.finished"]
    assert shown["head"] == shown["events"][-1]["hash"]


async def test_provenance_of_a_run_that_grows_meanwhile_is_not_called_cut_off(
    client: httpx.AsyncClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_run(database)
    get = runs.get

    def get_and_grow(connection: Any, run_id: str, *, tenant_id: str) -> runs.Run:
        """Another worker writes right after the run's head was read."""
        found = get(connection, run_id, tenant_id=tenant_id)
        append(database, "run.started")
        return found

    monkeypatch.setattr("api.routers.provenance.runs.get", get_and_grow)
    shown = (await client.get("/v1/runs/run_1/provenance")).json()
    assert (shown["verified"], shown["problem"], len(shown["events"])) == (True, None, 1)


async def test_provenance_tells_of_a_changed_entry(client: httpx.AsyncClient, database: Database) -> None:
    store_run(database)
    append(database, "run.started")
    tamper(database, "UPDATE events SET kind = 'run.stopped' WHERE seq = 2")
    shown = (await client.get("/v1/runs/run_1/provenance")).json()
    assert shown["verified"] is False
    assert shown["problem"] == "event 2 was changed: its hash does not follow from event 1"
