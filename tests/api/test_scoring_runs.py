"""Scorings looked into over HTTP: their runs in lines, what their pages draw, nights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.scoring_desk import Desk
from tests.recorded_runs import CHECK, FIX, LOOK, search, write_cohort, write_run
from workers.provenance.session import Database
from workers.scoring import pictures


@pytest.fixture
def desk(database: Database, tmp_path: Path) -> Desk:
    made = Desk(database)
    made.upload(write_cohort(tmp_path / "runs"))
    return made


async def runs(client: httpx.AsyncClient, scoring_id: str, **query: Any) -> list[dict[str, Any]]:
    """All pages of a listing."""
    found: list[dict[str, Any]] = []
    while True:
        answer = await client.get(f"/v1/scorings/{scoring_id}/runs", params=query)
        assert answer.status_code == 200, answer.text
        page = answer.json()
        found += page["runs"]
        if page["next_cursor"] is None:
            return found
        query["cursor"] = page["next_cursor"]


@pytest.mark.parametrize("limit", [3, 100])
@pytest.mark.parametrize("order", ["place", "worst", "best"])
async def test_every_run_is_listed_once_in_each_order(
    client: httpx.AsyncClient, desk: Desk, order: str, limit: int
) -> None:
    scoring = desk.score()
    report = json.loads(desk.report(scoring))["assessments"]
    found = await runs(client, scoring.scoring_id, order=order, limit=limit)
    assert sorted(run["place"] for run in found) == list(range(10))
    assert [report[run["place"]]["path"] for run in found] == [run["path"] for run in found]
    keys = {"place": lambda r: r["place"], "worst": lambda r: r["score"], "best": lambda r: -r["score"]}
    assert [keys[order](run) for run in found] == sorted(keys[order](run) for run in found)


async def test_runs_are_filtered_by_what_they_are(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    # A path that reads like a member of JSON must not be taken for one.
    write_run(tmp_path / 'more/"outcome": "failed"_pta.json', search("z"), LOOK, FIX, CHECK, model="gamma")
    desk.upload(tmp_path / "more")
    scoring_id = desk.score().scoring_id
    lucky = await runs(client, scoring_id, tier="lucky")
    assert [(run["path"], run["mechanism"]) for run in lucky] == [("1/lucky_pta.json", "C1")]
    assert await runs(client, scoring_id, mechanism="C1") == lucky
    assert {run["path"] for run in await runs(client, scoring_id, outcome="failed")} == {
        "2/lost_pta.json",
        "3/second_lost_pta.json",
    }
    beta = await runs(client, scoring_id, model="beta", problem="p2")
    assert [run["path"] for run in beta] == ["1/second_pta.json"]
    assert await runs(client, scoring_id, model="bet") == []


async def test_a_cursor_that_is_none_is_refused(client: httpx.AsyncClient, desk: Desk) -> None:
    scoring_id = desk.score().scoring_id
    answer = await client.get(f"/v1/scorings/{scoring_id}/runs", params={"cursor": "x"})
    assert (answer.status_code, "is not the next_cursor" in answer.json()["detail"]) == (422, True)
    assert (await client.get("/v1/scorings/none/runs")).status_code == 404


async def test_the_charts_say_what_the_report_says(client: httpx.AsyncClient, desk: Desk) -> None:
    scoring = desk.score()
    cohort = json.loads(desk.report(scoring))["cohort"]
    charts = (await client.get(f"/v1/scorings/{scoring.scoring_id}/charts")).json()
    lines = pictures.slope(cohort["models"])
    assert [(line["model"], line["shift"]) for line in charts["slope"]] == [
        (of.model, of.shift) for of in lines
    ]
    counts: dict[str, int] = {}
    for model in charts["tiers"]:
        assert sum(share["share"] for share in model["shares"]) == pytest.approx(1)
        for share in model["shares"]:
            counts[share["tier"]] = counts.get(share["tier"], 0) + share["runs"]
    # Of p2 there are too few passes for a reference: its runs have the tier of the profile that needs none.
    assert counts == {name: of["runs"] for name, of in cohort["cost"]["by_tier"].items()}
    # Nine runs have an outcome: seven passed, two did not.
    assert [sum(part[end] for part in charts["score"]["bins"]) for end in ("passed", "failed")] == [7, 2]
    assert [signal["name"] for signal in charts["signals"]][:4] == ["struct", "cov", "edit", "coh"]
    assert {of["mechanism"]: of["runs"] for of in charts["lucky"]} == cohort["mechanisms"]["counts"]
    (example,) = charts["lucky"][0]["examples"]
    assert example["path"] == "1/lucky_pta.json"
    (listed,) = await runs(client, scoring.scoring_id, tier="lucky")
    assert listed["place"] == example["place"]


async def test_an_unfinished_scoring_has_no_charts(client: httpx.AsyncClient, desk: Desk) -> None:
    answer = await client.get(f"/v1/scorings/{desk.start()}/charts")
    assert (answer.status_code, "is queued" in answer.json()["detail"]) == (409, True)


async def test_nights_are_listed_with_what_changed(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    desk.score()
    first = desk.score(schedule="nightly", night="2026-03-01")
    write_run(tmp_path / "more/new_pta.json", search("fresh"), LOOK, FIX, CHECK, model="beta")
    desk.upload(tmp_path / "more")
    second = desk.score(schedule="nightly", night="2026-03-02")
    desk.score(schedule="weekly", night="2026-03-02")
    nights = (await client.get("/v1/nights", params={"schedule": "nightly"})).json()["nights"]
    assert [night["scoring_id"] for night in nights] == [second.scoring_id, first.scoring_id]
    later, earlier = nights
    assert (earlier["changes"], earlier["night_before"]) == (None, None)
    assert (later["night_before"], later["changes"]["new"]) == ("2026-03-01", 1)
    # Seven of nine runs with an outcome passed, one of the seven by luck.
    assert earlier["pass_rate"] == pytest.approx(7 / 9)
    assert earlier["lucky_share"] == pytest.approx(1 / 7)
    assert len((await client.get("/v1/nights")).json()["nights"]) == 3
