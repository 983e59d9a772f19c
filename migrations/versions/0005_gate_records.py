"""How models' findings ended at the gate, by tenant and submission: what reviewers' weights are earned by.

Revision ID: 0005
Revises: 0004
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: str | None = None
depends_on: str | None = None


def upgrade() -> None:
    op.create_table(
        "gate_records",
        sa.Column("tenant_id", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("input_digest", sa.Text(), nullable=False),
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("upheld", sa.SmallInteger(), nullable=False),
        sa.Column("refuted", sa.SmallInteger(), nullable=False),
        sa.Column("ended_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.PrimaryKeyConstraint("tenant_id", "model", "input_digest", name=op.f("pk_gate_records")),
        sa.ForeignKeyConstraint(["tenant_id"], ["tenants.tenant_id"], name=op.f("fk_gate_records_tenant_id")),
    )
    op.create_index(
        "ix_gate_records_newest", "gate_records", ["tenant_id", "model", sa.text("ended_at DESC")]
    )


def downgrade() -> None:
    op.drop_table("gate_records")
