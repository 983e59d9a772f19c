"""What ended lately is found without reading what ended before: metrics ask every few seconds.

Calls are written in the order of time and end within minutes, so that a BRIN index is enough, which costs a call's end
next to nothing (from PostgreSQL 16 on it keeps the update in its page).

Revision ID: 0006
Revises: 0005
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0006"
down_revision: str | None = "0005"
branch_labels: str | None = None
depends_on: str | None = None

_TABLES = ("runs", "stages", "scoring_parts")


def upgrade() -> None:
    for table in _TABLES:
        op.create_index(
            f"ix_{table}_ended", table, ["finished_at"], postgresql_where=sa.text("finished_at IS NOT NULL")
        )
    op.create_index(
        "ix_calls_ended",
        "calls",
        ["ended_at"],
        postgresql_using="brin",
        postgresql_with={"autosummarize": "on", "pages_per_range": 32},
    )


def downgrade() -> None:
    op.drop_index("ix_calls_ended", "calls")
    for table in reversed(_TABLES):
        op.drop_index(f"ix_{table}_ended", table)
