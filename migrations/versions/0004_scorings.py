"""Trajectories by their content, what was read and found of them, scorings and their nights.

Revision ID: 0004
Revises: 0003
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: str | None = None
depends_on: str | None = None

_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "trajectory_blobs",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("size_bytes", sa.BigInteger(), nullable=False),
        sa.Column("stored_bytes", sa.BigInteger(), nullable=False),
        sa.Column("created_at", _TIME, server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_trajectory_blobs_tenant_id")
        ),
        sa.PrimaryKeyConstraint("tenant_id", "digest", name=op.f("pk_trajectory_blobs")),
    )
    op.create_table(
        "trajectory_chunks",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id", "digest"],
            ["trajectory_blobs.tenant_id", "trajectory_blobs.digest"],
            name=op.f("fk_trajectory_chunks_tenant_id_digest"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("tenant_id", "digest", "number", name=op.f("pk_trajectory_chunks")),
    )
    op.create_table(
        "trajectory_files",
        sa.Column("file_id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("upload_set", sa.Text(), nullable=False),
        sa.Column("prefix", sa.Text(), server_default="", nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("role", sa.Text(), nullable=True),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("created_at", _TIME, server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id", "digest"],
            ["trajectory_blobs.tenant_id", "trajectory_blobs.digest"],
            name=op.f("fk_trajectory_files_tenant_id_digest"),
        ),
        sa.PrimaryKeyConstraint("file_id", name=op.f("pk_trajectory_files")),
        sa.UniqueConstraint(
            "tenant_id",
            "upload_set",
            "prefix",
            "path",
            name=op.f("uq_trajectory_files_tenant_id_upload_set_prefix_path"),
        ),
    )
    op.create_index(
        "ix_trajectory_files_listing",
        "trajectory_files",
        ["tenant_id", sa.text("file_id DESC")],
        unique=False,
    )
    op.create_table(
        "readings",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("reading_id", sa.Text(), nullable=False),
        sa.Column("unit_key", sa.Text(), nullable=False),
        sa.Column("asked", sa.Text(), nullable=False),
        sa.Column("contents", sa.Text(), nullable=False),
        sa.Column("created_at", _TIME, server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_readings_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "reading_id", name=op.f("pk_readings")),
    )
    op.create_index("ix_readings_unit", "readings", ["tenant_id", "unit_key"], unique=False)
    op.create_table(
        "reading_runs",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("reading_id", sa.Text(), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("packed", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["tenant_id", "reading_id"],
            ["readings.tenant_id", "readings.reading_id"],
            name=op.f("fk_reading_runs_tenant_id_reading_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("tenant_id", "reading_id", "position", name=op.f("pk_reading_runs")),
    )
    op.create_table(
        "assessments",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("assessment_id", sa.Text(), nullable=False),
        sa.Column("run_digest", sa.Text(), nullable=False),
        sa.Column("settings_digest", sa.Text(), nullable=False),
        sa.Column("reference_digest", sa.Text(), nullable=False),
        sa.Column("scoring_version", sa.Text(), nullable=False),
        sa.Column("score", sa.Float(), nullable=False),
        sa.Column("tier", sa.Text(), nullable=True),
        sa.Column("row", sa.Text(), nullable=False),
        sa.Column("document", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", _TIME, server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_assessments_tenant_id")),
        sa.PrimaryKeyConstraint("tenant_id", "assessment_id", name=op.f("pk_assessments")),
    )
    op.create_index(
        "ix_assessments_run", "assessments", ["tenant_id", "run_digest", "settings_digest"], unique=False
    )
    op.create_table(
        "scorings",
        sa.Column("scoring_id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("folder", sa.Text(), nullable=True),
        sa.Column("manifest_digest", sa.Text(), nullable=True),
        sa.Column("labels_digest", sa.Text(), nullable=True),
        sa.Column("labels_name", sa.Text(), nullable=True),
        sa.Column("format_name", sa.Text(), nullable=True),
        sa.Column("profile", sa.Text(), nullable=False),
        sa.Column("settings", JSONB(), nullable=False),
        sa.Column("unopened", sa.Text(), server_default="[]", nullable=False),
        sa.Column("schedule", sa.Text(), nullable=True),
        sa.Column("night", sa.Text(), nullable=True),
        sa.Column("previous_id", sa.Text(), nullable=True),
        sa.Column("file_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("run_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("problem_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("reused_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("computed_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("stale_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("skipped_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("scoring_version", sa.Text(), nullable=True),
        sa.Column("summary", sa.Text(), nullable=True),
        sa.Column("comparison", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("request_digest", sa.Text(), nullable=False),
        sa.Column("created_at", _TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("started_at", _TIME, nullable=True),
        sa.Column("finished_at", _TIME, nullable=True),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_scorings_tenant_id")),
        sa.PrimaryKeyConstraint("scoring_id", name=op.f("pk_scorings")),
        sa.UniqueConstraint(
            "tenant_id", "idempotency_key", name=op.f("uq_scorings_tenant_id_idempotency_key")
        ),
    )
    op.create_index(
        "ix_scorings_listing", "scorings", ["tenant_id", sa.text("scoring_id DESC")], unique=False
    )
    op.create_index(
        "ix_scorings_open",
        "scorings",
        ["created_at"],
        unique=False,
        postgresql_where=sa.text("state IN ('queued', 'running')"),
    )
    op.create_table(
        "scoring_parts",
        sa.Column("scoring_id", sa.Text(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("label", sa.Text(), nullable=True),
        sa.Column("work", JSONB(), server_default=sa.text("'[]'::jsonb"), nullable=False),
        sa.Column("donors", JSONB(), server_default=sa.text("'[]'::jsonb"), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("lease_expires_at", _TIME, nullable=True),
        sa.Column("enqueued_at", _TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("rescues", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("run_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("computed_count", sa.Integer(), server_default="0", nullable=False),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("started_at", _TIME, nullable=True),
        sa.Column("finished_at", _TIME, nullable=True),
        sa.ForeignKeyConstraint(
            ["scoring_id"],
            ["scorings.scoring_id"],
            name=op.f("fk_scoring_parts_scoring_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("scoring_id", "stage", "number", name=op.f("pk_scoring_parts")),
    )
    op.create_index(
        "ix_scoring_parts_open",
        "scoring_parts",
        ["enqueued_at"],
        unique=False,
        postgresql_where=sa.text("state IN ('pending', 'running')"),
    )
    op.create_table(
        "scoring_runs",
        sa.Column("scoring_id", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("place", sa.Integer(), nullable=False),
        sa.Column("entry", sa.Text(), nullable=False),
        sa.Column("assessment_id", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["scoring_id"],
            ["scorings.scoring_id"],
            name=op.f("fk_scoring_runs_scoring_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("scoring_id", "number", name=op.f("pk_scoring_runs")),
        sa.UniqueConstraint("scoring_id", "place", name=op.f("uq_scoring_runs_scoring_id_place")),
    )
    op.create_table(
        "scoring_reports",
        sa.Column("scoring_id", sa.Text(), nullable=False),
        sa.Column("form", sa.Text(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["scoring_id"],
            ["scorings.scoring_id"],
            name=op.f("fk_scoring_reports_scoring_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("scoring_id", "form", "number", name=op.f("pk_scoring_reports")),
    )
    op.create_table(
        "schedules",
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("first_seen_at", _TIME, server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("name", name=op.f("pk_schedules")),
    )
    op.create_table(
        "schedule_nights",
        sa.Column("schedule", sa.Text(), nullable=False),
        sa.Column("night", sa.Text(), nullable=False),
        sa.Column("scoring_id", sa.Text(), nullable=False),
        sa.Column("created_at", _TIME, server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["schedule"], ["schedules.name"], name=op.f("fk_schedule_nights_schedule"), ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["scoring_id"],
            ["scorings.scoring_id"],
            name=op.f("fk_schedule_nights_scoring_id"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("schedule", "night", name=op.f("pk_schedule_nights")),
    )


def downgrade() -> None:
    for table in (
        "schedule_nights",
        "schedules",
        "scoring_reports",
        "scoring_runs",
        "scoring_parts",
        "scorings",
        "assessments",
        "reading_runs",
        "readings",
        "trajectory_files",
        "trajectory_chunks",
        "trajectory_blobs",
    ):
        op.drop_table(table)
