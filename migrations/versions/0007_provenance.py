"""The ledger can only grow, its heads are signed and anchored, and bodies of payloads may go.

Revision ID: 0007
Revises: 0006
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: str | None = None
depends_on: str | None = None

_APPEND_ONLY = ("events", "redactions", "anchors")
_KEPT = ("payloads", "ledger_heads")

#: Whoever the role is, the owner of the tables too; only switching the trigger off by hand gets past it.
_FUNCTIONS = """
CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: % is refused', TG_TABLE_NAME, TG_OP
        USING ERRCODE = 'insufficient_privilege',
            HINT = 'bodies of payloads are dropped with drop_payload_bodies(); nothing else is ever changed';
END $$;

CREATE FUNCTION guard_payload() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.digest, NEW.size_bytes, NEW.created_at) IS DISTINCT FROM (OLD.digest, OLD.size_bytes, OLD.created_at) THEN
        RAISE EXCEPTION 'a payload stands under its digest: nothing of its row is ever changed'
            USING ERRCODE = 'insufficient_privilege';
    ELSIF NEW.body IS NULL THEN
        IF current_setting('consensus.is_dropping', true) IS DISTINCT FROM 'yes'
            OR NEW.dropped_at IS NULL OR NEW.dropped_why IS NULL THEN
            RAISE EXCEPTION 'the body of a payload goes with drop_payload_bodies() only'
                USING ERRCODE = 'insufficient_privilege';
        END IF;
    ELSIF OLD.body IS NOT NULL OR encode(sha256(NEW.body), 'hex') <> NEW.digest
        OR NEW.dropped_at IS NOT NULL OR NEW.dropped_why IS NOT NULL THEN
        RAISE EXCEPTION 'the body of a payload cannot be changed: it is what its digest says'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;

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
    PERFORM set_config('consensus.is_dropping', 'yes', true);
    UPDATE payloads SET body = NULL, dropped_at = moment, dropped_why = reason
    WHERE digest = ANY (which) AND body IS NOT NULL;
    GET DIAGNOSTICS dropped = ROW_COUNT;
    PERFORM set_config('consensus.is_dropping', 'no', true);
    RETURN dropped;
END $$;

CREATE FUNCTION guard_head() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.run_id, NEW.seq, NEW.head, NEW.at) IS DISTINCT FROM (OLD.run_id, OLD.seq, OLD.head, OLD.at)
        OR (OLD.key_id, OLD.signature) IS DISTINCT FROM (NEW.key_id, NEW.signature)
        OR OLD.anchor IS NOT NULL THEN
        RAISE EXCEPTION 'the head of a ledger is never changed, only anchored, and once'
            USING ERRCODE = 'insufficient_privilege';
    END IF;
    RETURN NEW;
END $$;
"""


def upgrade() -> None:
    op.add_column("payloads", sa.Column("dropped_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("payloads", sa.Column("dropped_why", sa.Text(), nullable=True))
    op.add_column("calls", sa.Column("attempt", sa.SmallInteger(), server_default="1", nullable=False))
    op.create_table(
        "anchors",
        sa.Column("number", sa.BigInteger(), autoincrement=False, nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("body", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("number", name=op.f("pk_anchors")),
    )
    op.create_table(
        "ledger_heads",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("head", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=True),
        sa.Column("signature", sa.Text(), nullable=True),
        sa.Column("anchor", sa.BigInteger(), nullable=True),
        sa.ForeignKeyConstraint(["anchor"], ["anchors.number"], name=op.f("fk_ledger_heads_anchor")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_ledger_heads_run_id")),
        sa.PrimaryKeyConstraint("run_id", "seq", name=op.f("pk_ledger_heads")),
    )
    op.create_index(
        "ix_ledger_heads_unanchored", "ledger_heads", ["at"], postgresql_where=sa.text("anchor IS NULL")
    )
    op.create_table(
        "redactions",
        sa.Column("run_id", sa.Text(), nullable=False),
        sa.Column("digest", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(["digest"], ["payloads.digest"], name=op.f("fk_redactions_digest")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.run_id"], name=op.f("fk_redactions_run_id")),
        sa.PrimaryKeyConstraint("run_id", "digest", name=op.f("pk_redactions")),
    )
    op.execute(_FUNCTIONS)
    for table in (*_APPEND_ONLY, *_KEPT):
        what = "UPDATE OR DELETE OR TRUNCATE" if table in _APPEND_ONLY else "DELETE OR TRUNCATE"
        op.execute(
            f"CREATE TRIGGER refuse_change BEFORE {what} ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()"
        )
    op.execute(
        "CREATE TRIGGER guard_payload BEFORE UPDATE ON payloads FOR EACH ROW EXECUTE FUNCTION guard_payload()"
    )
    op.execute(
        "CREATE TRIGGER revive_payload BEFORE INSERT ON payloads FOR EACH ROW "
        "WHEN (NEW.body IS NOT NULL) EXECUTE FUNCTION revive_payload()"
    )
    op.execute(
        "CREATE TRIGGER guard_head BEFORE UPDATE ON ledger_heads FOR EACH ROW EXECUTE FUNCTION guard_head()"
    )


def downgrade() -> None:
    for name, table in (
        ("guard_head", "ledger_heads"),
        ("revive_payload", "payloads"),
        ("guard_payload", "payloads"),
        *(("refuse_change", table) for table in (*_APPEND_ONLY, *_KEPT)),
    ):
        op.execute(f"DROP TRIGGER {name} ON {table}")
    op.execute("DROP FUNCTION drop_payload_bodies(text[], timestamptz, text)")
    for function in ("guard_head", "revive_payload", "guard_payload", "refuse_change"):
        op.execute(f"DROP FUNCTION {function}()")
    op.drop_table("redactions")
    op.drop_table("ledger_heads")
    op.drop_table("anchors")
    op.drop_column("calls", "attempt")
    op.drop_column("payloads", "dropped_why")
    op.drop_column("payloads", "dropped_at")
