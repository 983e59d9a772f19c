"""Pages of trajectories and scorings as the server renders them, without any script."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import httpx
import pytest

from api.web.embedded import for_script
from tests.integration.scoring_desk import Desk, atif, write
from tests.recorded_runs import CHECK, FIX, LOOK, document, search, write_cohort, write_run
from workers.provenance.session import Database

EVIL = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database)


class Attributes(HTMLParser):
    """The names of all attributes on a page."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names |= {name for name, _ in attrs}


async def page(client: httpx.AsyncClient, address: str, status: int = 200) -> str:
    answer = await client.get(address)
    assert (answer.status_code, answer.headers["content-type"]) == (status, "text/html; charset=utf-8"), (
        answer.text
    )
    assert "script-src 'self'" in answer.headers["content-security-policy"]
    attributes = Attributes()
    attributes.feed(answer.text)
    # What the policy forbids would silently not work.
    assert {name for name in attributes.names if name == "style" or name.startswith("on")} == set()
    return answer.text


async def test_every_page_has_something_to_say_before_anything_is_there(
    client: httpx.AsyncClient, desk: Desk
) -> None:
    said = {
        "/trajectories": "Nothing has been uploaded yet",
        "/scorings": "No scoring has been started yet",
        "/leaderboard": "No leaderboard yet",
        "/nights": "No nights yet",
    }
    for address, sentence in said.items():
        assert sentence in await page(client, address)


@pytest.mark.parametrize("address", ["/trajectories/x", "/scorings/x", "/leaderboard?scoring=x"])
async def test_what_is_not_there_has_a_page_that_says_so(client: httpx.AsyncClient, address: str) -> None:
    assert "Not found" in await page(client, address, 404)


async def test_uploaded_files_are_listed_and_lead_to_their_runs(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    for number in range(60):
        write_run(tmp_path / f"runs/{number:02}_pta.json", search(f"w{number}"), LOOK)
    desk.upload(tmp_path / "runs", "big")
    first = await page(client, "/trajectories")
    assert first.count('class="cell-path"') == 50
    (older,) = re.findall(r'href="(/trajectories\?[^"]*cursor=[^"]*)"', first)
    assert (await page(client, older.replace("&amp;", "&"))).count('class="cell-path"') == 10
    filtered = await page(client, "/trajectories?set=big&path=07")
    (link,) = re.findall(r'<td class="cell-path"><a href="([^"]+)"', filtered)
    run = await page(client, link)
    assert "grep -rn w7 /testbed/pkg" in run
    assert "No finished scoring holds this run" in run


async def test_files_that_lie_beside_logs_lead_nowhere(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    write(tmp_path / "runs/trial/trajectory.json", atif("ls"))
    write(tmp_path / "runs/trial/result.json", "{}")
    desk.upload(tmp_path / "runs")
    text = await page(client, "/trajectories")
    assert re.findall(r'<td class="cell-path"><a [^>]+>([^<]+)</a>', text) == ["trial/trajectory.json"]
    assert re.search(r"trial/result\.json\s*<span class=\"tag\">beside a log</span>", text)


async def test_a_text_that_is_cut_says_how_much_is_missing(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    edit = (FIX[0], {**FIX[1], "newString": "x" * 5_000})
    write_run(tmp_path / "runs/a_pta.json", edit)
    desk.upload(tmp_path / "runs")
    (file,) = (await client.get("/v1/trajectories")).json()["trajectories"]
    assert "… 3,000 more characters" in await page(client, f"/trajectories/{file['id']}")


async def test_a_scored_run_is_all_there_without_a_script(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    write_cohort(tmp_path / "runs")
    desk.upload(tmp_path / "runs")
    scoring = desk.score()
    report = json.loads(desk.report(scoring))["assessments"]
    place = next(n for n, run in enumerate(report) if run["path"] == "0/sound_pta.json")
    text = await page(client, f"/trajectories/{scoring.scoring_id}.{place}?step=2")
    assert re.search(r'<section class="card pane"[^>]*>\s*<h2>Step <span data-field="index">2</span>', text)
    assert '<pre class="old" tabindex="0" aria-label="Before the edit">a = 1</pre>' in text
    assert f"{report[place]['scores']['paper']['score']:.1f}" in text
    assert "Prefix tree of the reference" in text
    assert text.count('role="option"') == 4
    # Every other run of the problem may stand beside it.
    assert len(re.findall(r'<option value="scoring_', text)) == 5
    tree = await page(client, f"/trajectories/{scoring.scoring_id}.{place}/tree")
    assert 'id="tree"' in tree


async def test_steps_beyond_the_first_page_are_reached_by_links(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    write_run(tmp_path / "runs/a_pta.json", *[search(f"w{number}") for number in range(120)])
    desk.upload(tmp_path / "runs")
    listed = (await client.get("/v1/trajectories")).json()["trajectories"]
    text = await page(client, f"/trajectories/{listed[0]['id']}?step=70")
    assert re.findall(r'id="step-row-(\d+)"', text) == [str(n) for n in range(50, 100)]
    assert 'href="?step=49#steps"' in text
    assert 'href="?step=100#steps"' in text
    last = await page(client, f"/trajectories/{listed[0]['id']}?step=999999")
    assert '<span data-field="index">119</span>' in last


async def test_a_file_of_several_records_lists_them(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    lines = [atif("ls", trajectory_id="one"), "{", atif("ls", "pytest", trajectory_id="two")]
    write(tmp_path / "runs/output.jsonl", "\n".join(lines))
    desk.upload(tmp_path / "runs")
    desk.score()
    (file,) = (await client.get("/v1/trajectories")).json()["trajectories"]
    text = await page(client, f"/trajectories/{file['id']}")
    assert "3 records" in text
    assert "line 2: not JSON" in text
    assert f'href="/trajectories/{file["id"]}.2"' in text


async def test_what_logs_say_is_text_on_every_page(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    hostile = ("run_in_terminal", {"command": f"echo {EVIL}"})
    fix = ("replace_string_in_file", {**FIX[1], "newString": EVIL})
    for number in range(3):
        taken = (search(f"w{number}"), hostile, fix, CHECK)
        made = document(*taken, problem=EVIL, model=EVIL, seen=EVIL)
        write(tmp_path / f"runs/{number}_pta.json", json.dumps(made))
    desk.upload(tmp_path / "runs")
    scoring_id = desk.score(schedule="nightly", night="2026-03-01").scoring_id
    pages = [
        f"/scorings/{scoring_id}",
        "/leaderboard",
        "/nights",
        "/trajectories",
        f"/trajectories/{scoring_id}.0?step=2",
        f"/trajectories/{scoring_id}.0/tree",
        f"/trajectories/compare?a={scoring_id}.0&b={scoring_id}.1",
    ]
    for address in pages:
        text = await page(client, address)
        assert "<script>alert" not in text, address
        assert "<img src=x" not in text, address


def test_data_for_a_script_cannot_end_its_element() -> None:
    text = for_script({"a": EVIL + "&\u2028"})
    assert not set("<>&") & set(text)
    assert json.loads(text) == {"a": EVIL + "&\u2028"}


async def test_two_runs_side_by_side_go_on_behind_the_first_rows(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    write_run(tmp_path / "runs/a_pta.json", *[search(f"a{number}") for number in range(150)])
    write_run(tmp_path / "runs/b_pta.json", *[search(f"b{number}") for number in range(150)])
    desk.upload(tmp_path / "runs")
    a, b = (file["id"] for file in (await client.get("/v1/trajectories")).json()["trajectories"])
    text = await page(client, f"/trajectories/compare?a={a}&b={b}")
    assert text.count("<tr>") == 1 + 200
    assert "from=200" in text
    assert (await page(client, f"/trajectories/compare?a={a}&b={b}&from=200")).count("<tr>") == 1 + 100


async def test_a_scoring_that_waits_or_was_cancelled_shows_its_stages(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    desk.upload(write_cohort(tmp_path / "runs"))
    scoring_id = desk.start()
    waiting = await page(client, f"/scorings/{scoring_id}")
    assert f'data-live="/v1/scorings/{scoring_id}"' in waiting
    assert waiting.count('class="stage') == 1 + 5
    await client.post(f"/v1/scorings/{scoring_id}/cancel")
    ended = await page(client, f"/scorings/{scoring_id}")
    assert "It was cancelled and has no report" in ended
    assert "data-live" not in ended


async def test_a_finished_scoring_shows_its_charts_and_filters_its_runs(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    desk.upload(write_cohort(tmp_path / "runs"))
    scoring_id = desk.score().scoring_id
    text = await page(client, f"/scorings/{scoring_id}")
    for part in (
        "Rank by pass rate, rank by quality",
        "Tiers by model",
        "Signals",
        "Lucky passes by mechanism",
    ):
        assert part in text
    assert f'href="/v1/scorings/{scoring_id}/report?format=html"' in text
    runs = re.findall(r'<td class="cell-path"><a href="/trajectories/(scoring_[^"]+)">([^<]+)</a>', text)
    assert len(runs) == 10
    lucky = await page(client, f"/scorings/{scoring_id}?tier=lucky&order=best")
    assert re.findall(r'<td class="cell-path"><a [^>]+>([^<]+)</a>', lucky) == ["1/lucky_pta.json"]
    none = await page(client, f"/scorings/{scoring_id}?model=nobody")
    assert "No run is like that" in none


async def test_the_leaderboard_and_the_nights_show_what_changed(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    desk.upload(write_cohort(tmp_path / "runs"))
    desk.score(schedule="nightly", night="2026-03-01")
    write_run(tmp_path / "more/new_pta.json", search("fresh"), LOOK, FIX, CHECK, model="beta")
    desk.upload(tmp_path / "more")
    later = desk.score(schedule="nightly", night="2026-03-02").scoring_id
    nights = await page(client, "/nights")
    assert nights.index("2026-03-02</a>") < nights.index("2026-03-01</a>")
    assert "1 new, 0 gone" in nights
    assert "the first night" in nights
    assert "Since the night of 2026-03-01" in await page(client, f"/scorings/{later}")
    board = await page(client, "/leaderboard")
    assert board.count('<th scope="row" class="break">beta</th>') == 3
