"""The tables. Every text a model or a user wrote lives in `payloads` under its SHA-256; the other tables hold
ids, states, numbers and digests. `migrations/` builds them; a test holds the two together."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Computed,
    Float,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Integer,
    LargeBinary,
    Numeric,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from workers.provenance import access_models, schema, scoring_models  # noqa: F401 - their tables join the same schema

metadata, TIME = schema.metadata, schema.TIME

#: The tenant of an installation that has only one.
DEFAULT_TENANT = "default"


_USD = Numeric(12, 6)


def _late(target: str) -> ForeignKey:
    """Checked at commit: the ledger writes the payload after the row that names it, in the same transaction."""
    return ForeignKey(target, deferrable=True, initially="DEFERRED")


tenants = Table(
    "tenants",
    metadata,
    Column("tenant_id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("created_at", TIME, nullable=False, server_default=text("now()")),
)

payloads = Table(
    "payloads",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("body", LargeBinary, nullable=True),  # null once dropped: the chain holds digests only
    Column("size_bytes", Integer, nullable=False),
    Column("created_at", TIME, nullable=False, server_default=text("now()")),
    Column("redacted_at", TIME),
    # When and why the body went, for all runs that name it; `drop_payload_bodies` writes them.
    Column("dropped_at", TIME),
    Column("dropped_why", Text),
)

#: Many runs, submitted as one. Its runs wait in the database until the dispatcher sends them.
batches = Table(
    "batches",
    metadata,
    Column("batch_id", Text, primary_key=True),
    Column("tenant_id", Text, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("name", Text),
    Column("state", Text, nullable=False),
    Column("pause_cause", Text),  # user | budget; null unless paused
    Column("priority", SmallInteger, nullable=False, server_default="0"),
    Column("concurrency", Integer),  # most of its runs under way at once; null: no such limit
    Column("budget_usd", _USD),
    Column("budget_tokens", BigInteger),
    Column("run_count", Integer, nullable=False),
    Column("duplicate_count", Integer, nullable=False, server_default="0"),
    Column("skipped_count", Integer, nullable=False, server_default="0"),
    Column("skipped", JSONB, nullable=False, server_default=text("'[]'::jsonb")),  # the first of them
    Column("webhook_url", Text),
    Column("idempotency_key", Text),
    Column("request_digest", Text, nullable=False),
    Column("created_at", TIME, nullable=False, server_default=text("now()")),
    Column("started_at", TIME),  # its first run was sent
    Column("dispatched_at", TIME),  # the latest of its runs was sent
    # Kept where there is a budget: what those of its runs have used that have ended. The calls of the others are
    # summed when a call is to be reserved.
    Column("spent_usd", Numeric(18, 6), nullable=False, server_default="0"),
    Column("spent_tokens", BigInteger, nullable=False, server_default="0"),
    # Nothing of it is left to be done; a cancelled batch has a while to go until all its runs are.
    Column("finished_at", TIME),
    UniqueConstraint("tenant_id", "idempotency_key"),
)
Index("ix_batches_listing", batches.c.tenant_id, batches.c.batch_id.desc())
Index("ix_batches_open", batches.c.priority, postgresql_where=text("finished_at IS NULL"))

runs = Table(
    "runs",
    metadata,
    Column("run_id", Text, primary_key=True),
    Column("tenant_id", Text, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("batch_id", Text, ForeignKey("batches.batch_id")),
    Column("position", Integer),  # its line in the batch, from 1
    Column("external_id", Text),
    Column("team", Text, nullable=False),
    Column("team_digest", Text, ForeignKey("payloads.digest"), nullable=False),
    Column("input_digest", Text, ForeignKey("payloads.digest"), nullable=False),
    Column("state", Text, nullable=False),
    Column("outcome", Text),
    Column("round", SmallInteger, nullable=False, server_default="1"),
    Column("priority", SmallInteger, nullable=False, server_default="0"),
    Column("is_simulated", Boolean, nullable=False, server_default=text("false")),
    Column("budget_usd", _USD),  # null: no such limit
    Column("budget_tokens", BigInteger),
    # What one attempt of the lead may cost, kept from everyone else.
    Column("lead_share_usd", _USD),
    Column("lead_share_tokens", Integer, nullable=False, server_default="0"),
    Column("metadata", JSONB, nullable=False, server_default=text("'{}'::jsonb")),
    Column("idempotency_key", Text),
    Column("request_digest", Text, nullable=False),
    Column("verdict_digest", Text, _late("payloads.digest")),
    Column("ledger_seq", Integer, nullable=False, server_default="0"),
    Column("ledger_head", Text, nullable=False),
    Column("webhook_url", Text),
    Column("created_at", TIME, nullable=False, server_default=text("now()")),
    # When its first message was sent; null: it waits in the database for the dispatcher.
    Column("dispatched_at", TIME),
    Column("started_at", TIME),
    Column("finished_at", TIME),
    # Since when the bodies that no other run needs are gone (retention).
    Column("pruned_at", TIME),
    UniqueConstraint("tenant_id", "idempotency_key"),
)
Index(
    "ix_runs_prunable",
    runs.c.finished_at,
    runs.c.run_id,
    postgresql_where=text("finished_at IS NOT NULL AND pruned_at IS NULL"),
)
Index("ix_runs_input", runs.c.input_digest)
Index("ix_runs_listing", runs.c.tenant_id, runs.c.run_id.desc())
Index(
    "ix_runs_open",
    runs.c.created_at,
    postgresql_where=text("state IN ('queued', 'running') AND dispatched_at IS NOT NULL"),
)
Index("ix_runs_batch", runs.c.batch_id, runs.c.state, runs.c.outcome)
Index(
    "ix_runs_waiting",
    runs.c.batch_id,
    runs.c.priority,
    runs.c.position,
    postgresql_where=text("state = 'queued' AND dispatched_at IS NULL"),
)
#: Metrics ask every few seconds what has ended since.
Index("ix_runs_ended", runs.c.finished_at, postgresql_where=text("finished_at IS NOT NULL"))
#: A line that says the same as an earlier one of its batch runs once; an own id names one run of its batch.
Index(
    "uq_runs_batch_request",
    runs.c.batch_id,
    runs.c.request_digest,
    unique=True,
    postgresql_where=text("batch_id IS NOT NULL"),
)
Index(
    "uq_runs_batch_external_id",
    runs.c.batch_id,
    runs.c.external_id,
    unique=True,
    postgresql_where=text("batch_id IS NOT NULL"),
)
#: Results are read in the order of the lines, page by page.
Index(
    "uq_runs_batch_position",
    runs.c.batch_id,
    runs.c.position,
    unique=True,
    postgresql_where=text("batch_id IS NOT NULL"),
)

stages = Table(
    "stages",
    metadata,
    Column("run_id", Text, ForeignKey("runs.run_id", ondelete="CASCADE"), primary_key=True),
    Column("round", SmallInteger, primary_key=True),
    Column("stage", Text, primary_key=True),
    Column("seat", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("link", SmallInteger, nullable=False, server_default="0"),  # place in the seat's model chain
    Column("attempts", SmallInteger, nullable=False, server_default="0"),  # requests sent on that link
    Column("deliveries", SmallInteger, nullable=False, server_default="0"),
    Column("rescues", SmallInteger, nullable=False, server_default="0"),
    Column("owner", Text),
    Column("lease_expires_at", TIME),
    Column("not_before", TIME),
    Column("enqueued_at", TIME, nullable=False, server_default=text("now()")),
    Column("started_at", TIME),
    Column("finished_at", TIME),
    Column("cause", Text),
    Column("detail", Text),
    Column("result_digest", Text, _late("payloads.digest")),
)
Index("ix_stages_pending", stages.c.enqueued_at, postgresql_where=text("state = 'pending'"))
Index("ix_stages_running", stages.c.lease_expires_at, postgresql_where=text("state = 'running'"))
Index("ix_stages_ended", stages.c.finished_at, postgresql_where=text("finished_at IS NOT NULL"))

calls = Table(
    "calls",
    metadata,
    Column("call_id", Text, primary_key=True),
    Column("run_id", Text, nullable=False),
    Column("round", SmallInteger, nullable=False),
    Column("stage", Text, nullable=False),
    Column("seat", Text, nullable=False),
    Column("pass_number", SmallInteger, nullable=False, server_default="1"),
    Column("link", SmallInteger, nullable=False),
    Column(
        "attempt", SmallInteger, nullable=False, server_default="1"
    ),  # its first request's number on the link
    Column("provider", Text, nullable=False),
    Column("model_asked", Text, nullable=False),
    Column("model_served", Text),
    Column("family", Text, nullable=False),
    Column("state", Text, nullable=False),  # sent | done | failed | orphaned
    Column("http_requests", SmallInteger, nullable=False, server_default="1"),
    Column("request_digest", Text, ForeignKey("payloads.digest"), nullable=False),
    Column("reply_digest", Text, ForeignKey("payloads.digest")),
    Column("input_tokens", Integer, nullable=False, server_default="0"),
    Column("output_tokens", Integer, nullable=False, server_default="0"),
    Column("cached_input_tokens", Integer, nullable=False, server_default="0"),
    Column("cache_write_input_tokens", Integer, nullable=False, server_default="0"),
    Column("usage_is_estimated", Boolean, nullable=False, server_default=text("false")),
    Column("cost_usd", _USD),  # null: no price is known
    # The worst case of all its requests together: what a budget holds back until the call has ended.
    Column("reserved_input_tokens", Integer, nullable=False, server_default="0"),
    Column("reserved_output_tokens", Integer, nullable=False, server_default="0"),
    Column("reserved_usd", _USD),
    Column("rung", SmallInteger),
    Column("finish_reason", Text),
    Column("error_kind", Text),
    Column("error", Text),
    Column("is_simulated", Boolean, nullable=False, server_default=text("false")),
    Column("sent_at", TIME, nullable=False, server_default=text("now()")),
    Column("ended_at", TIME),
    Column("duration_seconds", Float),
    ForeignKeyConstraint(
        ["run_id", "round", "stage", "seat"],
        ["stages.run_id", "stages.round", "stages.stage", "stages.seat"],
        ondelete="CASCADE",
    ),
)
Index("ix_calls_request", calls.c.request_digest)
Index("ix_calls_reply", calls.c.reply_digest)
Index("ix_calls_seat", calls.c.run_id, calls.c.round, calls.c.stage, calls.c.seat)
Index(
    "ix_calls_ended",
    calls.c.ended_at,
    postgresql_using="brin",
    postgresql_with={"autosummarize": "on", "pages_per_range": 32},
)

events = Table(
    "events",
    metadata,
    Column("run_id", Text, ForeignKey("runs.run_id"), primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("at", TIME, nullable=False),
    Column("payload_digest", Text, ForeignKey("payloads.digest"), nullable=False),
    Column("previous_hash", Text, nullable=False),
    Column("hash", Text, nullable=False),
)
Index("ix_events_payload", events.c.payload_digest)

#: What was exported of the heads, in the words that were exported. A chain of its own.
anchors = Table(
    "anchors",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("at", TIME, nullable=False),
    Column("body", LargeBinary, nullable=False),
)

#: Where a ledger stood when its run ended, and whenever it grew after that: a ledger that is shorter was cut off.
ledger_heads = Table(
    "ledger_heads",
    metadata,
    Column("run_id", Text, ForeignKey("runs.run_id"), primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("head", Text, nullable=False),
    Column("at", TIME, nullable=False),
    Column("key_id", Text),  # null: no key was set, so that it is not signed
    Column("signature", Text),
    Column("anchor", BigInteger, ForeignKey("anchors.number")),  # null: not exported yet
)
Index("ix_ledger_heads_unanchored", ledger_heads.c.at, postgresql_where=text("anchor IS NULL"))

#: Payloads that a run shows no more, though others may still hold them.
redactions = Table(
    "redactions",
    metadata,
    Column("run_id", Text, ForeignKey("runs.run_id"), primary_key=True),
    Column("digest", Text, ForeignKey("payloads.digest"), primary_key=True),
    Column("at", TIME, nullable=False),
)

#: How the findings of a model ended at the gate, a row for each submission of a tenant: what weights are earned by.
gate_records = Table(
    "gate_records",
    metadata,
    Column("tenant_id", Text, ForeignKey("tenants.tenant_id"), primary_key=True),
    Column("model", Text, primary_key=True),  # without its provider
    Column("input_digest", Text, primary_key=True),  # the same submission again teaches nothing new
    Column("run_id", Text, nullable=False),  # no foreign key: a record outlives the run that it is from
    Column("upheld", SmallInteger, nullable=False),
    Column("refuted", SmallInteger, nullable=False),
    Column("ended_at", TIME, nullable=False, server_default=text("now()")),
)
Index(
    "ix_gate_records_newest",
    gate_records.c.tenant_id,
    gate_records.c.model,
    gate_records.c.ended_at.desc(),
)

#: How a provider's key is doing, for all workers. `until`: when to look again by itself.
provider_states = Table(
    "provider_states",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("key_digest", Text, primary_key=True),
    Column("state", Text, nullable=False),
    Column("reason", Text),
    Column("since", TIME, nullable=False, server_default=text("now()")),
    Column("until", TIME),
    Column("updated_at", TIME, nullable=False, server_default=text("now()")),
)

#: What an operator set instead of a provider's own limits; null: no such limit.
limits = Table(
    "limits",
    metadata,
    Column("provider", Text, primary_key=True),
    Column("family", Text, primary_key=True),
    Column("requests_per_minute", Float),
    Column("input_tokens_per_minute", Float),
    Column("output_tokens_per_minute", Float),
    Column("requests_per_day", Integer),
    Column("concurrency", Integer),
    Column("updated_at", TIME, nullable=False, server_default=text("now()")),
)

#: As PostgreSQL prints it, so that models and migrations can be compared.
RECEIVER_OF_URL = "lower(substring(url, '://([^/?#]*)'::text))"

#: What is to be told to somebody's URL when a run or a batch has ended.
webhook_deliveries = Table(
    "webhook_deliveries",
    metadata,
    Column("delivery_id", Text, primary_key=True),  # also the receiver's means to recognise a repeat
    Column("tenant_id", Text, ForeignKey("tenants.tenant_id"), nullable=False),
    Column("run_id", Text, ForeignKey("runs.run_id")),
    Column("batch_id", Text, ForeignKey("batches.batch_id")),
    Column("event", Text, nullable=False),
    Column("url", Text, nullable=False),
    # Host and port, so that receivers can take turns.
    Column("receiver", Text, Computed(RECEIVER_OF_URL, persisted=True)),
    Column("state", Text, nullable=False),  # pending | delivered | failed
    Column("attempts", SmallInteger, nullable=False, server_default="0"),
    Column("next_at", TIME, nullable=False, server_default=text("now()")),
    Column("lease_expires_at", TIME),
    Column("last_status", SmallInteger),
    Column("last_error", Text),
    Column("created_at", TIME, nullable=False, server_default=text("now()")),
    Column("ended_at", TIME),
    UniqueConstraint("run_id", "event"),
    UniqueConstraint("batch_id", "event"),
)
Index(
    "ix_webhook_deliveries_due",
    webhook_deliveries.c.receiver,
    webhook_deliveries.c.next_at,
    webhook_deliveries.c.delivery_id,
    postgresql_where=text("state = 'pending'"),
)
Index(
    "ix_webhook_deliveries_leased",
    webhook_deliveries.c.lease_expires_at,
    postgresql_where=text("lease_expires_at IS NOT NULL"),
)
