"""Batches, what waits for the dispatcher, and what is to be told to webhooks.

Revision ID: 0003
Revises: 0002
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | None = None
depends_on: str | None = None

_USD = sa.Numeric(precision=12, scale=6)
_TIME = sa.DateTime(timezone=True)
_OPEN = "state IN ('queued', 'running')"


def _count(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), server_default="0", nullable=False)


def _small(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.SmallInteger(), server_default="0", nullable=False)


def _now(name: str) -> sa.Column[object]:
    return sa.Column(name, _TIME, server_default=sa.text("now()"), nullable=False)


def upgrade() -> None:
    op.create_table(
        "batches",
        sa.Column("batch_id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("pause_cause", sa.Text(), nullable=True),
        _small("priority"),
        sa.Column("concurrency", sa.Integer(), nullable=True),
        sa.Column("budget_usd", _USD, nullable=True),
        sa.Column("budget_tokens", sa.BigInteger(), nullable=True),
        sa.Column("run_count", sa.Integer(), nullable=False),
        _count("duplicate_count"),
        _count("skipped_count"),
        sa.Column("skipped", JSONB(), server_default=sa.text("'[]'::jsonb"), nullable=False),
        sa.Column("webhook_url", sa.Text(), nullable=True),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("request_digest", sa.Text(), nullable=False),
        _now("created_at"),
        sa.Column("started_at", _TIME, nullable=True),
        sa.Column("dispatched_at", _TIME, nullable=True),
        sa.Column("spent_usd", sa.Numeric(precision=18, scale=6), server_default="0", nullable=False),
        sa.Column("spent_tokens", sa.BigInteger(), server_default="0", nullable=False),
        sa.Column("finished_at", _TIME, nullable=True),
        sa.PrimaryKeyConstraint("batch_id", name=op.f("pk_batches")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_batches_tenant_id")),
        sa.UniqueConstraint(
            "tenant_id", "idempotency_key", name=op.f("uq_batches_tenant_id_idempotency_key")
        ),
    )
    op.create_index("ix_batches_listing", "batches", ["tenant_id", sa.text("batch_id DESC")])
    op.create_index(
        "ix_batches_open", "batches", ["priority"], postgresql_where=sa.text("finished_at IS NULL")
    )
    op.add_column("runs", sa.Column("position", sa.Integer(), nullable=True))
    op.add_column("runs", sa.Column("webhook_url", sa.Text(), nullable=True))
    op.add_column("runs", sa.Column("dispatched_at", _TIME, nullable=True))
    # Every run that is there was sent when it was made.
    op.execute("UPDATE runs SET dispatched_at = created_at")
    op.create_foreign_key(op.f("fk_runs_batch_id"), "runs", "batches", ["batch_id"], ["batch_id"])
    op.drop_index("ix_runs_open", "runs")
    op.create_index(
        "ix_runs_open",
        "runs",
        ["created_at"],
        postgresql_where=sa.text(f"{_OPEN} AND dispatched_at IS NOT NULL"),
    )
    op.create_index("ix_runs_batch", "runs", ["batch_id", "state", "outcome"])
    op.create_index(
        "ix_runs_waiting",
        "runs",
        ["batch_id", "priority", "position"],
        postgresql_where=sa.text("state = 'queued' AND dispatched_at IS NULL"),
    )
    for name, column in (
        ("uq_runs_batch_request", "request_digest"),
        ("uq_runs_batch_external_id", "external_id"),
    ):
        op.create_index(
            name, "runs", ["batch_id", column], unique=True, postgresql_where=sa.text("batch_id IS NOT NULL")
        )
    op.create_table(
        "webhook_deliveries",
        sa.Column("delivery_id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=True),
        sa.Column("batch_id", sa.Text(), nullable=True),
        sa.Column("event", sa.Text(), nullable=False),
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        _small("attempts"),
        _now("next_at"),
        sa.Column("lease_expires_at", _TIME, nullable=True),
        sa.Column("last_status", sa.SmallInteger(), nullable=True),
        sa.Column("last_error", sa.Text(), nullable=True),
        _now("created_at"),
        sa.Column("ended_at", _TIME, nullable=True),
        sa.PrimaryKeyConstraint("delivery_id", name=op.f("pk_webhook_deliveries")),
        sa.ForeignKeyConstraint(
            ["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_webhook_deliveries_tenant_id")
        ),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_webhook_deliveries_run_id")),
        sa.ForeignKeyConstraint(
            ["batch_id"], ["batches.batch_id"], name=op.f("fk_webhook_deliveries_batch_id")
        ),
        sa.UniqueConstraint("run_id", "event", name=op.f("uq_webhook_deliveries_run_id_event")),
        sa.UniqueConstraint("batch_id", "event", name=op.f("uq_webhook_deliveries_batch_id_event")),
    )
    op.create_index(
        "ix_webhook_deliveries_due",
        "webhook_deliveries",
        ["next_at"],
        postgresql_where=sa.text("state = 'pending'"),
    )


def downgrade() -> None:
    op.drop_table("webhook_deliveries")
    for name in (
        "uq_runs_batch_external_id",
        "uq_runs_batch_request",
        "ix_runs_waiting",
        "ix_runs_batch",
        "ix_runs_open",
    ):
        op.drop_index(name, "runs")
    op.create_index("ix_runs_open", "runs", ["created_at"], postgresql_where=sa.text(_OPEN))
    op.drop_constraint(op.f("fk_runs_batch_id"), "runs", type_="foreignkey")
    for column in ("dispatched_at", "webhook_url", "position"):
        op.drop_column("runs", column)
    op.drop_table("batches")
