"""Budgets, what calls may cost, orphaned calls; states and limits of providers.

Revision ID: 0002
Revises: 0001
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | None = None
depends_on: str | None = None

_USD = sa.Numeric(precision=12, scale=6)
_TIME = sa.DateTime(timezone=True)


def _count(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.Integer(), server_default="0", nullable=False)


def _now(name: str) -> sa.Column[object]:
    return sa.Column(name, _TIME, server_default=sa.text("now()"), nullable=False)


def upgrade() -> None:
    op.add_column("runs", sa.Column("budget_usd", _USD, nullable=True))
    op.add_column("runs", sa.Column("budget_tokens", sa.BigInteger(), nullable=True))
    op.add_column("runs", sa.Column("lead_share_usd", _USD, nullable=True))
    op.add_column("runs", _count("lead_share_tokens"))
    op.add_column("calls", _count("cache_write_input_tokens"))
    op.add_column("calls", _count("reserved_input_tokens"))
    op.add_column("calls", _count("reserved_output_tokens"))
    op.add_column("calls", sa.Column("reserved_usd", _USD, nullable=True))
    op.create_table(
        "provider_states",
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("key_digest", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=True),
        _now("since"),
        sa.Column("until", _TIME, nullable=True),
        _now("updated_at"),
        sa.PrimaryKeyConstraint("provider", "key_digest", name=op.f("pk_provider_states")),
    )
    op.create_table(
        "limits",
        sa.Column("provider", sa.Text(), nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("requests_per_minute", sa.Float(), nullable=True),
        sa.Column("input_tokens_per_minute", sa.Float(), nullable=True),
        sa.Column("output_tokens_per_minute", sa.Float(), nullable=True),
        sa.Column("requests_per_day", sa.Integer(), nullable=True),
        sa.Column("concurrency", sa.Integer(), nullable=True),
        _now("updated_at"),
        sa.PrimaryKeyConstraint("provider", "family", name=op.f("pk_limits")),
    )


def downgrade() -> None:
    op.drop_table("limits")
    op.drop_table("provider_states")
    for column in (
        "reserved_usd",
        "reserved_output_tokens",
        "reserved_input_tokens",
        "cache_write_input_tokens",
    ):
        op.drop_column("calls", column)
    for column in ("lead_share_tokens", "lead_share_usd", "budget_tokens", "budget_usd"):
        op.drop_column("runs", column)
