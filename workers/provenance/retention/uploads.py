"""Drops what scorings read, long after they did: readings, uploads and their bytes. Scores and reports stay.

A tenant with a scoring under way is left alone until it has ended: what it will look at is not on record yet."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any, Final

from sqlalchemy import Connection, text
from sqlalchemy.sql.elements import TextClause

from workers.errors import DeadlockError, NotFoundError
from workers.provenance.repository import trajectory_files
from workers.provenance.session import Database

#: Rows dropped in one transaction. A blob may have hundreds of megabytes, which the server frees row by row.
ROWS_AT_ONCE: Final = 200
BLOBS_AT_ONCE: Final = 10
#: How long new uploads and scorings may have to wait behind us, and how often we try again before leaving it.
PATIENCE: Final = "100ms"
TRIES: Final = 20

_TENANTS = text("SELECT tenant_id FROM tenants ORDER BY tenant_id")
_OPEN = text(
    "SELECT EXISTS (SELECT FROM scorings WHERE tenant_id = :tenant AND state IN ('queued', 'running'))"
)
#: A scoring is made in one transaction that reads the uploads and writes its row. With these locks none is under way.
_HOLD = text("LOCK TABLE trajectory_files, scorings IN ACCESS EXCLUSIVE MODE")
_PATIENCE = text("SELECT set_config('lock_timeout', :patience, true)")

_RECENT = text(
    """
    SELECT DISTINCT manifest_digest FROM scorings
    WHERE tenant_id = :tenant AND manifest_digest IS NOT NULL AND (finished_at IS NULL OR finished_at >= :before)
    """
)
_FILES = text(
    """
    SELECT file_id AS id, digest FROM trajectory_files
    WHERE tenant_id = :tenant AND created_at < :before ORDER BY file_id
    """
)
#: Every entry of a scoring names the reading that its run is from.
_READINGS = text(
    """
    SELECT reading_id AS id FROM readings
    WHERE tenant_id = :tenant AND created_at < :before AND reading_id NOT IN (
        SELECT entry::json ->> 'reading' FROM scoring_runs JOIN scorings USING (scoring_id)
        WHERE tenant_id = :tenant AND finished_at >= :before AND entry::json ->> 'reading' IS NOT NULL
    )
    ORDER BY reading_id
    """
)
#: The lists of files and the labels of all scorings stay: they are small, and say what a score is about.
_BLOBS = text(
    """
    SELECT digest AS id, stored_bytes FROM trajectory_blobs AS blob
    WHERE tenant_id = :tenant AND created_at < :before
        AND NOT EXISTS (
            SELECT FROM trajectory_files AS file
            WHERE file.tenant_id = blob.tenant_id AND file.digest = blob.digest AND NOT file.file_id = ANY (:going)
        )
        AND digest NOT IN (
            SELECT manifest_digest FROM scorings WHERE tenant_id = :tenant AND manifest_digest IS NOT NULL
            UNION SELECT labels_digest FROM scorings WHERE tenant_id = :tenant AND labels_digest IS NOT NULL
        )
    ORDER BY digest
    """
)

_DROP_FILES = text(
    """
    DELETE FROM trajectory_files
    WHERE tenant_id = :tenant AND file_id = ANY (:ids) AND created_at < :before RETURNING file_id
    """
)
_DROP_READINGS = text(
    "DELETE FROM readings WHERE tenant_id = :tenant AND reading_id = ANY (:ids) AND created_at < :before "
    "RETURNING reading_id"
)
_DROP_BLOBS = text(
    """
    DELETE FROM trajectory_blobs AS blob
    WHERE tenant_id = :tenant AND digest = ANY (:ids) AND created_at < :before
        AND NOT EXISTS (
            SELECT FROM trajectory_files AS file
            WHERE file.tenant_id = blob.tenant_id AND file.digest = blob.digest
        )
    RETURNING stored_bytes
    """
)


@dataclasses.dataclass(slots=True, kw_only=True)
class DroppedUploads:
    """What went. `bytes`: as they were stored; `busy_tenants`: left for the next time, because they are scoring."""

    readings: int = 0
    files: int = 0
    blobs: int = 0
    bytes: int = 0
    busy_tenants: int = 0


def prune_uploads(database: Database, *, before: dt.datetime, is_dry: bool = False) -> DroppedUploads:
    """Drop readings and uploads that are older than that moment and that no scoring since then used.

    is_dry: count them and change nothing. Raises: UnavailableError."""
    total = DroppedUploads()
    with database.single() as connection:
        tenants = connection.scalars(_TENANTS).all()
    for tenant in tenants:
        if not _prune_tenant(database, tenant, before, total, is_dry=is_dry):
            total.busy_tenants += 1
    return total


def _prune_tenant(
    database: Database, tenant: str, before: dt.datetime, total: DroppedUploads, *, is_dry: bool
) -> bool:
    """False when the tenant is scoring, or begins to."""
    whose = {"tenant": tenant, "before": before}
    with database.begin() as connection:
        if connection.scalar(_OPEN, {"tenant": tenant}):
            return False
        in_use = _in_use(connection, tenant, before)
        files = [row.id for row in connection.execute(_FILES, whose) if row.digest not in in_use]
        readings = connection.scalars(_READINGS, whose).all()
        # Those whose last names go now, and those that had none.
        blobs = connection.execute(_BLOBS, {**whose, "going": files}).all()
    blobs = [row for row in blobs if row.id not in in_use]
    if is_dry:
        total.readings += len(readings)
        total.files += len(files)
        total.blobs += len(blobs)
        total.bytes += sum(row.stored_bytes for row in blobs)
        return True

    for some in _chunks(readings, ROWS_AT_ONCE):
        if (gone := _drop(database, _DROP_READINGS, {**whose, "ids": some})) is None:
            return False
        total.readings += len(gone)
    for some in _chunks(files, ROWS_AT_ONCE):
        if (gone := _drop(database, _DROP_FILES, {**whose, "ids": some})) is None:
            return False
        total.files += len(gone)
    for some in _chunks([row.id for row in blobs], BLOBS_AT_ONCE):
        if (gone := _drop(database, _DROP_BLOBS, {**whose, "ids": some})) is None:
            return False
        total.blobs += len(gone)
        total.bytes += sum(gone)
    return True


def _chunks(ids: Sequence[str], at_once: int) -> Iterator[list[str]]:
    for start in range(0, len(ids), at_once):
        yield list(ids[start : start + at_once])


def _in_use(connection: Connection, tenant: str, before: dt.datetime) -> set[str]:
    """The digests of the files that scorings since then were made of."""
    found: set[str] = set()
    for digest in connection.scalars(_RECENT, {"tenant": tenant, "before": before}):
        try:
            listed = trajectory_files.load_manifest(connection, digest, tenant_id=tenant)
        except NotFoundError:
            continue
        found |= {file.digest for file in listed}
    return found


def _drop(database: Database, statement: TextClause, values: dict[str, object]) -> Sequence[Any] | None:
    """What the rows that went return; None when a scoring has begun, or the locks are not to be had."""
    for _ in range(TRIES):
        try:
            with database.begin() as connection:
                connection.execute(_PATIENCE, {"patience": PATIENCE})
                connection.execute(_HOLD)
                if connection.scalar(_OPEN, {"tenant": values["tenant"]}):
                    return None
                return connection.scalars(statement, values).all()
        except DeadlockError:
            continue
    return None
