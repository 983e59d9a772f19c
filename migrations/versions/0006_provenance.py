"""Bodies of payloads may go, through one function, and come back when somebody writes them again.

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

_FUNCTIONS = """
CREATE FUNCTION revive_payload() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE payloads SET body = NEW.body, dropped_at = NULL, dropped_why = NULL
    WHERE digest = NEW.digest AND body IS NULL;
    RETURN NEW;
END $$;

CREATE FUNCTION drop_payload_bodies(which text[], moment timestamptz, reason text) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    dropped integer;
BEGIN
    UPDATE payloads SET body = NULL, dropped_at = moment, dropped_why = reason
    WHERE digest = ANY (which) AND body IS NOT NULL;
    GET DIAGNOSTICS dropped = ROW_COUNT;
    RETURN dropped;
END $$;
"""


def upgrade() -> None:
    op.add_column("payloads", sa.Column("dropped_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("payloads", sa.Column("dropped_why", sa.Text(), nullable=True))
    op.execute(_FUNCTIONS)
    op.execute(
        "CREATE TRIGGER revive_payload BEFORE INSERT ON payloads FOR EACH ROW "
        "WHEN (NEW.body IS NOT NULL) EXECUTE FUNCTION revive_payload()"
    )


def downgrade() -> None:
    op.execute("DROP TRIGGER revive_payload ON payloads")
    op.execute("DROP FUNCTION drop_payload_bodies(text[], timestamptz, text)")
    op.execute("DROP FUNCTION revive_payload()")
    op.drop_column("payloads", "dropped_why")
    op.drop_column("payloads", "dropped_at")
