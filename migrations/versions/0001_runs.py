"""Runs, stages, calls, events, payloads and tenants: what the first run needs and later issues build on."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "payloads",
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=True),
        sa.Column("size_bytes", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("redacted_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("digest", name=op.f("pk_payloads")),
    )
    op.create_table(
        "tenants",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", name=op.f("pk_tenants")),
    )
    op.create_table(
        "runs",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("batch_id", sa.Text(), nullable=True),
        sa.Column("external_id", sa.Text(), nullable=True),
        sa.Column("team", sa.Text(), nullable=False),
        sa.Column("team_digest", sa.Text(), nullable=False),
        sa.Column("input_digest", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("outcome", sa.Text(), nullable=True),
        sa.Column("round", sa.SmallInteger(), server_default="1", nullable=False),
        sa.Column("priority", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("is_simulated", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column(
            "metadata",
            postgresql.JSONB(astext_type=sa.Text()),
            server_default=sa.text("'{}'::jsonb"),
            nullable=False,
        ),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("request_digest", sa.Text(), nullable=False),
        sa.Column("verdict_digest", sa.Text(), nullable=True),
        sa.Column("ledger_seq", sa.Integer(), server_default="0", nullable=False),
        sa.Column("ledger_head", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.ForeignKeyConstraint(["input_digest"], ["payloads.digest"], name=op.f("fk_runs_input_digest")),
        sa.ForeignKeyConstraint(["team_digest"], ["payloads.digest"], name=op.f("fk_runs_team_digest")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_runs_tenant_id")),
        sa.ForeignKeyConstraint(
            ["verdict_digest"],
            ["payloads.digest"],
            name=op.f("fk_runs_verdict_digest"),
            deferrable=True,
            initially="DEFERRED",
        ),
        sa.PrimaryKeyConstraint("run_id", name=op.f("pk_runs")),
        sa.UniqueConstraint("tenant_id", "idempotency_key", name=op.f("uq_runs_tenant_id_idempotency_key")),
    )
    op.create_index("ix_runs_listing", "runs", ["tenant_id", sa.literal_column("run_id DESC")], unique=False)
    op.create_index(
        "ix_runs_open",
        "runs",
        ["created_at"],
        unique=False,
        postgresql_where=sa.text("state IN ('queued', 'running')"),
    )
    op.create_table(
        "events",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("payload_digest", sa.Text(), nullable=False),
        sa.Column("previous_hash", sa.Text(), nullable=False),
        sa.Column("hash", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["payload_digest"], ["payloads.digest"], name=op.f("fk_events_payload_digest")
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_events_run_id")),
        sa.PrimaryKeyConstraint("run_id", "seq", name=op.f("pk_events")),
    )
    op.create_table(
        "stages",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("round", sa.SmallInteger(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("seat", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("link", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("attempts", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("deliveries", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("rescues", sa.SmallInteger(), server_default="0", nullable=False),
        sa.Column("owner", sa.Text(), nullable=True),
        sa.Column("lease_expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("not_before", sa.DateTime(timezone=True), nullable=True),
        sa.Column("enqueued_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("cause", sa.Text(), nullable=True),
        sa.Column("detail", sa.Text(), nullable=True),
        sa.Column("result_digest", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["result_digest"],
            ["payloads.digest"],
            name=op.f("fk_stages_result_digest"),
            deferrable=True,
            initially="DEFERRED",
        ),
        sa.ForeignKeyConstraint(
            ["run_id"], ["runs.run_id"], name=op.f("fk_stages_run_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "round", "stage", "seat", name=op.f("pk_stages")),
    )
    op.create_index(
        "ix_stages_pending",
        "stages",
        ["enqueued_at"],
        unique=False,
        postgresql_where=sa.text("state = 'pending'"),
    )
    op.create_index(
        "ix_stages_running",
        "stages",
        ["lease_expires_at"],
        unique=False,
        postgresql_where=sa.text("state = 'running'"),
    )
    op.create_table(
        "calls",
        sa.Column("call_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("round", sa.SmallInteger(), nullable=False),
        sa.Column("stage", sa.Text(), nullable=False),
        sa.Column("seat", sa.Text(), nullable=False),
        sa.Column("pass_number", sa.SmallInteger(), server_default="1", nullable=False),
        sa.Column("link", sa.SmallInteger(), nullable=False),
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("model_asked", sa.Text(), nullable=False),
        sa.Column("model_served", sa.Text(), nullable=True),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("http_requests", sa.SmallInteger(), server_default="1", nullable=False),
        sa.Column("request_digest", sa.Text(), nullable=False),
        sa.Column("reply_digest", sa.Text(), nullable=True),
        sa.Column("input_tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("output_tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("cached_input_tokens", sa.Integer(), server_default="0", nullable=False),
        sa.Column("usage_is_estimated", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("cost_usd", sa.Numeric(precision=12, scale=6), nullable=True),
        sa.Column("rung", sa.SmallInteger(), nullable=True),
        sa.Column("finish_reason", sa.Text(), nullable=True),
        sa.Column("error_kind", sa.Text(), nullable=True),
        sa.Column("error", sa.Text(), nullable=True),
        sa.Column("is_simulated", sa.Boolean(), server_default=sa.text("false"), nullable=False),
        sa.Column("sent_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("duration_seconds", sa.Float(), nullable=True),
        sa.ForeignKeyConstraint(["reply_digest"], ["payloads.digest"], name=op.f("fk_calls_reply_digest")),
        sa.ForeignKeyConstraint(
            ["request_digest"], ["payloads.digest"], name=op.f("fk_calls_request_digest")
        ),
        sa.ForeignKeyConstraint(
            ["run_id", "round", "stage", "seat"],
            ["stages.run_id", "stages.round", "stages.stage", "stages.seat"],
            name=op.f("fk_calls_run_id_round_stage_seat"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("call_id", name=op.f("pk_calls")),
    )
    op.create_index("ix_calls_seat", "calls", ["run_id", "round", "stage", "seat"], unique=False)


def downgrade() -> None:
    op.drop_index("ix_calls_seat", table_name="calls")
    op.drop_table("calls")
    op.drop_index("ix_stages_running", table_name="stages", postgresql_where=sa.text("state = 'running'"))
    op.drop_index("ix_stages_pending", table_name="stages", postgresql_where=sa.text("state = 'pending'"))
    op.drop_table("stages")
    op.drop_table("events")
    op.drop_index(
        "ix_runs_open", table_name="runs", postgresql_where=sa.text("state IN ('queued', 'running')")
    )
    op.drop_index("ix_runs_listing", table_name="runs")
    op.drop_table("runs")
    op.drop_table("tenants")
    op.drop_table("payloads")
