"""`POST /v1/batches`."""

from __future__ import annotations

import json
from typing import Any

import httpx

from tests.integration.stored_runs import count, events_of
from workers.core.run import RunState
from workers.provenance import ledger, payload
from workers.provenance.digest import GENESIS
from workers.provenance.repository import batches, runs
from workers.provenance.session import Database

JSONL = {"Content-Type": "application/jsonl"}


def lines(*values: Any) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


async def post(client: httpx.AsyncClient, *values: Any, **options: Any) -> httpx.Response:
    return await client.post("/v1/batches", content=lines(*values), headers=JSONL, params=options)


async def test_each_line_becomes_a_queued_run_that_waits(
    client: httpx.AsyncClient, database: Database
) -> None:
    first = {"spec": "Write slugify(text).", "id": "a", "priority": 4, "metadata": {"n": 1}}
    second = {"spec": "Write median(numbers).", "files": {"a.py": "x = 1\n"}, "tests": {"t.py": ""}}
    answer = await post(client, first, second, name="two")
    assert answer.status_code == 202, answer.text
    shown = answer.json()
    assert answer.headers["location"] == f"/v1/batches/{shown['id']}"
    assert (shown["state"], shown["runs"], shown["name"]) == ("running", 2, "two")

    with database.begin() as connection:
        found = runs.page(connection, batch_id=shown["id"])
    two, one = found
    assert (one.position, two.position) == (1, 2)
    assert (one.state, one.external_id, one.priority, one.metadata) == (RunState.QUEUED, "a", 4, {"n": 1})
    with database.begin() as connection:
        assert payload.load(connection, two.input_digest) == {
            "spec": second["spec"],
            "files": second["files"],
            "tests": second["tests"],
        }
        waiting = batches.progress(connection, shown["id"]).progress
    assert waiting.waiting == 2
    for run in found:
        entries = events_of(database, run.run_id)
        assert [entry.kind for entry in entries] == ["run.created"]
        assert ledger.verify(entries, run_id=run.run_id, head=run.ledger_head, genesis=GENESIS) is None


async def test_one_bad_line_refuses_all_by_its_number(client: httpx.AsyncClient, database: Database) -> None:
    answer = await post(client, {"spec": "a"}, {"spec": "b", "priorty": 1}, {"spec": "c"})
    assert answer.status_code == 422
    assert "line 2: there is no field 'priorty'" in answer.json()["detail"]
    with database.begin() as connection:
        assert [count(connection, table) for table in ("batches", "runs", "payloads")] == [0, 0, 0]
