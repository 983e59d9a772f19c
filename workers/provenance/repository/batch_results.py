"""How the runs of a batch ended, page by page in the order of their lines.

A page is a query of its own and no transaction stays open between two: whoever downloads slowly holds no connection,
and no snapshot that would keep the database from cleaning up."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from sqlalchemy import Connection, func, select

from workers.core.run import Outcome, RunState
from workers.provenance.models import calls, events, payloads, redactions, runs
from workers.provenance.payload import hidden

#: A page ends after so many runs, or with the verdict that makes it larger than so many bytes.
PAGE_RUNS, PAGE_BYTES = 200, 4 * 1024 * 1024

#: What the ledger says of the code under review, and of what was found in it.
_CANDIDATE = ("candidate.written", "candidate.submitted")
_REVIEW, _PROOF = "review.arrived", "claim.tested"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class BatchRun:
    """A run of a batch. `verdict` is None until there is one, and once it was redacted. `cost_usd` is None where no
    price is known."""

    run_id: str
    external_id: str | None
    position: int
    team: str
    state: RunState
    outcome: Outcome | None
    is_simulated: bool
    started_at: dt.datetime | None
    finished_at: dt.datetime | None
    verdict: Mapping[str, Any] | None
    input_tokens: int
    output_tokens: int
    cost_usd: Decimal | None
    has_estimates: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reviewed:
    """What a run's last round looked at, and what its reviewers found; what was redacted is missing."""

    files: Mapping[str, str] = dataclasses.field(default_factory=dict)
    alarms: Sequence[Mapping[str, Any]] = ()
    findings: Sequence[Mapping[str, Any]] = ()
    #: What the gate saw, by claim.
    proofs: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)


_COLUMNS = (
    runs.c.run_id,
    runs.c.external_id,
    runs.c.position,
    runs.c.team,
    runs.c.state,
    runs.c.outcome,
    runs.c.is_simulated,
    runs.c.started_at,
    runs.c.finished_at,
    runs.c.verdict_digest,
)


def page(
    connection: Connection,
    batch_id: str,
    *,
    after: int,
    most_runs: int = PAGE_RUNS,
    most_bytes: int = PAGE_BYTES,
) -> list[BatchRun]:
    """The next runs behind the line `after`; none when there are no more. One run is given however large it is."""
    rows = connection.execute(
        select(*_COLUMNS, func.coalesce(payloads.c.size_bytes, 0).label("size_bytes"))
        .outerjoin(payloads, payloads.c.digest == runs.c.verdict_digest)
        .where(runs.c.batch_id == batch_id, runs.c.position > after)
        .order_by(runs.c.position)
        .limit(most_runs)
    ).all()
    taken = rows[: _fitting([row.size_bytes for row in rows], most_bytes)]
    verdicts = _verdicts(connection, [row.verdict_digest for row in taken if row.verdict_digest])
    used = _used(connection, [row.run_id for row in taken])
    gone = hidden(connection, [row.run_id for row in taken])
    return [
        _batch_run(
            row,
            None if (row.run_id, row.verdict_digest) in gone else verdicts.get(row.verdict_digest),
            used.get(row.run_id),
        )
        for row in taken
    ]


def _fitting(sizes: Sequence[int], most_bytes: int) -> int:
    """How many of these, in order, are taken: up to and with the one that reaches the limit."""
    total = 0
    for number, size in enumerate(sizes, start=1):
        total += size
        if total >= most_bytes:
            return number
    return len(sizes)


def _verdicts(connection: Connection, digests: Sequence[str]) -> dict[str, Any]:
    if not digests:
        return {}
    rows = connection.execute(
        select(payloads.c.digest, payloads.c.body).where(
            payloads.c.digest.in_(sorted(set(digests))), payloads.c.body.is_not(None)
        )
    )
    return {row.digest: json.loads(row.body) for row in rows}


def _used(connection: Connection, run_ids: Sequence[str]) -> dict[str, Any]:
    rows = connection.execute(
        select(
            calls.c.run_id,
            func.sum(calls.c.input_tokens).label("input_tokens"),
            func.sum(calls.c.output_tokens).label("output_tokens"),
            func.sum(calls.c.cost_usd).label("cost_usd"),
            func.bool_or(calls.c.usage_is_estimated).label("has_estimates"),
        )
        .where(calls.c.run_id.in_(run_ids))
        .group_by(calls.c.run_id)
    )
    return {row.run_id: row for row in rows}


def _batch_run(row: Any, verdict: Mapping[str, Any] | None, used: Any) -> BatchRun:
    return BatchRun(
        run_id=row.run_id,
        external_id=row.external_id,
        position=row.position,
        team=row.team,
        state=RunState(row.state),
        outcome=None if row.outcome is None else Outcome(row.outcome),
        is_simulated=row.is_simulated,
        started_at=row.started_at,
        finished_at=row.finished_at,
        verdict=verdict,
        input_tokens=0 if used is None else used.input_tokens,
        output_tokens=0 if used is None else used.output_tokens,
        cost_usd=None if used is None else used.cost_usd,
        has_estimates=used is not None and used.has_estimates,
    )


def reviewed(connection: Connection, run_id: str) -> Reviewed:
    """What goes with the claims of a run's verdict: of its last round, as the ledger tells it."""
    rows = connection.execute(
        select(events.c.kind, payloads.c.body)
        .join(payloads, payloads.c.digest == events.c.payload_digest)
        .outerjoin(
            redactions,
            (redactions.c.run_id == events.c.run_id) & (redactions.c.digest == events.c.payload_digest),
        )
        .where(
            redactions.c.digest.is_(None),
            events.c.run_id == run_id,
            events.c.kind.in_([*_CANDIDATE, _REVIEW, _PROOF]),
            payloads.c.body.is_not(None),
        )
        .order_by(events.c.seq)
    )
    candidate: Mapping[str, Any] = {}
    findings: dict[str, Mapping[str, Any]] = {}
    proofs: dict[str, Mapping[str, Any]] = {}
    for row in rows:
        told = json.loads(row.body)
        if row.kind in _CANDIDATE:
            # What was found in an earlier round is about other code.
            candidate, findings, proofs = told, {}, {}
        elif row.kind == _PROOF:
            proofs[told["claim"]] = told
        else:
            findings |= {item["finding_id"]: item for item in told["findings"]}
    return Reviewed(
        files=candidate.get("files", {}),
        alarms=candidate.get("alarms", ()),
        findings=tuple(findings.values()),
        proofs=proofs,
    )
