"""A batch as one page shows it, wherever it is asked for."""

from __future__ import annotations

from sqlalchemy import Connection

from api.batch_schemas import BatchDetail
from api.dependencies import Services
from workers.core.batch import BatchState
from workers.governor.accounts import Outlook, outlook
from workers.provenance.repository import accounts, batches
from workers.provenance.repository.batches import Batch


def detail_of(connection: Connection, batch: Batch, services: Services) -> BatchDetail:
    return BatchDetail.of_parts(
        batch,
        batches.progress(connection, batch.batch_id),
        failures=batches.failures(connection, batch.batch_id),
        spending=batches.spending(connection, batch.batch_id),
        skipped_lines=batches.skipped_lines(connection, batch.batch_id),
        waiting=_waiting(connection, batch, services),
    )


def _waiting(connection: Connection, batch: Batch, services: Services) -> str | None:
    """What the dispatcher waits for; it looks at the same rows (`stages.dispatch`)."""
    if batch.state is not BatchState.RUNNING:
        return None
    own = {(name, config.key_digest) for name, config in services.enabled().items()}
    states = [word.state for word in accounts.published(connection)]
    return "providers" if outlook(states, own) is Outlook.AWAY else None
