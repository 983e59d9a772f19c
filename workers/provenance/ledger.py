"""The ledger: what happened to a run, in order, each event hashed over the one before (DESIGN §3).

Writing goes through `writer`, which locks the run's row: events of a run are numbered without gaps, and
whatever else the transaction writes is serialised with them. That lock is also what makes "the last seat
to end opens the next stage" exact."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, Row, and_, bindparam, case, select, text

from workers.core.run import RunState
from workers.errors import NotFoundError
from workers.provenance import heads, payload
from workers.provenance.digest import GENESIS, canonical, chain_hash, digest
from workers.provenance.models import events, payloads, redactions, runs

#: PostgreSQL channel on which a committed event is announced; the message is the run's id.
CHANNEL = "consensus_events"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One entry as readers see it. `payload` is None once redacted."""

    run_id: str
    seq: int
    kind: str
    at: dt.datetime
    payload: Any
    payload_digest: str
    previous_hash: str
    hash: str


@dataclasses.dataclass(slots=True, kw_only=True)
class Writer:
    """The locked run and the events to be written when the block ends."""

    run_id: str
    state: RunState
    round: int
    priority: int
    team_digest: str
    input_digest: str
    #: None: somebody waits for this one run.
    batch_id: str | None
    seq: int
    head: str
    pending: list[tuple[str, dt.datetime, Mapping[str, Any]]] = dataclasses.field(default_factory=list)

    def append(self, kind: str, value: Mapping[str, Any], *, at: dt.datetime) -> str:
        """Add an event; the digest under which its payload will stand."""
        self.pending.append((kind, at, value))
        return digest(canonical(value))


_LOCK = (
    select(
        runs.c.state,
        runs.c.round,
        runs.c.priority,
        runs.c.team_digest,
        runs.c.input_digest,
        runs.c.batch_id,
        runs.c.ledger_seq,
        runs.c.ledger_head,
    )
    .where(runs.c.run_id == bindparam("run_id"))
    .with_for_update()
)


@contextmanager
def writer(connection: Connection, run_id: str) -> Iterator[Writer]:
    """Lock the run and collect events; they are chained and written when the block ends well.

    Raises: NotFoundError if there is no such run.
    """
    row = connection.execute(_LOCK, {"run_id": run_id}).one_or_none()
    if row is None:
        raise NotFoundError(f"there is no run {run_id!r}")
    held = Writer(
        run_id=run_id,
        state=RunState(row.state),
        round=row.round,
        priority=row.priority,
        team_digest=row.team_digest,
        input_digest=row.input_digest,
        batch_id=row.batch_id,
        seq=row.ledger_seq,
        head=row.ledger_head,
    )
    yield held
    flush(connection, held)


def flush(connection: Connection, held: Writer) -> None:
    """Chain and write what was appended so far: whoever wants to read it in the same transaction."""
    if held.pending:
        _flush(connection, held)


#: Payloads, events, the run's new head and the announcement in one round trip: a run writes some thirty events.
_FLUSH = text(
    """
    WITH bodies AS (
        INSERT INTO payloads (digest, body, size_bytes)
        SELECT DISTINCT ON (digest) digest, body, octet_length(body)
        FROM unnest(CAST(:digests AS text[]), CAST(:bodies AS bytea[])) AS given (digest, body)
        ORDER BY digest
        ON CONFLICT DO NOTHING
    ), entries AS (
        INSERT INTO events (run_id, seq, kind, at, payload_digest, previous_hash, hash)
        SELECT :run_id, seq, kind, at, payload_digest, previous_hash, hash
        FROM unnest(
            CAST(:seqs AS integer[]), CAST(:kinds AS text[]), CAST(:times AS timestamptz[]),
            CAST(:digests AS text[]), CAST(:previous AS text[]), CAST(:hashes AS text[])
        ) AS given (seq, kind, at, payload_digest, previous_hash, hash)
    ), head AS (
        UPDATE runs
        SET ledger_seq = :seq, ledger_head = :head, is_simulated = is_simulated OR :simulated
        WHERE run_id = :run_id
    )
    SELECT pg_notify(:channel, :run_id)
    """
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Link:
    """An event with its place in the chain, about to be written."""

    run_id: str
    seq: int
    kind: str
    at: dt.datetime
    body: bytes
    payload_digest: str
    previous_hash: str
    hash: str


def _chain(
    run_id: str, seq: int, head: str, pending: Sequence[tuple[str, dt.datetime, Mapping[str, Any]]]
) -> list[_Link]:
    """The next events of a ledger that has `seq` of them and this head."""
    links: list[_Link] = []
    for number, (kind, at, value) in enumerate(pending, start=seq + 1):
        body = canonical(value)
        key = digest(body)
        previous = links[-1].hash if links else head
        own = chain_hash(
            run_id=run_id, seq=number, kind=kind, at=stamp(at), payload_digest=key, previous_hash=previous
        )
        links.append(
            _Link(
                run_id=run_id,
                seq=number,
                kind=kind,
                at=at,
                body=body,
                payload_digest=key,
                previous_hash=previous,
                hash=own,
            )
        )
    return links


def _flush(connection: Connection, held: Writer) -> None:
    links = _chain(held.run_id, held.seq, held.head, held.pending)
    last = links[-1]
    connection.execute(
        _FLUSH,
        {
            "run_id": held.run_id,
            "digests": [link.payload_digest for link in links],
            "bodies": [link.body for link in links],
            "seqs": [link.seq for link in links],
            "kinds": [link.kind for link in links],
            "times": [link.at for link in links],
            "previous": [link.previous_hash for link in links],
            "hashes": [link.hash for link in links],
            "seq": last.seq,
            "head": last.hash,
            # Read from the replies themselves: whatever a stage writes says whether a simulated one was used.
            "simulated": any(value.get("simulated") is True for _, _, value in held.pending),
            "channel": CHANNEL,
        },
    )
    if any(link.kind in heads.HEAD_KINDS for link in links):
        heads.note(connection, [(held.run_id, last.seq, last.hash)], at=last.at)
    held.seq, held.head = last.seq, last.hash
    held.pending.clear()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class FirstEntry:
    """The first entry of a ledger that is not in the database yet. `hash` is the head of the new run."""

    run_id: str
    kind: str
    at: dt.datetime
    body: bytes
    payload_digest: str
    hash: str


def first_entry(run_id: str, kind: str, value: Mapping[str, Any], *, at: dt.datetime) -> FirstEntry:
    """Pure: chained to the genesis as `writer` would."""
    body = canonical(value)
    key = digest(body)
    head = chain_hash(
        run_id=run_id, seq=1, kind=kind, at=stamp(at), payload_digest=key, previous_hash=GENESIS
    )
    return FirstEntry(run_id=run_id, kind=kind, at=at, body=body, payload_digest=key, hash=head)


_OPEN = text(
    """
    INSERT INTO events (run_id, seq, kind, at, payload_digest, previous_hash, hash)
    SELECT run_id, 1, kind, at, payload_digest, :genesis, hash
    FROM unnest(
        CAST(:run_ids AS text[]), CAST(:kinds AS text[]), CAST(:times AS timestamptz[]),
        CAST(:digests AS text[]), CAST(:hashes AS text[])
    ) AS given (run_id, kind, at, payload_digest, hash)
    """
)


def open_all(connection: Connection, entries: Sequence[FirstEntry]) -> None:
    """Write the first entries of many new runs, whose rows say `ledger_seq` 1 and the entry's hash as their head.

    Nothing is announced: nobody can be listening to a run whose id is not known yet.
    """
    payload.store_bodies(connection, {entry.payload_digest: entry.body for entry in entries})
    connection.execute(
        _OPEN,
        {
            "genesis": GENESIS,
            "run_ids": [entry.run_id for entry in entries],
            "kinds": [entry.kind for entry in entries],
            "times": [entry.at for entry in entries],
            "digests": [entry.payload_digest for entry in entries],
            "hashes": [entry.hash for entry in entries],
        },
    )


_APPEND_MANY = text(
    """
    WITH bodies AS (
        INSERT INTO payloads (digest, body, size_bytes)
        SELECT DISTINCT ON (digest) digest, body, octet_length(body)
        FROM unnest(CAST(:digests AS text[]), CAST(:bodies AS bytea[])) AS given (digest, body)
        ORDER BY digest
        ON CONFLICT DO NOTHING
    ), entries AS (
        INSERT INTO events (run_id, seq, kind, at, payload_digest, previous_hash, hash)
        SELECT run_id, seq, kind, CAST(:at AS timestamptz), payload_digest, previous_hash, hash
        FROM unnest(
            CAST(:run_ids AS text[]), CAST(:seqs AS integer[]), CAST(:kinds AS text[]),
            CAST(:digests AS text[]), CAST(:previous AS text[]), CAST(:hashes AS text[])
        ) AS given (run_id, seq, kind, payload_digest, previous_hash, hash)
    ), heads AS (
        UPDATE runs SET ledger_seq = given.seq, ledger_head = given.hash
        FROM unnest(
            CAST(:head_ids AS text[]), CAST(:head_seqs AS integer[]), CAST(:head_hashes AS text[])
        ) AS given (run_id, seq, hash)
        WHERE runs.run_id = given.run_id
    )
    SELECT pg_notify(:channel, run_id) FROM unnest(CAST(:head_ids AS text[])) AS given (run_id)
    """
)


def append_to_many(
    connection: Connection,
    locked: Sequence[tuple[str, int, str]],
    entries: Mapping[str, Sequence[tuple[str, Mapping[str, Any]]]],
    *,
    at: dt.datetime,
) -> None:
    """Events (kind, payload) for many runs, the last of which ends its run, in one statement. `locked`: each run's id,
    last number and head, from rows that the caller has locked as `writer` does."""
    chained = [
        link
        for run_id, seq, head in locked
        for link in _chain(run_id, seq, head, [(kind, at, value) for kind, value in entries[run_id]])
    ]
    ends = {link.run_id: (link.run_id, link.seq, link.hash) for link in chained}
    connection.execute(
        _APPEND_MANY,
        {
            "at": at,
            "channel": CHANNEL,
            "run_ids": [link.run_id for link in chained],
            "seqs": [link.seq for link in chained],
            "kinds": [link.kind for link in chained],
            "digests": [link.payload_digest for link in chained],
            "bodies": [link.body for link in chained],
            "previous": [link.previous_hash for link in chained],
            "hashes": [link.hash for link in chained],
            "head_ids": [run_id for run_id, _, _ in ends.values()],
            "head_seqs": [seq for _, seq, _ in ends.values()],
            "head_hashes": [head for _, _, head in ends.values()],
        },
    )
    heads.note(connection, list(ends.values()), at=at)


def stamp(at: dt.datetime) -> str:
    """ISO 8601 in UTC with microseconds: what PostgreSQL gives back, so the hash can be recomputed."""
    return at.astimezone(dt.UTC).isoformat(timespec="microseconds")


def read(connection: Connection, run_id: str, *, after: int = 0, limit: int = 1000) -> list[Event]:
    """Events of a run with a number above `after`, in order."""
    rows = connection.execute(
        select(events, case((redactions.c.digest.is_(None), payloads.c.body)).label("body"))
        .join(payloads, payloads.c.digest == events.c.payload_digest)
        .outerjoin(
            redactions,
            and_(redactions.c.run_id == events.c.run_id, redactions.c.digest == events.c.payload_digest),
        )
        .where(events.c.run_id == run_id, events.c.seq > after)
        .order_by(events.c.seq)
        .limit(limit)
    )
    return [_event(row) for row in rows]


def verify(entries: Sequence[Event], *, run_id: str, head: str, genesis: str) -> str | None:
    """Why these are not the run's whole ledger, in one sentence, or None if they are.

    Recomputes every hash from the event's own fields and compares the last with the run's head, so a
    changed, missing, swapped or cut-off entry is found.
    """
    previous = genesis
    for number, entry in enumerate(entries, start=1):
        if entry.seq != number or entry.run_id != run_id:
            return f"event {number} is missing or out of order"
        if entry.payload is not None and digest(canonical(entry.payload)) != entry.payload_digest:
            return f"the payload of event {number} was changed"
        expected = chain_hash(
            run_id=run_id,
            seq=entry.seq,
            kind=entry.kind,
            at=stamp(entry.at),
            payload_digest=entry.payload_digest,
            previous_hash=previous,
        )
        if entry.previous_hash != previous or entry.hash != expected:
            return f"event {number} was changed: its hash does not follow from event {number - 1}"
        previous = entry.hash
    if previous != head:
        return f"the ledger was cut off after event {len(entries)}"
    return None


def _payload(body: bytes) -> Any:
    """The value; a body that somebody changed into no JSON at all is shown as text, and `verify` tells."""
    try:
        return json.loads(body)
    except ValueError:
        return body.decode("utf-8", errors="replace")


def _event(row: Row[Any]) -> Event:
    return Event(
        run_id=row.run_id,
        seq=row.seq,
        kind=row.kind,
        at=row.at,
        payload=None if row.body is None else _payload(row.body),
        payload_digest=row.payload_digest,
        previous_hash=row.previous_hash,
        hash=row.hash,
    )
