"""Scorings that are made every night: once, whoever asks, and compared with the night before."""

from __future__ import annotations

import dataclasses
import datetime as dt
import io
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, func, select, text

from tests.integration.conftest import pause
from tests.integration.scoring_desk import AT, Desk, scored_here, write
from tests.recorded_runs import CHECK, FIX, LOOK, search, write_cohort, write_run
from workers.core.schedule import Schedule
from workers.core.scoring import ScoringState
from workers.provenance.repository import blobs, scorings, trajectory_files
from workers.provenance.repository.scorings import Scoring
from workers.provenance.repository.trajectory_files import NewFile
from workers.provenance.scoring_models import schedule_nights
from workers.provenance.session import Database
from workers.scoring import nights
from workers.scoring.nights import start_due


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database)


def nightly(source: Path | str, **more: Any) -> Schedule:
    return Schedule(name="nightly", at=dt.time(2, 0), source=str(source), **more)


def tick(desk: Desk, schedule: Schedule, day: int, hour: int = 3) -> list[Scoring]:
    """A call of beat on a day in March, and what it started, worked off."""
    desk.clock.now = AT.replace(day=day, hour=hour)
    keys = start_due(desk.context, [schedule])
    desk.work(keys)
    return [desk.scoring(key.scoring_id) for key in keys]


def test_a_night_is_started_once_however_often_beat_asks(desk: Desk, tmp_path: Path) -> None:
    schedule = nightly(write_cohort(tmp_path / "runs"))
    assert tick(desk, schedule, 1) == []  # seen for the first time: its hour had passed
    (found,) = tick(desk, schedule, 2)
    assert (found.state, found.schedule, found.night) == (ScoringState.FINISHED, "nightly", "2026-03-02")
    assert tick(desk, schedule, 2) == []
    assert tick(desk, schedule, 2, hour=23) == []
    assert tick(desk, schedule, 3, hour=1) == []


def test_two_schedulers_at_once_start_a_night_once(desk: Desk, tmp_path: Path) -> None:
    schedule = nightly(write_cohort(tmp_path / "runs"))
    tick(desk, schedule, 1)
    desk.clock.now = AT.replace(day=2)
    with ThreadPoolExecutor(1) as pool:
        with desk.database.begin() as connection:
            assert nights._start(desk.context, connection, schedule) is not None
            # Both have seen that the night was not started; one of them has not finished starting it.
            second = pool.submit(start_due, desk.context, [schedule])
            while not _waits_for_a_lock(desk):
                assert not second.done()
                pause()
        assert second.result() == []
    with desk.database.begin() as connection:
        assert connection.scalar(select(func.count()).select_from(schedule_nights)) == 1


def _waits_for_a_lock(desk: Desk) -> bool:
    with desk.database.begin() as connection:
        waiting = connection.scalar(
            text("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND state = 'active'")
        )
    return bool(waiting)


def test_missed_nights_are_caught_up_once(desk: Desk, tmp_path: Path) -> None:
    schedule = nightly(write_cohort(tmp_path / "runs"))
    tick(desk, schedule, 1)
    (found,) = tick(desk, schedule, 9, hour=20)
    assert found.night == "2026-03-09"
    assert tick(desk, schedule, 9, hour=21) == []


def test_a_folder_gives_the_report_of_a_scoring_here_and_now(desk: Desk, tmp_path: Path) -> None:
    folder = write_cohort(tmp_path / "runs")
    outcomes = "path,outcome\n1/lucky_pta.json,failed\n"
    labels = write(tmp_path / "labels.csv", outcomes)
    schedule = nightly(folder, labels=str(labels))
    tick(desk, schedule, 1)
    (found,) = tick(desk, schedule, 2)
    assert desk.report(found) == scored_here(folder, tmp_path / "spool", labels=labels)


def test_a_night_is_compared_with_the_one_before(desk: Desk, tmp_path: Path) -> None:
    folder = write_cohort(tmp_path / "runs")
    schedule = nightly(folder)
    tick(desk, schedule, 1)
    (first,) = tick(desk, schedule, 2)
    assert "night_before" not in json.loads(desk.report(first))
    write_run(folder / "5/fresh_pta.json", search("fresh"), LOOK, FIX, CHECK, model="gamma")
    (folder / "2/lost_pta.json").unlink()
    # The Lucky pass now checks what it did.
    write_run(folder / "1/lucky_pta.json", search("beta_x"), LOOK, FIX, CHECK, model="beta")
    (second,) = tick(desk, schedule, 3)
    assert second.previous_id == first.scoring_id
    report = json.loads(desk.report(second))
    before = report["night_before"]
    assert (before["scoring_id"], before["night"]) == (first.scoring_id, "2026-03-02")
    assert before["counts"] == {"new": 1, "gone": 1, "moved": 1, "same": 8}
    assert [run["path"] for run in before["new"]] == ["5/fresh_pta.json"]
    assert [run["path"] for run in before["gone"]] == ["2/lost_pta.json"]
    (moved,) = before["moved"]
    assert (moved["path"], moved["from"], moved["to"]) == ("1/lucky_pta.json", "lucky", "ideal")
    assert before["lucky_by_mechanism"] == {"now": {}, "before": {"C1": 1}}
    # Apart from what it says of the night before, it is the report of the folder.
    plain = {name: value for name, value in report.items() if name != "night_before"}
    assert plain == json.loads(scored_here(folder, tmp_path / "spool"))
    with desk.database.begin() as connection:
        kept = scorings.texts(connection, second.scoring_id)["comparison"]
    assert kept == before
    for form in ("html", "table"):
        assert "since the night of 2026-03-02" in desk.form(second, form).decode()


def test_everything_uploaded_is_scored_and_only_the_new_computed(desk: Desk, tmp_path: Path) -> None:
    folder = write_cohort(tmp_path / "runs")
    schedule = nightly("uploaded")
    tick(desk, schedule, 1)
    assert tick(desk, schedule, 2) == []  # nothing was uploaded yet: tried again at the next call
    desk.upload(folder)
    (first,) = tick(desk, schedule, 2, hour=4)
    (second,) = tick(desk, schedule, 3)
    assert (desk.counts(first), desk.counts(second)) == ((0, 10, 0), (10, 0, 0))


def test_a_folder_that_is_not_there_fails_its_night_with_a_sentence(desk: Desk, tmp_path: Path) -> None:
    schedule = nightly(tmp_path / "nowhere")
    tick(desk, schedule, 1)
    (found,) = tick(desk, schedule, 2)
    assert found.state is ScoringState.FAILED
    assert found.error == (
        f"{tmp_path / 'nowhere'}: no such folder on this worker; a schedule's folder must be there"
    )


def link(desk: Desk, connection: Connection, path: str) -> None:
    stored = blobs.store(connection, io.BytesIO(path.encode()), tenant_id="default")
    file = NewFile(file_id=f"traj_{path}", upload_set="uploads", path=path, digest=stored.digest)
    trajectory_files.link(connection, [file], tenant_id="default")


def paths_of(desk: Desk, scoring: Scoring) -> set[str]:
    with desk.database.begin() as connection:
        manifest = trajectory_files.load_manifest(
            connection, str(scoring.manifest_digest), tenant_id="default"
        )
    return {file.path for file in manifest}


def test_an_upload_that_a_night_did_not_see_yet_is_of_the_next_one(desk: Desk) -> None:
    """Its transaction began before the night, and ended after it."""
    schedule = nightly("uploaded-since")
    tick(desk, schedule, 1)
    with desk.database.begin() as connection:
        link(desk, connection, "early.json")
    with desk.database.begin() as slow:
        slow.execute(text("SELECT now()"))
        (first,) = tick(desk, schedule, 2)
        link(desk, slow, "slow.json")
    (second,) = tick(desk, schedule, 3)
    assert (paths_of(desk, first), paths_of(desk, second)) == ({"early.json"}, {"slow.json"})


def test_a_night_waits_for_the_uploads_that_are_just_being_written(desk: Desk) -> None:
    schedule = nightly("uploaded-since")
    tick(desk, schedule, 1)
    desk.clock.now = AT.replace(day=2)
    with ThreadPoolExecutor(1) as pool:
        with desk.database.begin() as slow:
            link(desk, slow, "slow.json")
            started = pool.submit(start_due, desk.context, [schedule])
            while not _waits_for_a_lock(desk):
                assert not started.done()
                pause()
        (key,) = started.result()
    assert paths_of(desk, desk.scoring(key.scoring_id)) == {"slow.json"}


@pytest.mark.parametrize("labels", ["/dev/zero", "/no\x00file", "/"])
def test_labels_that_cannot_be_read_keep_no_other_schedule_from_its_night(
    labels: str, desk: Desk, tmp_path: Path
) -> None:
    folder = write_cohort(tmp_path / "runs")
    broken = dataclasses.replace(nightly(folder, labels=labels), name="broken")
    desk.clock.now = AT.replace(day=1)
    assert start_due(desk.context, [broken, nightly(folder)]) == []
    desk.clock.now = AT.replace(day=2)
    (key,) = start_due(desk.context, [broken, nightly(folder)])
    assert desk.scoring(key.scoring_id).schedule == "nightly"
