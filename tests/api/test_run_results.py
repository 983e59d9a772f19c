"""`GET /v1/runs/{id}/results`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft4Validator

from tests.factories import FILES, make_finding, make_review
from tests.integration.stored_runs import AT, append, store_run
from workers.core.consensus import tally
from workers.core.run import Outcome
from workers.core.team import Policy
from workers.core.verdict import Case, decide
from workers.provenance import ledger
from workers.provenance.repository import runs
from workers.provenance.session import Database
from workers.stages.panel import finding_data

SCHEMA = Path(__file__).parents[1] / "data" / "sarif" / "sarif-2.1.0-rtm.5.json"


def finished(database: Database) -> None:
    findings = [make_finding(reviewer=name, cwe=190) for name in ("left", "right")]
    reviews = [make_review(item.reviewer, item) for item in findings]
    verdict = decide(
        Case(
            policy=Policy(),
            panel_size=2,
            coder_model="x/y",
            candidate=FILES,
            signed=FILES,
            reviews=reviews,
            abstentions=(),
            tally=tally(reviews, FILES),
        )
    )
    store_run(database)
    append(database, "candidate.written", {"files": FILES, "simulated": True})
    for item in findings:
        append(database, "review.arrived", {"findings": [finding_data(item)]})
    with database.begin() as connection, ledger.writer(connection, "run_1") as entries:
        runs.start(connection, "run_1")
        digest = entries.append("run.finished", verdict.as_data(), at=AT)
        runs.finish(connection, "run_1", outcome=verdict.outcome, verdict_digest=digest)
    assert verdict.outcome is Outcome.REJECTED


async def fetched(client: httpx.AsyncClient, format: str) -> httpx.Response:
    answer = await client.get("/v1/runs/run_1/results", params={"format": format})
    assert answer.status_code == 200
    return answer


async def test_sarif_is_valid_and_knows_the_weakness_that_the_findings_name(
    client: httpx.AsyncClient, database: Database
) -> None:
    finished(database)
    answer = await fetched(client, "sarif")
    assert answer.headers["content-type"] == "application/sarif+json"
    log: dict[str, Any] = answer.json()
    Draft4Validator(json.loads(SCHEMA.read_text(encoding="utf-8"))).validate(log)
    (result,) = log["runs"][0]["results"]
    assert (result["ruleId"], result["level"]) == ("CWE-190", "warning")
    assert log["runs"][0]["properties"]["simulated"] is True


async def test_lines_and_cells_hold_the_same_claims(client: httpx.AsyncClient, database: Database) -> None:
    finished(database)
    (line,) = (await fetched(client, "jsonl")).text.splitlines()
    shown = json.loads(line)
    assert (shown["claim"], shown["cwe"], shown["outcome"], shown["stands"]) == ("C1", 190, "rejected", True)
    table = (await fetched(client, "csv")).text.splitlines()
    assert len(table) == 2
    assert table[1].startswith(
        "run_1,small,rejected,true,C1,upheld,true,medium,CWE-190,190,correctness,a.py,3,3,"
    )


async def test_a_run_without_a_verdict_has_no_results(client: httpx.AsyncClient, database: Database) -> None:
    store_run(database)
    answer = await client.get("/v1/runs/run_1/results")
    assert (answer.status_code, answer.json()["detail"]) == (
        409,
        "run run_1 has not ended; results come with a verdict",
    )
    await client.post("/v1/runs/run_1/cancel")
    assert "was cancelled" in (await client.get("/v1/runs/run_1/results")).json()["detail"]


@pytest.mark.parametrize(("path", "status"), [("run_2/results", 404), ("run_1/results?format=pdf", 422)])
async def test_what_is_not_there_is_refused(
    client: httpx.AsyncClient, database: Database, path: str, status: int
) -> None:
    store_run(database)
    assert (await client.get(f"/v1/runs/{path}")).status_code == status
