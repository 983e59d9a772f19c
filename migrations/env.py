"""Alembic's entry: runs on the connection that `workers.provenance.migrate` hands over."""

from __future__ import annotations

from alembic import context

from workers.provenance.models import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transaction_per_migration=True,
)
with context.begin_transaction():
    context.run_migrations()
