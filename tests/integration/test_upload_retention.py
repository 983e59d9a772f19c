"""After a while uploads and readings go that no scoring since then used; scores and reports stay."""

from __future__ import annotations

import datetime as dt
import io
from pathlib import Path

import pytest
from sqlalchemy import text

from tests.integration.scoring_desk import Desk
from tests.integration.stored_runs import count
from tests.recorded_runs import write_cohort
from workers.provenance.models import DEFAULT_TENANT
from workers.provenance.repository import blobs
from workers.provenance.retention import uploads
from workers.provenance.retention.uploads import DroppedUploads, prune_uploads
from workers.provenance.session import Database

BEFORE = dt.datetime(2026, 6, 1, tzinfo=dt.UTC)
OLD, YOUNG = BEFORE - dt.timedelta(days=1), BEFORE + dt.timedelta(days=1)
STORED = ("trajectory_files", "trajectory_blobs", "trajectory_chunks", "readings", "reading_runs")
KEPT = ("scorings", "scoring_runs", "scoring_reports", "assessments")


@pytest.fixture
def desk(database: Database) -> Desk:
    return Desk(database)


def counts(database: Database, tables: tuple[str, ...]) -> dict[str, int]:
    with database.begin() as connection:
        return {table: count(connection, table) for table in tables}


def age(database: Database, *, stored: dt.datetime = OLD, scored: dt.datetime = OLD) -> None:
    """Everything was uploaded and read then, and every scoring that has ended did so then."""
    with database.begin() as connection:
        for table in ("trajectory_files", "trajectory_blobs", "readings"):
            connection.execute(text(f"UPDATE {table} SET created_at = :at"), {"at": stored})  # noqa: S608
        ended = text("UPDATE scorings SET finished_at = :at WHERE finished_at IS NOT NULL")
        connection.execute(ended, {"at": scored})


def test_what_was_scored_long_ago_goes_and_its_report_stays_to_the_last_byte(
    desk: Desk, database: Database, tmp_path: Path
) -> None:
    desk.upload(write_cohort(tmp_path / "runs"))
    scoring = desk.score()
    report, before = desk.report(scoring), counts(database, STORED)
    kept = counts(database, KEPT)
    age(database)

    dropped = prune_uploads(database, before=BEFORE)

    left = counts(database, STORED)
    # The list of what was scored stays.
    assert left == {**dict.fromkeys(STORED, 0), "trajectory_blobs": 1, "trajectory_chunks": 1}
    assert (dropped.files, dropped.readings) == (before["trajectory_files"], before["readings"])
    assert (dropped.blobs, dropped.busy_tenants) == (before["trajectory_blobs"] - 1, 0)
    assert dropped.bytes > 0
    assert counts(database, KEPT) == kept
    assert desk.report(scoring) == report


def test_what_is_young_stays(desk: Desk, database: Database, tmp_path: Path) -> None:
    desk.upload(write_cohort(tmp_path / "runs"))
    desk.score()
    age(database, stored=BEFORE)
    before = counts(database, STORED)
    assert prune_uploads(database, before=BEFORE) == DroppedUploads()
    assert counts(database, STORED) == before


def test_old_uploads_that_a_scoring_since_then_used_stay(
    desk: Desk, database: Database, tmp_path: Path
) -> None:
    desk.upload(write_cohort(tmp_path / "runs"))
    desk.score()
    age(database, scored=YOUNG)
    before = counts(database, STORED)
    assert prune_uploads(database, before=BEFORE) == DroppedUploads()
    assert counts(database, STORED) == before


def test_a_tenant_who_is_scoring_is_left_alone(desk: Desk, database: Database, tmp_path: Path) -> None:
    desk.upload(write_cohort(tmp_path / "runs"))
    desk.start()
    age(database)
    before = counts(database, STORED)
    assert prune_uploads(database, before=BEFORE) == DroppedUploads(busy_tenants=1)
    assert counts(database, STORED) == before


def test_a_dry_run_counts_the_same_and_changes_nothing(
    desk: Desk, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "ROWS_AT_ONCE", 3)
    monkeypatch.setattr(uploads, "BLOBS_AT_ONCE", 2)
    desk.upload(write_cohort(tmp_path / "runs"))
    desk.score()
    age(database)
    before = counts(database, STORED)
    counted = prune_uploads(database, before=BEFORE, is_dry=True)
    assert counts(database, STORED) == before
    assert prune_uploads(database, before=BEFORE) == counted
    assert counted.files > 3


def test_what_was_dropped_can_be_uploaded_and_scored_again_with_the_same_report(
    desk: Desk, database: Database, tmp_path: Path
) -> None:
    folder = write_cohort(tmp_path / "runs")
    desk.upload(folder)
    report = desk.report(desk.score())
    age(database)
    prune_uploads(database, before=BEFORE)
    desk.upload(folder)
    assert desk.report(desk.score()) == report


def test_bytes_that_are_stored_again_are_as_good_as_new(database: Database) -> None:
    with database.begin() as connection:
        first = blobs.store(connection, io.BytesIO(b"log"), tenant_id=DEFAULT_TENANT)
    age(database)
    with database.begin() as connection:
        again = blobs.store(connection, io.BytesIO(b"log"), tenant_id=DEFAULT_TENANT)
    assert (first.is_new, again.is_new) == (True, False)
    assert prune_uploads(database, before=BEFORE).blobs == 0


def test_a_scoring_that_is_just_being_made_keeps_everything(
    desk: Desk, database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read which uploads there are, and nobody else can see it yet."""
    monkeypatch.setattr(uploads, "TRIES", 1)
    monkeypatch.setattr(uploads, "PATIENCE", "1ms")
    desk.upload(write_cohort(tmp_path / "runs"))
    age(database)
    before = counts(database, STORED)
    with database.begin() as connection:
        connection.execute(text("SELECT count(*) FROM trajectory_files"))
        assert prune_uploads(database, before=BEFORE) == DroppedUploads(busy_tenants=1)
    assert counts(database, STORED) == before
