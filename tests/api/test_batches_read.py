"""`GET /v1/batches`, `GET /v1/batches/{id}` and `GET /v1/runs?batch=`."""

from __future__ import annotations

import httpx
import pytest
from sqlalchemy import func, update

from tests.api.problem_documents import problem
from tests.api.test_batches_create import lines, post, runs_of, specs
from tests.integration.stored_runs import finish
from workers.core.run import Outcome
from workers.provenance.models import batches as batches_table
from workers.provenance.session import Database


async def test_batches_are_listed_newest_first_page_by_page(client: httpx.AsyncClient) -> None:
    made = [(await post(client, lines(*specs(1)), name=f"n{n}")).json() for n in range(5)]
    first = (await client.get("/v1/batches", params={"limit": 3})).json()
    last = (await client.get("/v1/batches", params={"limit": 3, "cursor": first["next_cursor"]})).json()
    assert first["batches"] + last["batches"] == made[::-1]
    assert last["next_cursor"] is None


async def test_batches_are_listed_by_state(client: httpx.AsyncClient, database: Database) -> None:
    one, two = [(await post(client, lines(*specs(1)))).json()["id"] for _ in range(2)]
    with database.begin() as connection:
        connection.execute(
            update(batches_table)
            .where(batches_table.c.batch_id == one)
            .values(state="paused", pause_cause="user")
        )
    for state, batch_id in (("paused", one), ("running", two)):
        shown = (await client.get("/v1/batches", params={"state": state})).json()["batches"]
        assert [(batch["id"], batch["state"]) for batch in shown] == [(batch_id, state)]


@pytest.mark.parametrize("cursor", ["x", "run_00000000000000000000000000", ""])
async def test_a_cursor_that_no_page_gave_is_refused(client: httpx.AsyncClient, cursor: str) -> None:
    answer = await client.get("/v1/batches", params={"cursor": cursor})
    assert "is not the next_cursor of a page" in problem(answer, 422)


@pytest.mark.parametrize("path", ["/v1/batches/batch_1", "/v1/batches/a%00b", "/v1/runs?batch=batch_1"])
async def test_no_such_batch_is_a_sentence(client: httpx.AsyncClient, path: str) -> None:
    assert "there is no batch" in problem(await client.get(path), 404)


async def test_a_new_batch_waits_and_tells_no_rate(client: httpx.AsyncClient) -> None:
    batch = (await post(client, lines(*specs(3)))).json()
    detail = (await client.get(f"/v1/batches/{batch['id']}")).json()
    assert {name: detail[name] for name in batch} == batch
    assert detail["progress"] == {
        "waiting": 3,
        "running": 0,
        "accepted": 0,
        "rejected": 0,
        "degraded": 0,
        "cancelled": 0,
    }
    assert (detail["runs_per_minute"], detail["seconds_left"]) == (None, None)
    assert (detail["failures"], detail["skipped_lines"]) == ([], [])
    assert (detail["usage"]["calls"], detail["usage"]["cost_usd"]) == (0, None)


async def test_a_batch_under_way_tells_its_rate_and_a_paused_one_no_time_left(
    client: httpx.AsyncClient, database: Database
) -> None:
    batch_id = (await post(client, lines(*specs(5)))).json()["id"]
    for run in runs_of(database, batch_id)[:2]:
        finish(database, run.run_id, Outcome.REJECTED)

    def set_batch(**values: object) -> None:
        with database.begin() as connection:
            connection.execute(update(batches_table).values(**values))

    set_batch(started_at=func.now() - func.make_interval(0, 0, 0, 0, 0, 0, 120))
    detail = (await client.get(f"/v1/batches/{batch_id}")).json()
    assert (detail["progress"]["waiting"], detail["progress"]["rejected"]) == (3, 2)
    # Two in two minutes; the clock goes on while it is asked.
    assert detail["runs_per_minute"] == pytest.approx(1, rel=0.2)
    assert detail["seconds_left"] == pytest.approx(180, rel=0.2)

    set_batch(state="paused", pause_cause="budget")
    detail = (await client.get(f"/v1/batches/{batch_id}")).json()
    assert (detail["pause_cause"], detail["seconds_left"]) == ("budget", None)


async def test_the_runs_of_a_batch_are_listed_with_their_lines(client: httpx.AsyncClient) -> None:
    batch_id = (await post(client, lines(*specs(3)))).json()["id"]
    alone = (await client.post("/v1/runs", json={"spec": "a"})).json()
    assert (alone["batch"], alone["line"]) == (None, None)
    first = (await client.get("/v1/runs", params={"batch": batch_id, "limit": 2})).json()
    last = (
        await client.get("/v1/runs", params={"batch": batch_id, "limit": 2, "cursor": first["next_cursor"]})
    ).json()
    shown = first["runs"] + last["runs"]
    assert [(run["line"], run["external_id"], run["batch"]) for run in shown] == [
        (n, f"case-{n}", batch_id) for n in (3, 2, 1)
    ]
    everything = (await client.get("/v1/runs")).json()["runs"]
    assert len(everything) == 4
