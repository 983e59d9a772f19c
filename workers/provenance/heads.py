"""Where ledgers stood when their runs ended: on record beside the chain, signed where there is a key.

Whoever cuts off the end of a chain and mends the run's row has these rows against him; whoever removes them too has the
anchors (`anchor.py`) against him, which lie elsewhere."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.dialects.postgresql import insert

from workers.provenance.models import ledger_heads
from workers.provenance.signing import HEAD, Signature, Signer

#: Events that end a run or come after its end: behind each of them the new head goes on record.
HEAD_KINDS = frozenset({"run.finished", "run.cancelled", "payload.redacted", "call.ended_late"})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """A ledger's last hash after `seq` events. `signature` is None where no key was set."""

    run_id: str
    seq: int
    head: str
    signature: Signature | None = None


def head_data(run_id: str, seq: int, head: str) -> dict[str, Any]:
    """What is signed of a head."""
    return {"run": run_id, "seq": seq, "head": head}


def note(connection: Connection, reached: Sequence[tuple[str, int, str]], *, at: dt.datetime) -> None:
    """Put (run, number of events, hash) on record, signed by the database's signer if it has one
    (`Database.sign_with`)."""
    signer: Signer | None = connection.get_execution_options().get("signer")
    rows = []
    for run_id, seq, head in reached:
        signature = None if signer is None else signer.sign(HEAD, head_data(run_id, seq, head))
        rows.append(
            {
                "run_id": run_id,
                "seq": seq,
                "head": head,
                "at": at,
                "key_id": None if signature is None else signature.key_id,
                "signature": None if signature is None else signature.value,
            }
        )
    connection.execute(insert(ledger_heads), rows)


def of_run(connection: Connection, run_id: str) -> list[Head]:
    """The heads on record, in order."""
    rows = connection.execute(
        select(ledger_heads).where(ledger_heads.c.run_id == run_id).order_by(ledger_heads.c.seq)
    )
    return [
        Head(
            run_id=row.run_id,
            seq=row.seq,
            head=row.head,
            signature=None if row.key_id is None else Signature(key_id=row.key_id, value=row.signature or ""),
        )
        for row in rows
    ]
