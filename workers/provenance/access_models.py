"""The tables of who may come in. No secret is in them, only digests of secrets."""

from __future__ import annotations

from sqlalchemy import Column, ForeignKey, Index, Integer, Table, Text, text

from workers.provenance.schema import TIME, metadata

api_keys = Table(
    "api_keys",
    metadata,
    Column("key_id", Text, primary_key=True),  # the part of the key that is looked up
    Column("tenant_id", Text, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("name", Text, nullable=False),
    Column("scope", Text, nullable=False),  # read | submit | admin
    Column("secret_digest", Text, nullable=False),
    Column("requests_per_minute", Integer),  # null: no such limit
    # What the key has asked for is paid for until then; null: it never asked.
    Column("paid_until", TIME),
    Column("created_at", TIME, nullable=False, server_default=text("now()")),
    Column("expires_at", TIME),
    Column("revoked_at", TIME),
    Column("last_used_at", TIME),  # to the minute
    Column("replaced_by", Text, ForeignKey("api_keys.key_id")),
)

#: Browsers that have shown a key.
web_sessions = Table(
    "web_sessions",
    metadata,
    Column("session_digest", Text, primary_key=True),
    Column("key_id", Text, ForeignKey("api_keys.key_id", ondelete="CASCADE"), nullable=False),
    Column("created_at", TIME, nullable=False, server_default=text("now()")),
    Column("expires_at", TIME, nullable=False),
)
Index("ix_web_sessions_expires_at", web_sessions.c.expires_at)
