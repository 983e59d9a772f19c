"""`GET /v1/batches/{id}/results`: a line a run, whatever has become of it."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from jsonschema import Draft4Validator
from sqlalchemy import update

from api.batch_lines import COLUMNS
from api.routers import batch_results as batch_results_router
from tests.api.batch_rows import store_batch
from tests.api.conftest import served
from tests.integration.stored_runs import drop_bodies
from workers import log
from workers.core.run import Outcome, RunState
from workers.errors import UnavailableError
from workers.provenance.models import runs as runs_table
from workers.provenance.repository import batch_results
from workers.provenance.session import Database

VALID = Draft4Validator(
    json.loads(
        (Path(__file__).parents[1] / "data" / "sarif" / "sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8")
    )
)
SOME = (Outcome.ACCEPTED, Outcome.REJECTED, None, Outcome.DEGRADED, Outcome.REJECTED)


async def fetched(client: httpx.AsyncClient, format: str, batch_id: str = "batch_1") -> httpx.Response:
    answer = await client.get(f"/v1/batches/{batch_id}/results", params={"format": format})
    assert answer.status_code == 200, answer.text
    return answer


async def lines(client: httpx.AsyncClient) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (await fetched(client, "jsonl")).text.splitlines()]


async def test_every_run_has_a_line_in_the_order_of_submission_ended_or_not(
    client: httpx.AsyncClient, database: Database
) -> None:
    run_ids = store_batch(database, SOME)
    shown = await lines(client)
    assert [line["id"] for line in shown] == run_ids
    assert [line["line"] for line in shown] == [1, 2, 3, 4, 5]
    assert [line["outcome"] for line in shown] == ["accepted", "rejected", None, "degraded", "rejected"]
    assert [line["state"] for line in shown] == ["finished", "finished", "queued", "finished", "finished"]
    assert shown[0]["external_id"] == f"x-{run_ids[0]}"


async def test_a_line_holds_the_verdict_with_its_code_beside_it(
    client: httpx.AsyncClient, database: Database
) -> None:
    store_batch(database, (Outcome.REJECTED, None))
    rejected, waiting = await lines(client)
    assert list(rejected["files"]) == ["a.py"]
    assert "files" not in rejected["verdict"]
    assert rejected["verdict"]["claims"][0]["claim"]["claim_id"] == "C1"
    assert (rejected["simulated"], rejected["reasons"]) == (True, [])
    assert (waiting["verdict"], waiting["files"], waiting["reasons"]) == (None, {}, [])


async def test_csv_has_a_row_a_run_and_no_cell_that_is_a_formula(
    client: httpx.AsyncClient, database: Database
) -> None:
    run_ids = store_batch(database, SOME)
    with database.begin() as connection:
        connection.execute(
            update(runs_table).where(runs_table.c.run_id == run_ids[0]).values(external_id="=1+1")
        )
    answer = await fetched(client, "csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert answer.text.count("\n") == len(SOME) + 1
    assert tuple(rows[0]) == COLUMNS
    assert [row["outcome"] for row in rows] == ["accepted", "rejected", "", "degraded", "rejected"]
    assert rows[0]["external_id"] == "'=1+1"
    found = rows[1]
    assert (found["claims"], found["standing"], found["worst_standing"], found["files"]) == (
        "1",
        "1",
        "medium",
        "1",
    )


async def test_sarif_over_a_batch_is_valid_and_each_claim_names_its_run(
    client: httpx.AsyncClient, database: Database
) -> None:
    run_ids = store_batch(database, SOME)
    answer = await fetched(client, "sarif")
    assert answer.headers["content-type"] == "application/sarif+json"
    log = answer.json()
    VALID.validate(log)
    (only,) = log["runs"]
    assert [item["properties"]["run"] for item in only["results"]] == [run_ids[1], run_ids[4]]
    assert [item["ruleId"] for item in only["results"]] == ["CWE-190", "CWE-190"]
    assert only["tool"]["driver"]["rules"][only["results"][0]["ruleIndex"]]["id"] == "CWE-190"
    assert only["properties"] == {
        "batch": "batch_1",
        "outcomes": {"accepted": 1, "degraded": 1, "queued": 1, "rejected": 2},
        "simulated": True,
    }
    assert only["invocations"][0]["executionSuccessful"] is False


async def test_every_format_has_a_line_a_run(client: httpx.AsyncClient, database: Database) -> None:
    store_batch(database, SOME)
    assert (await fetched(client, "jsonl")).text.count("\n") == 5
    assert (await fetched(client, "csv")).text.count("\n") == 6
    assert (await fetched(client, "sarif")).text.count("\n") == 7


async def test_pages_join_without_a_gap_or_a_repeat(
    client: httpx.AsyncClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_ids = store_batch(database, SOME)
    real = batch_results.page
    for runs_a_page in (1, 2, 3):
        monkeypatch.setattr(
            batch_results,
            "page",
            lambda *args, most=runs_a_page, **given: real(*args, most_runs=most, **given),
        )
        assert [line["id"] for line in await lines(client)] == run_ids


def test_a_page_ends_with_the_verdict_that_fills_it(database: Database) -> None:
    store_batch(database, [Outcome.REJECTED] * 4)
    with database.begin() as connection:
        # A real verdict has more than one byte, so the first one fills the page.
        first = batch_results.page(connection, "batch_1", after=0, most_bytes=1)
        rest = batch_results.page(connection, "batch_1", after=1)
    assert [run.position for run in first] == [1]
    assert [run.position for run in rest] == [2, 3, 4]


async def test_a_redacted_verdict_leaves_the_run_and_its_outcome(
    client: httpx.AsyncClient, database: Database
) -> None:
    store_batch(database, (Outcome.REJECTED,))
    drop_bodies(database)
    (line,) = await lines(client)
    assert (line["outcome"], line["verdict"]) == ("rejected", None)
    VALID.validate((await fetched(client, "sarif")).json())


async def test_a_cancelled_run_is_told_by_its_state(client: httpx.AsyncClient, database: Database) -> None:
    (run_id,) = store_batch(database)
    await client.post(f"/v1/runs/{run_id}/cancel")
    (line,) = await lines(client)
    assert (line["state"], line["outcome"]) == (RunState.CANCELLED, None)


@pytest.mark.parametrize(("path", "status"), [("batch_2/results", 404), ("batch_1/results?format=pdf", 422)])
async def test_what_is_not_there_is_refused_with_a_sentence(
    client: httpx.AsyncClient, database: Database, path: str, status: int
) -> None:
    store_batch(database)
    answer = await client.get(f"/v1/batches/{path}")
    assert (answer.status_code, answer.headers["content-type"]) == (status, "application/problem+json")


async def test_another_batchs_runs_stay_out(client: httpx.AsyncClient, database: Database) -> None:
    store_batch(database, SOME)
    store_batch(database, (Outcome.ACCEPTED,), "batch_2")
    assert len(await lines(client)) == 5


def test_a_reader_who_has_not_read_on_holds_no_connection(app: FastAPI, database: Database) -> None:
    store_batch(database, SOME)
    pages = batch_results_router._pages(app.state.services, "batch_1")
    assert len(next(pages)) == len(SOME)
    assert database._engine.pool.checkedout() == 0  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("error", "is_traced"),
    [(RuntimeError("a fault"), True), (UnavailableError("the database is gone"), False)],
)
def test_a_stream_that_breaks_in_the_middle_is_seen_to_be_cut(
    error: Exception,
    is_traced: bool,
    app: FastAPI,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Only a fault of ours is worth a traceback."""
    store_batch(database, SOME)
    real = batch_results.page

    def breaking(*args: Any, after: int) -> list[batch_results.BatchRun]:
        if after:
            raise error
        return real(*args, after=after, most_runs=2)

    monkeypatch.setattr(batch_results, "page", breaking)
    # Each page is a piece of its own, so that something has been sent when it breaks.
    monkeypatch.setattr("api.batch_lines._PIECE_BYTES", 1)
    # The error lands in the server's log, and structlog's own way to draw one takes seconds.
    log.configure("CRITICAL", as_json=True)
    arrived: list[str] = []

    def download(client: httpx.Client) -> None:
        with client.stream("GET", "/v1/batches/batch_1/results") as response:
            for line in response.iter_lines():
                arrived.append(line)

    with (
        served(app) as url,
        httpx.Client(base_url=url, timeout=10) as client,
        pytest.raises(httpx.RemoteProtocolError, match="incomplete chunked read"),
    ):
        download(client)
    assert len(arrived) == 2
    assert ("Traceback" in "".join(capfd.readouterr())) == is_traced
