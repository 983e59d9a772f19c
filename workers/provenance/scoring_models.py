"""The tables of scorings: trajectories by their content, what was read of them, what was found, and the reports.

Texts that come from logs stand in columns of JSON as text, because PostgreSQL's own JSON refuses characters that
logs hold."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from workers.provenance.schema import TIME, metadata


def _count(name: str) -> Column[int]:
    return Column(name, Integer, nullable=False, server_default="0")


def _now(name: str) -> Column[object]:
    return Column(name, TIME, nullable=False, server_default=text("now()"))


#: A file's bytes under their SHA-256, once a tenant.
trajectory_blobs = Table(
    "trajectory_blobs",
    metadata,
    Column("tenant_id", Text, ForeignKey("tenants.tenant_id"), primary_key=True),
    Column("digest", Text, primary_key=True),
    Column("size_bytes", BigInteger, nullable=False),
    Column("stored_bytes", BigInteger, nullable=False),  # compressed
    _now("created_at"),
)

#: In pieces, each compressed by itself, so that a file of any size passes through little memory.
trajectory_chunks = Table(
    "trajectory_chunks",
    metadata,
    Column("tenant_id", Text, primary_key=True),
    Column("digest", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("body", LargeBinary, nullable=False),
    ForeignKeyConstraint(
        ["tenant_id", "digest"], ["trajectory_blobs.tenant_id", "trajectory_blobs.digest"], ondelete="CASCADE"
    ),
)

#: Under which names bytes were given. An upload set is a folder: files beside each other are read together.
trajectory_files = Table(
    "trajectory_files",
    metadata,
    Column("file_id", Text, primary_key=True),
    Column("tenant_id", Text, nullable=False),
    Column("upload_set", Text, nullable=False),
    Column("prefix", Text, nullable=False, server_default=""),  # put before the path in reports
    Column("path", Text, nullable=False),
    Column("role", Text),  # run | beside; null: found out from the names
    Column("digest", Text, nullable=False),
    _now("created_at"),
    UniqueConstraint("tenant_id", "upload_set", "prefix", "path"),
    ForeignKeyConstraint(["tenant_id", "digest"], ["trajectory_blobs.tenant_id", "trajectory_blobs.digest"]),
)
Index("ix_trajectory_files_digest", trajectory_files.c.tenant_id, trajectory_files.c.digest)
Index("ix_trajectory_files_listing", trajectory_files.c.tenant_id, trajectory_files.c.file_id.desc())

#: What was read of a file, labelled: valid as long as the files that the reader asked for are what they were.
readings = Table(
    "readings",
    metadata,
    Column("tenant_id", Text, ForeignKey("tenants.tenant_id"), primary_key=True),
    Column("reading_id", Text, primary_key=True),
    Column("unit_key", Text, nullable=False),
    Column("asked", Text, nullable=False),
    Column("contents", Text, nullable=False),
    _now("created_at"),
)
Index("ix_readings_unit", readings.c.tenant_id, readings.c.unit_key)

reading_runs = Table(
    "reading_runs",
    metadata,
    Column("tenant_id", Text, primary_key=True),
    Column("reading_id", Text, primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("packed", LargeBinary, nullable=False),
    ForeignKeyConstraint(
        ["tenant_id", "reading_id"], ["readings.tenant_id", "readings.reading_id"], ondelete="CASCADE"
    ),
)

#: Never changed: another reference, version or setting is another row.
assessments = Table(
    "assessments",
    metadata,
    Column("tenant_id", Text, ForeignKey("tenants.tenant_id"), primary_key=True),
    Column("assessment_id", Text, primary_key=True),
    Column("run_digest", Text, nullable=False),
    Column("settings_digest", Text, nullable=False),
    Column("reference_digest", Text, nullable=False),
    Column("scoring_version", Text, nullable=False),
    Column("score", Float, nullable=False),
    Column("tier", Text),
    Column("row", Text, nullable=False),
    Column("document", LargeBinary, nullable=False),
    _now("created_at"),
)
Index("ix_assessments_run", assessments.c.tenant_id, assessments.c.run_digest, assessments.c.settings_digest)

scorings = Table(
    "scorings",
    metadata,
    Column("scoring_id", Text, primary_key=True),
    Column("tenant_id", Text, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("state", Text, nullable=False),
    Column("stage", Text, nullable=False),
    Column("folder", Text),  # to be read by a worker; null: uploaded files
    Column("manifest_digest", Text),  # the files to score, as they were when it was asked for
    Column("labels_digest", Text),
    Column("labels_name", Text),
    Column("format_name", Text),
    Column("profile", Text, nullable=False),
    Column("settings", JSONB, nullable=False),
    Column("unopened", Text, nullable=False, server_default="[]"),
    Column("schedule", Text),
    Column("night", Text),
    Column("previous_id", Text),
    _count("file_count"),
    _count("run_count"),
    _count("problem_count"),
    _count("reused_count"),
    _count("computed_count"),
    _count("stale_count"),
    _count("skipped_count"),
    Column("scoring_version", Text),
    Column("summary", Text),
    Column("comparison", Text),
    Column("error", Text),
    Column("idempotency_key", Text),
    Column("request_digest", Text, nullable=False),
    _now("created_at"),
    Column("started_at", TIME),
    Column("finished_at", TIME),
    UniqueConstraint("tenant_id", "idempotency_key"),
)
Index("ix_scorings_listing", scorings.c.tenant_id, scorings.c.scoring_id.desc())
Index("ix_scorings_open", scorings.c.created_at, postgresql_where=text("state IN ('queued', 'running')"))

#: One row a piece of work: all that a message has to name.
scoring_parts = Table(
    "scoring_parts",
    metadata,
    Column("scoring_id", Text, ForeignKey("scorings.scoring_id", ondelete="CASCADE"), primary_key=True),
    Column("stage", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("label", Text),  # the problem, as JSON
    Column("work", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    Column("donors", JSONB, nullable=False, server_default=text("'[]'::jsonb")),
    Column("state", Text, nullable=False),
    Column("owner", Text),
    Column("lease_expires_at", TIME),
    _now("enqueued_at"),
    Column("rescues", SmallInteger, nullable=False, server_default="0"),
    _count("run_count"),
    _count("computed_count"),
    Column("detail", Text),
    Column("started_at", TIME),
    Column("finished_at", TIME),
)
Index(
    "ix_scoring_parts_open",
    scoring_parts.c.enqueued_at,
    postgresql_where=text("state IN ('pending', 'running')"),
)
Index(
    "ix_scoring_parts_ended",
    scoring_parts.c.finished_at,
    postgresql_where=text("finished_at IS NOT NULL"),
)

#: The runs of a scoring and which assessment is theirs, in the order of the report (`place`).
scoring_runs = Table(
    "scoring_runs",
    metadata,
    Column("scoring_id", Text, ForeignKey("scorings.scoring_id", ondelete="CASCADE"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("place", Integer, nullable=False),
    Column("entry", Text, nullable=False),
    Column("assessment_id", Text, nullable=False),
    UniqueConstraint("scoring_id", "place"),
)

#: Finished reports in pieces: the frame of the JSON form, and the other forms whole.
scoring_reports = Table(
    "scoring_reports",
    metadata,
    Column("scoring_id", Text, ForeignKey("scorings.scoring_id", ondelete="CASCADE"), primary_key=True),
    Column("form", Text, primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("body", LargeBinary, nullable=False),
)

#: When a schedule was first seen: what lies before was never due.
schedules = Table(
    "schedules",
    metadata,
    Column("name", Text, primary_key=True),
    _now("first_seen_at"),
)

#: That a night was started, once, whoever starts it.
schedule_nights = Table(
    "schedule_nights",
    metadata,
    Column("schedule", Text, ForeignKey("schedules.name", ondelete="CASCADE"), primary_key=True),
    Column("night", Text, primary_key=True),
    Column("scoring_id", Text, ForeignKey("scorings.scoring_id", ondelete="CASCADE"), nullable=False),
    _now("created_at"),
)
