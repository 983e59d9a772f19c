"""Scorings over HTTP: started, followed, cancelled, reported."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.api.problem_documents import problem
from tests.integration.scoring_desk import Desk, scored_here
from tests.recorded_runs import write_cohort
from tests.unit.cli.scoring import scored
from workers.provenance.repository import scorings
from workers.provenance.session import Database
from workers.scoring.forms import write_csv
from workers.scoring.page import write_html


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database)


async def start(client: httpx.AsyncClient, **body: Any) -> dict[str, Any]:
    answer = await client.post("/v1/scorings", json={"upload_set": "uploads", **body})
    assert answer.status_code == 202, answer.text
    return dict(answer.json())


async def finished(client: httpx.AsyncClient, desk: Desk, **body: Any) -> str:
    scoring_id = str((await start(client, **body))["id"])
    desk.work([scorings.first_part(scoring_id)])
    return scoring_id


async def test_a_scoring_is_followed_to_its_reports(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    folder = write_cohort(tmp_path / "runs")
    desk.upload(folder)
    begun = await start(client)
    assert (begun["state"], begun["stage"]) == ("queued", "plan")
    url = f"/v1/scorings/{begun['id']}"
    early = await client.get(f"{url}/report")
    assert (early.status_code, early.json()["detail"]) == (
        409,
        f"scoring {begun['id']} is queued and has no report",
    )
    desk.work([scorings.first_part(begun["id"])])
    shown = (await client.get(url)).json()
    assert (shown["state"], shown["runs"], shown["problems"], shown["computed"]) == ("finished", 10, 2, 10)

    assert (await client.get(f"{url}/report")).content == scored_here(folder, tmp_path / "spool")
    cohort = scored(folder, tmp_path / "again")
    for form, write in (("csv", write_csv), ("html", write_html)):
        out = io.BytesIO()
        write(cohort, out)
        assert (await client.get(f"{url}/report", params={"format": form})).content == out.getvalue()
    assert "Leaderboard" in (await client.get(f"{url}/report", params={"format": "table"})).text
    parquet = await client.get(f"{url}/report", params={"format": "parquet"})
    assert parquet.content.startswith(b"PAR1")


async def test_assessments_and_problems_come_in_pages(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    folder = write_cohort(tmp_path / "runs")
    desk.upload(folder)
    url = f"/v1/scorings/{await finished(client, desk)}"
    found: list[Any] = []
    query: dict[str, str] = {"limit": "3"}
    while query.get("cursor") != "None":
        page = (await client.get(f"{url}/assessments", params=query)).json()
        found += page["assessments"]
        query["cursor"] = str(page["next_cursor"])
    assert found == json.loads(scored_here(folder, tmp_path / "spool"))["assessments"]
    listed = (await client.get(f"{url}/problems", params={"limit": 2})).json()
    assert [problem["problem"] for problem in listed["problems"]] == ["p1", "p2"]
    assert listed["next_cursor"] == "2"


async def test_the_leaderboard_is_that_of_the_newest_or_the_named_scoring(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    none = await client.get("/v1/leaderboard")
    assert (none.status_code, none.json()["detail"]) == (
        404,
        "no scoring has finished yet; start one with POST /v1/scorings",
    )
    desk.upload(write_cohort(tmp_path / "runs"))
    first, second = await finished(client, desk), await finished(client, desk, profile="tuned")
    newest = (await client.get("/v1/leaderboard")).json()
    named = (await client.get("/v1/leaderboard", params={"scoring": first})).json()
    assert (newest["scoring_id"], newest["profile"]) == (second, "tuned")
    assert (named["scoring_id"], named["profile"]) == (first, "paper")
    assert {"model", "rank_by_pass_rate", "rank_by_quality", "shift"} <= set(named["models"][0])


async def test_a_repeated_key_finds_the_scoring_and_another_body_is_refused(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    desk.upload(write_cohort(tmp_path / "runs"))
    headers = {"Idempotency-Key": "one"}
    answers = [
        await client.post("/v1/scorings", json={"all": True, **more}, headers=headers)
        for more in ({}, {}, {"k": 3})
    ]
    assert [answer.status_code for answer in answers] == [202, 200, 422]
    assert answers[0].json()["id"] == answers[1].json()["id"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "give exactly one of all, upload_set, since and ids"),
        ({"all": True, "profil": "tuned"}, "there is no field 'profil'; did you mean 'profile'?"),
        ({"all": True, "upload_set": "x"}, "give exactly one of all, upload_set, since and ids"),
        ({"all": True}, "no uploaded trajectory is selected; upload some with POST /v1/trajectories"),
        ({"ids": ["traj_x"]}, "there is no uploaded trajectory 'traj_x'; GET /v1/trajectories lists them"),
        ({"all": True, "k": 1}, "k: Input should be greater than or equal to 2"),
        ({"all": True, "format": "tape"}, "format tape: unknown; expected one of agentlens-bench"),
    ],
)
async def test_what_cannot_be_scored_is_refused_with_a_sentence(
    client: httpx.AsyncClient, body: dict[str, Any], sentence: str
) -> None:
    answer = await client.post("/v1/scorings", json=body)
    assert answer.status_code == 422
    assert sentence in answer.json()["detail"]


async def test_a_cancelled_scoring_says_so_and_has_no_report(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    desk.upload(write_cohort(tmp_path / "runs"))
    begun = await start(client)
    url = f"/v1/scorings/{begun['id']}"
    assert (await client.post(f"{url}/cancel")).json()["state"] == "cancelled"
    desk.work([scorings.first_part(begun["id"])])
    assert (await client.get(f"{url}/report")).status_code == 409
    listed = (await client.get("/v1/scorings", params={"state": "cancelled"})).json()
    assert [scoring["id"] for scoring in listed["scorings"]] == [begun["id"]]


async def test_labels_and_what_the_client_could_not_open_are_in_the_report(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    desk.upload(write_cohort(tmp_path / "runs"))
    labels = {"name": "labels.csv", "content": "path,outcome\n1/lucky_pta.json,failed\n"}
    unopened = [{"path": "x.json", "error": "x.json: is a link to nothing"}]
    scoring_id = await finished(client, desk, labels=labels, unopened=unopened)
    report = (await client.get(f"/v1/scorings/{scoring_id}/report")).json()
    assert report["skipped"] == unopened
    outcomes = {run["path"]: run["outcome"] for run in report["assessments"]}
    assert outcomes["1/lucky_pta.json"] == "failed"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (
            "id,outcome\n\ud800,1\n",
            "labels.content: character 11 is a lone surrogate, which no UTF-8 text has",
        ),
        ("[" * 100_000, "labels.content: l.csv: labels are neither JSON, JSONL nor CSV"),
        ('[{"id": 1', "labels.content: l.csv: labels are neither JSON, JSONL nor CSV"),
        ("outcome\n1\n", "labels.content: l.csv: row 1: no run is named"),
        ("id,outcome\na,perhaps\n", "labels.content: l.csv: no row has a verdict"),
    ],
)
async def test_labels_that_cannot_be_read_are_refused_at_once(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path, content: str, sentence: str
) -> None:
    desk.upload(write_cohort(tmp_path / "runs"))
    body = json.dumps({"all": True, "labels": {"name": "l.csv", "content": content}}).encode()
    answer = await client.post("/v1/scorings", content=body, headers={"Content-Type": "application/json"})
    assert sentence in problem(answer, 422)
    assert (await client.get("/v1/scorings")).json()["scorings"] == []


async def test_what_the_client_could_not_open_may_have_any_name_and_every_report_is_still_made(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    """A file's name on the client's disk need not be text."""
    desk.upload(write_cohort(tmp_path / "runs"))
    unopened = [{"path": "a\x00\udcff\x1b[2J<script>alert()", "error": "=1+1\r\n\ud800"}]
    body = json.dumps({"all": True, "unopened": unopened}).encode()
    begun = await client.post("/v1/scorings", content=body, headers={"Content-Type": "application/json"})
    desk.work([scorings.first_part(begun.json()["id"])])
    url = f"/v1/scorings/{begun.json()['id']}"
    assert (await client.get(url)).json()["state"] == "finished"
    for form in ("json", "csv", "html", "table", "parquet"):
        report = await client.get(f"{url}/report", params={"format": form})
        assert report.status_code == 200
        assert form == "parquet" or b"\x1b" not in report.content
        assert form != "html" or b"<script>alert" not in report.content
