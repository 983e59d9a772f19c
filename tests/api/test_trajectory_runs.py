"""Runs looked into over HTTP: step by step, whole observations, the reference, two side by side."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy import delete

from tests.integration.scoring_desk import Desk, atif, write
from tests.recorded_runs import CHECK, FIX, LOOK, document, search, write_cohort, write_run
from workers.provenance.scoring_models import reading_runs
from workers.provenance.session import Database

LONG = 1_000_000


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database)


async def files(client: httpx.AsyncClient) -> dict[str, str]:
    """Id by path."""
    listed = (await client.get("/v1/trajectories", params={"limit": 1000})).json()["trajectories"]
    return {file["path"]: file["id"] for file in listed}


async def shown(client: httpx.AsyncClient, address: str) -> Any:
    answer = await client.get(f"/v1/trajectories/{address}")
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_an_uploaded_run_is_shown_before_any_scoring(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    write_run(tmp_path / "runs/a_pta.json", search("x"), LOOK, FIX, CHECK)
    desk.upload(tmp_path / "runs")
    (file_id,) = (await files(client)).values()
    run = await shown(client, file_id)
    assert (run["run"], run["file_id"], run["scoring_id"]) == (f"{file_id}.0", file_id, None)
    assert (run["assessment"], run["problem"], run["outcome"]) == (None, "p1", "passed")
    assert (run["overview"]["intents"], run["overview"]["rules"]) == ("EEIV", "6624")
    about = (await client.get(f"/v1/trajectories/{file_id}/file")).json()
    assert (about["path"], about["records"]) == ("a_pta.json", None)


async def test_steps_come_some_at_a_time_with_label_and_rule(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    write_run(tmp_path / "runs/a_pta.json", search("x"), LOOK, FIX, CHECK, seen="what came back")
    desk.upload(tmp_path / "runs")
    (file_id,) = (await files(client)).values()
    first = (await client.get(f"/v1/trajectories/{file_id}/steps", params={"limit": 3})).json()
    assert (len(first["steps"]), first["total"], first["next_from"]) == (3, 4, 3)
    fix = first["steps"][2]
    assert (fix["index"], fix["intent"], fix["intent_name"], fix["rule"]) == (2, "I", "implementation", 2)
    assert fix["edits"] == [
        {"path": None, "old": {"text": "a = 1", "total_chars": 5}, "new": {"text": "a = 2", "total_chars": 5}}
    ]
    assert fix["observation"] == {"text": "what came back", "total_chars": 14}
    assert fix["thought"]["text"] == "thinking of step 3"
    rest = (await client.get(f"/v1/trajectories/{file_id}/steps", params={"from": 3})).json()
    assert ([step["index"] for step in rest["steps"]], rest["next_from"]) == ([3], None)
    assert rest["steps"][0]["call"] == "cd /testbed && pytest tests/test_core.py"


async def test_a_scored_run_knows_its_node_its_confidence_and_its_waste(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    write_cohort(tmp_path / "runs")
    desk.upload(tmp_path / "runs")
    scoring = desk.score()
    ids = await files(client)
    run = await shown(client, ids["0/sound_pta.json"])
    assert run["scoring_id"] == scoring.scoring_id
    assert run["run"].startswith(f"{scoring.scoring_id}.")
    assert run["file_id"] == ids["0/sound_pta.json"]
    report = json.loads(desk.report(scoring))
    assert run["assessment"] in report["assessments"]
    way = {(pair["step"], pair["node"]) for pair in run["assessment"]["matched"]}
    assert {(step, node) for step, node, _ in run["overview"]["matched"]} == way
    steps = (await client.get(f"/v1/trajectories/{run['run']}/steps")).json()["steps"]
    # The search is this run's own; looking, fixing and checking are what the other passes did too.
    assert [None if s["node"] is None else s["node"]["confidence"] for s in steps] == [None, 1.0, 1.0, 1.0]
    assert steps[1]["node"]["action"] == "view pkg/core.py:1-40"
    assert [step["rule"] for step in steps] == [label["rule"] for label in run["assessment"]["labels"]]


async def test_a_run_is_found_in_the_newest_scoring_and_under_its_file(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    write_cohort(tmp_path / "runs")
    desk.upload(tmp_path / "runs")
    older, newer = desk.score(), desk.score()
    file_id = (await files(client))["1/lucky_pta.json"]
    (record,) = (await client.get(f"/v1/trajectories/{file_id}/file")).json()["records"]
    assert [standing["scoring_id"] for standing in record["standings"]] == [
        newer.scoring_id,
        older.scoring_id,
    ]
    assert {standing["tier"] for standing in record["standings"]} == {"lucky"}
    assert (await shown(client, file_id))["scoring_id"] == newer.scoring_id


async def test_a_file_of_several_runs_has_each_of_them(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    lines = [atif("ls", trajectory_id="one"), "{", atif("ls", "pytest", trajectory_id="two")]
    write(tmp_path / "runs/output.jsonl", "\n".join(lines))
    desk.upload(tmp_path / "runs")
    (file_id,) = (await files(client)).values()
    assert (await shown(client, f"{file_id}.2"))["trajectory_id"] == "two"
    bad = await client.get(f"/v1/trajectories/{file_id}.1")
    assert (bad.status_code, "line 2: not JSON" in bad.json()["detail"]) == (422, True)
    none = await client.get(f"/v1/trajectories/{file_id}.3")
    assert (none.status_code, none.json()["detail"]) == (404, "output.jsonl: has no record 3")
    desk.score()
    records = (await client.get(f"/v1/trajectories/{file_id}/file")).json()["records"]
    assert [(record["trajectory_id"], record["error"] is None) for record in records] == [
        ("one", True),
        (None, False),
        ("two", True),
    ]


async def test_a_long_observation_comes_bounded_in_pieces_and_whole(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    text = "0123456789" * (LONG // 10)
    write_run(tmp_path / "runs/long_pta.json", LOOK, FIX, CHECK, seen=text)
    desk.upload(tmp_path / "runs")
    (file_id,) = (await files(client)).values()
    listed = await client.get(f"/v1/trajectories/{file_id}/steps")
    assert len(listed.content) < 20_000
    seen = listed.json()["steps"][1]["observation"]
    assert (len(seen["text"]), seen["total_chars"]) == (2_000, LONG)
    url = f"/v1/trajectories/{file_id}/steps/1/observation"
    piece = (await client.get(url, params={"offset": LONG - 5, "limit": 100})).json()
    assert piece == {"text": "56789", "offset": LONG - 5, "total_chars": LONG, "next_offset": None}
    before = (await client.get(url, params={"offset": 3, "limit": 4})).json()
    assert (before["text"], before["next_offset"]) == ("3456", 7)
    whole = await client.get(f"{url}.txt")
    assert whole.text == text
    assert whole.headers["content-type"].startswith("text/plain")
    assert whole.headers["x-content-type-options"] == "nosniff"
    beyond = await client.get(f"/v1/trajectories/{file_id}/steps/3/observation")
    assert (beyond.status_code, "3 steps, none is number 3" in beyond.json()["detail"]) == (404, True)


async def test_what_a_reader_cuts_for_scoring_gives_the_labels_and_the_whole_is_shown(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    # Behind the 20,000th character a failing check names a file; the scorer does not see it, so the look at that file
    # stays an exploration, as in the report.
    seen = "x" * 20_000 + "\nFAILED pkg/other.py::test_a"
    look = ("run_in_terminal", {"command": "cd /testbed && cat pkg/other.py"})
    write_run(tmp_path / "runs/a_pta.json", FIX, CHECK, look, seen=seen)
    desk.upload(tmp_path / "runs")
    (file_id,) = (await files(client)).values()
    before = await shown(client, file_id)
    desk.score()
    after = await shown(client, file_id)
    assert before["overview"]["intents"] == after["overview"]["intents"]
    labels = after["assessment"]["labels"]
    assert after["overview"]["intents"] == "".join(label["intent"] for label in labels)
    whole = await client.get(f"/v1/trajectories/{file_id}/steps/1/observation.txt")
    assert whole.text == seen


async def test_halves_of_surrogate_pairs_are_shown_as_replacements(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    write(
        tmp_path / "runs/a_pta.json", json.dumps(document(LOOK, FIX, CHECK, seen="a\ud800b", model="m\udfff"))
    )
    desk.upload(tmp_path / "runs")
    (file_id,) = (await files(client)).values()
    assert (await shown(client, file_id))["model"] == "m�"
    steps = (await client.get(f"/v1/trajectories/{file_id}/steps")).json()["steps"]
    assert steps[0]["observation"]["text"] == "a�b"
    assert (await client.get(f"/v1/trajectories/{file_id}/steps/0/observation")).json()["text"] == "a�b"


async def test_two_runs_are_put_side_by_side(client: httpx.AsyncClient, desk: Desk, tmp_path: Path) -> None:
    write_run(tmp_path / "runs/a_pta.json", search("x"), LOOK, FIX, CHECK)
    write_run(tmp_path / "runs/b_pta.json", LOOK, FIX, CHECK, CHECK)
    desk.upload(tmp_path / "runs")
    ids = await files(client)
    query = {"a": ids["a_pta.json"], "b": ids["b_pta.json"]}
    found = (await client.get("/v1/trajectories/compare", params=query)).json()
    pairs = [
        (row["left"] and row["left"]["index"], row["right"] and row["right"]["index"], row["confidence"])
        for row in found["rows"]
    ]
    assert pairs == [(0, None, None), (1, 0, 1.0), (2, 1, 1.0), (3, 2, 1.0), (None, 3, None)]
    assert (found["shared"], found["total"], found["edit_agreement"]) == (3, 5, 1.0)
    part = (await client.get("/v1/trajectories/compare", params={**query, "from": 1, "limit": 2})).json()
    assert (part["rows"], part["next_from"]) == (found["rows"][1:3], 3)


async def test_a_file_that_is_read_beside_another_says_so(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    write(tmp_path / "runs/trial/trajectory.json", atif("ls"))
    write(tmp_path / "runs/trial/result.json", "{}")
    desk.upload(tmp_path / "runs")
    beside = (await files(client))["trial/result.json"]
    answer = await client.get(f"/v1/trajectories/{beside}")
    assert (answer.status_code, answer.json()["detail"]) == (
        422,
        "trial/result.json: is read beside a log and is no run of its own",
    )


async def test_an_upload_in_place_of_another_is_shown_at_once(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    write_run(tmp_path / "runs/a_pta.json", LOOK, FIX)
    desk.upload(tmp_path / "runs")
    (file_id,) = (await files(client)).values()
    assert (await shown(client, file_id))["overview"]["steps"] == 2
    write_run(tmp_path / "runs/a_pta.json", LOOK, FIX, CHECK)
    desk.upload(tmp_path / "runs")
    assert (await files(client)) == {"a_pta.json": file_id}
    assert (await shown(client, file_id))["overview"]["steps"] == 3


async def test_a_reference_that_cannot_be_drawn_any_more_is_not_made_up(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    desk.upload(write_cohort(tmp_path / "runs"))
    scoring_id = desk.score().scoring_id
    with desk.database.begin() as connection:
        connection.execute(delete(reading_runs))
    runs = [await shown(client, f"{scoring_id}.{place}") for place in range(10)]
    referenced = [run for run in runs if run["assessment"]["reference"] is not None]
    # The six of p1, and of p2 the failure: a pass there has only one other pass.
    assert len(referenced) == 7
    for run in referenced:
        assert "cannot be drawn any more" in run["note"]
        assert run["overview"]["matched"] == []
    assert {run["note"] for run in runs if run not in referenced} == {None}


async def test_without_the_scorers_libraries_the_answer_says_what_to_install(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path / "runs/a_pta.json", LOOK)
    desk.upload(tmp_path / "runs")
    (file_id,) = (await files(client)).values()
    monkeypatch.setitem(sys.modules, "workers.inspection.opening", None)
    answer = await client.get(f"/v1/trajectories/{file_id}")
    assert answer.status_code == 503
    assert "pip install 'consensus[score]'" in answer.json()["detail"]


@pytest.mark.parametrize(
    "address", ["nothing", "traj_1", "scoring_" + "0" * 26, "traj_" + "0" * 26 + ".01", "traj_" + "0" * 26]
)
async def test_an_address_that_names_no_run_is_not_found(client: httpx.AsyncClient, address: str) -> None:
    for path in ("", "/steps", "/steps/0/observation"):
        answer = await client.get(f"/v1/trajectories/{address}{path}")
        assert (answer.status_code, answer.json()["title"]) == (404, "Not found")


async def test_a_scoring_that_has_not_finished_shows_no_run(
    client: httpx.AsyncClient, desk: Desk, tmp_path: Path
) -> None:
    write_cohort(tmp_path / "runs")
    desk.upload(tmp_path / "runs")
    scoring_id = desk.start()
    answer = await client.get(f"/v1/trajectories/{scoring_id}.0")
    assert (answer.status_code, "is queued" in answer.json()["detail"]) == (409, True)
