"""Keys of the API, and browsers that have shown one.

Revision ID: 0008
Revises: 0007
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0008"
down_revision: str | None = "0007"
branch_labels: str | None = None
depends_on: str | None = None

_TIME = sa.DateTime(timezone=True)


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scope", sa.Text(), nullable=False),
        sa.Column("secret_digest", sa.Text(), nullable=False),
        sa.Column("requests_per_minute", sa.Integer(), nullable=True),
        sa.Column("paid_until", _TIME, nullable=True),
        sa.Column("created_at", _TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", _TIME, nullable=True),
        sa.Column("revoked_at", _TIME, nullable=True),
        sa.Column("last_used_at", _TIME, nullable=True),
        sa.Column("replaced_by", sa.Text(), nullable=True),
        sa.PrimaryKeyConstraint("key_id", name=op.f("pk_api_keys")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_api_keys_tenant_id")),
        sa.ForeignKeyConstraint(["replaced_by"], ["api_keys.key_id"], name=op.f("fk_api_keys_replaced_by")),
    )
    op.create_table(
        "web_sessions",
        sa.Column("session_digest", sa.Text(), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        sa.Column("created_at", _TIME, server_default=sa.text("now()"), nullable=False),
        sa.Column("expires_at", _TIME, nullable=False),
        sa.PrimaryKeyConstraint("session_digest", name=op.f("pk_web_sessions")),
        sa.ForeignKeyConstraint(
            ["key_id"], ["api_keys.key_id"], name=op.f("fk_web_sessions_key_id"), ondelete="CASCADE"
        ),
    )
    op.create_index("ix_web_sessions_expires_at", "web_sessions", ["expires_at"])


def downgrade() -> None:
    op.drop_table("web_sessions")
    op.drop_table("api_keys")
