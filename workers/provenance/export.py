"""A run's whole record as one file, which can be verified without a database (`check.py`).

The file is one canonical JSON object (`digest.canonical`) and a line feed: there is one way to write one record, so
that any other byte is noticed. Its parts: `run` (facts of the run's row), `events` (the ledger), `calls`, `heads` (with
signatures), `keys` (public halves of the exporter's), `payloads` (bodies by digest, once each), `dropped` (those that
are gone, with when and why), `sealed_by` (a key) and `seal` (the digest of all the rest, signed with that key)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import Connection, select, text

from workers.errors import InputError
from workers.provenance import heads, ledger
from workers.provenance.digest import canonical, digest
from workers.provenance.ledger import Event, stamp
from workers.provenance.models import payloads, redactions
from workers.provenance.repository import call_records
from workers.provenance.repository.runs import Run
from workers.provenance.signing import EXPORT, Signer, public_text

FORMAT = "consensus-provenance/1"
#: More than any run writes.
MOST_EVENTS = 1_000_000

Document = dict[str, Any]


def snapshot(connection: Connection) -> None:
    """Everything that this transaction reads from now on is of one moment; to be called before its first query."""
    connection.execute(text("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"))


def document_of(connection: Connection, run: Run, *, signer: Signer | None = None) -> Document:
    """The run's record. `signer` seals it; whoever reads the file trusts the key and not us."""
    entries = ledger.read(connection, run.run_id, limit=MOST_EVENTS)
    calls = call_records.of_runs(connection, [run.run_id]).get(run.run_id, [])
    needed = {run.team_digest, run.input_digest, *(entry.payload_digest for entry in entries)}
    needed |= {call[name] for call in calls for name in ("request_digest", "reply_digest") if call[name]}
    bodies, dropped = _bodies(connection, run.run_id, needed)
    document: Document = {
        "format": FORMAT,
        "run": {
            "run_id": run.run_id,
            "tenant": run.tenant_id,
            "team": run.team,
            "external_id": run.external_id,
            "state": run.state.value,
            "outcome": None if run.outcome is None else run.outcome.value,
            "team_digest": run.team_digest,
            "input_digest": run.input_digest,
            "verdict_digest": run.verdict_digest,
            "round": run.round,
            "is_simulated": run.is_simulated,
            "seq": run.ledger_seq,
            "head": run.ledger_head,
        },
        "events": [event_data(entry) for entry in entries],
        "calls": calls,
        "heads": [_head_data(head) for head in heads.of_run(connection, run.run_id)],
        "keys": {}
        if signer is None
        else {key: public_text(public) for key, public in signer.trusted.items()},
        "payloads": bodies,
        "dropped": dropped,
        "sealed_by": None if signer is None else signer.key_id,
    }
    return {**document, "seal": _seal(document, signer)}


def _bodies(
    connection: Connection, run_id: str, needed: Iterable[str]
) -> tuple[dict[str, str], dict[str, dict[str, str | None]]]:
    """Bodies as text, and what is known of those that are gone: for everybody, or from this run."""
    rows = connection.execute(
        select(payloads, redactions.c.at.label("hidden_at"))
        .outerjoin(redactions, (redactions.c.digest == payloads.c.digest) & (redactions.c.run_id == run_id))
        .where(payloads.c.digest.in_(sorted(needed)))
    )
    bodies: dict[str, str] = {}
    dropped: dict[str, dict[str, str | None]] = {}
    for row in rows:
        if row.hidden_at is not None:
            dropped[row.digest] = {"at": stamp(row.hidden_at), "why": "redacted"}
        elif row.body is None:
            at = None if row.dropped_at is None else stamp(row.dropped_at)
            dropped[row.digest] = {"at": at, "why": row.dropped_why}
        else:
            # What somebody changed into no text at all is shown as well as it can be; its digest tells.
            bodies[row.digest] = row.body.decode("utf-8", errors="replace")
    return bodies, dropped


def event_data(entry: Event) -> dict[str, Any]:
    """An event without its payload, which stands under its digest."""
    return {
        "seq": entry.seq,
        "kind": entry.kind,
        "at": stamp(entry.at),
        "payload_digest": entry.payload_digest,
        "previous_hash": entry.previous_hash,
        "hash": entry.hash,
    }


def _head_data(head: heads.Head) -> dict[str, Any]:
    signature = None if head.signature is None else dataclasses.asdict(head.signature)
    return {"seq": head.seq, "head": head.head, "signature": signature}


def sealed_digest(document: Mapping[str, Any]) -> str:
    """The digest of all parts but the seal."""
    return digest(canonical({key: value for key, value in document.items() if key != "seal"}))


def _seal(document: Mapping[str, Any], signer: Signer | None) -> dict[str, Any]:
    found = sealed_digest(document)
    signature = None if signer is None else dataclasses.asdict(signer.sign(EXPORT, {"digest": found}))
    return {"digest": found, "signature": signature}


def file_of(document: Document) -> bytes:
    """The bytes of the file."""
    return canonical(document) + b"\n"


def read_file(raw: bytes, *, name: str) -> Document:
    """The record in a file, unchecked. Raises: InputError for what is no export."""
    try:
        document = json.loads(raw)
    except (ValueError, RecursionError):
        raise InputError(f"{name}: is no JSON; give what `consensus provenance export` wrote") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(
            f'{name}: is no export of a run (its "format" is not "{FORMAT}"); '
            "give what `consensus provenance export` wrote"
        )
    return document


def replayable(document: Mapping[str, Any]) -> Document:
    """The record in the form of `GET /v1/runs/{id}/provenance`, from which a verdict can be computed again.

    Raises: KeyError, TypeError, ValueError for what is no export.
    """

    def value(key: str) -> Any:
        body = document["payloads"].get(key)
        return None if body is None else json.loads(body)

    run = document["run"]
    return {
        "run_id": run["run_id"],
        "head": run["head"],
        "team": value(run["team_digest"]),
        "events": [{**item, "payload": value(item["payload_digest"])} for item in document["events"]],
    }
