"""What was pruned, and that a body which somebody is just writing cannot go.

Revision ID: 0009
Revises: 0008
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: str | None = None
depends_on: str | None = None

#: Whoever writes a payload shares one of 64 locks until its transaction ends; whoever drops bodies wants the lock
#: for itself, without waiting (docs/decisions/0020). The numbers are those of workers/provenance/retention/bodies.py.
_LOCKED = """
CREATE OR REPLACE FUNCTION revive_payload() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_advisory_xact_lock_shared(1348821284, hashtext(NEW.digest) & 63);
    UPDATE payloads SET body = NEW.body, dropped_at = NULL, dropped_why = NULL
    WHERE digest = NEW.digest AND body IS NULL;
    RETURN NEW;
END $$;
"""
_AS_BEFORE = """
CREATE OR REPLACE FUNCTION revive_payload() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE payloads SET body = NEW.body, dropped_at = NULL, dropped_why = NULL
    WHERE digest = NEW.digest AND body IS NULL;
    RETURN NEW;
END $$;
"""

#: Whether anybody still needs a body is asked of each that is to go.
_REFERENCES = (
    ("ix_events_payload", "events", "payload_digest"),
    ("ix_calls_request", "calls", "request_digest"),
    ("ix_calls_reply", "calls", "reply_digest"),
    ("ix_runs_input", "runs", "input_digest"),
)


def upgrade() -> None:
    op.add_column("runs", sa.Column("pruned_at", sa.DateTime(timezone=True), nullable=True))
    op.create_index(
        "ix_runs_prunable",
        "runs",
        ["finished_at", "run_id"],
        postgresql_where=sa.text("finished_at IS NOT NULL AND pruned_at IS NULL"),
    )
    for name, table, column in _REFERENCES:
        op.create_index(name, table, [column])
    # Whether bytes still have a name is asked of each blob that is to go, by the foreign key too.
    op.create_index("ix_trajectory_files_digest", "trajectory_files", ["tenant_id", "digest"])
    op.execute(_LOCKED)


def downgrade() -> None:
    op.execute(_AS_BEFORE)
    for name, table, _ in reversed(_REFERENCES):
        op.drop_index(name, table_name=table)
    op.drop_index("ix_trajectory_files_digest", table_name="trajectory_files")
    op.drop_index("ix_runs_prunable", table_name="runs")
    op.drop_column("runs", "pruned_at")
