"""What must be true after everything: read from the database, and from the simulator's own record of arrivals."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, text

from tests.e2e.chaos.load import Load
from tests.e2e.chaos.material import LIMITED
from tests.e2e.chaos.site import Site
from workers.core.model_family import model_family
from workers.provenance import ledger
from workers.provenance.check import examine
from workers.provenance.export import document_of
from workers.provenance.ledger import Event
from workers.provenance.repository import runs
from workers.provenance.repository.call_records import ENDED_LATE

WINDOW_SECONDS = 60.0
_ENDS = {"run.finished", "run.cancelled"}
#: Events that name a seat without being its end.
_NO_END = {"seat.deferred", "budget.exhausted"}
_CALLS = """
    SELECT provider, model_asked, state, input_tokens, output_tokens, usage_is_estimated, http_requests, error_kind
    FROM calls
"""


@dataclasses.dataclass(slots=True, kw_only=True)
class Audit:
    """Findings; every set and list of faults is to be empty."""

    runs: int = 0
    batches: int = 0
    submitted: int = 0
    outcomes: Counter[str] = dataclasses.field(default_factory=Counter)
    lost: set[str] = dataclasses.field(default_factory=set)
    duplicated: set[str] = dataclasses.field(default_factory=set)
    problems: list[str] = dataclasses.field(default_factory=list)
    seats: int = 0
    rescues: int = 0
    gave_up: int = 0
    calls: Counter[str] = dataclasses.field(default_factory=Counter)
    arrivals: int = 0
    faults: Mapping[str, int] = dataclasses.field(default_factory=dict)
    tokens_ours: int = 0
    tokens_theirs: int = 0
    unfinished_arrivals: int = 0
    orphans: list[str] = dataclasses.field(default_factory=list)
    #: (most arrivals in any 60 s, the limit) by provider and family.
    limits: dict[str, tuple[int, float]] = dataclasses.field(default_factory=dict)
    streams: int = 0


def audit(site: Site, load: Load, *, per_minute: float) -> Audit:
    found = Audit(submitted=len(load.accepted) + len(load.accepted_batches) * load.lines)
    with site.database.begin() as connection:
        _audit_batches(connection, load, found)
        _audit_runs(connection, load, found)
        _audit_seats(connection, found)
        calls = connection.execute(text(_CALLS)).all()
        found.orphans = list(
            connection.execute(text("SELECT call_id FROM calls WHERE state = 'orphaned'")).scalars()
        )
    arrivals = site.arrivals()
    found.arrivals = len(arrivals)
    found.faults = Counter(item["fault"] for item in arrivals if item["fault"] is not None)
    # Seats of a batch wait five minutes for an account that says it is empty: those of these providers never are.
    emptied = {row.provider for row in calls if row.error_kind in {"quota", "auth"}} & set(LIMITED)
    found.problems += [f"the play took {provider}'s account away" for provider in sorted(emptied)]
    _audit_tokens(calls, arrivals, found)
    _audit_limits(arrivals, per_minute, found)
    return found


def _audit_runs(connection: Connection, load: Load, found: Audit) -> None:
    rows = connection.execute(text("SELECT run_id, idempotency_key FROM runs")).all()
    found.runs = len(rows)
    present = {row.run_id for row in rows}
    found.lost |= set(load.accepted.values()) - present
    if len(rows) != load.total:
        found.problems.append(f"{load.total} runs were submitted, and {len(rows)} are there")
    for row in rows:
        run = runs.get(connection, row.run_id)
        entries = ledger.read(connection, row.run_id, limit=run.ledger_seq + 1)
        found.outcomes[run.outcome or run.state] += 1
        # The ledger, and its sealed calls, bodies and heads held against the rows.
        record = examine(document_of(connection, run))
        found.problems += [f"{run.run_id}: {problem}" for problem in record.problems[:3]]
        ends = sum(entry.kind in _ENDS for entry in entries)
        if not run.has_ended or ends == 0:
            found.lost.add(run.run_id)
        if ends > 1 or _twice(entries):
            found.duplicated.add(run.run_id)
        seen = load.streams.get(run.run_id)
        if seen is not None:
            found.streams += 1
            if not _is_whole(seen, entries):
                found.problems.append(f"{run.run_id}: its stream brought {seen} of {run.ledger_seq} events")


def _is_whole(seen: list[int], entries: Sequence[Event]) -> bool:
    """Every event up to the run's end, in order. What only a call that answers after the end adds, nobody waits for."""
    late = entries[len(seen) :]
    return seen == [entry.seq for entry in entries[: len(seen)]] and all(
        entry.kind == ENDED_LATE for entry in late
    )


def _audit_batches(connection: Connection, load: Load, found: Audit) -> None:
    """Each is there once, with each of its lines once, and has ended because they have."""
    rows = connection.execute(
        text(
            """
            SELECT batches.batch_id, batches.state, count(DISTINCT external_id) AS lines, count(*) AS runs
            FROM batches JOIN runs USING (batch_id) GROUP BY batches.batch_id, batches.state
            """
        )
    ).all()
    found.batches = len(rows)
    if {row.batch_id for row in rows} != set(load.accepted_batches.values()):
        found.problems.append(f"{load.batches} batches were submitted, and {len(rows)} are there")
    found.problems += [
        f"batch {row.batch_id} is {row.state}, with {row.lines} lines and {row.runs} runs; {load.lines} were submitted"
        for row in rows
        if (row.state, row.lines, row.runs) != ("finished", load.lines, load.lines)
    ]


def _twice(entries: Iterable[Event]) -> list[tuple[Any, ...]]:
    """Seats that the ledger says ended more than once, or stages that were opened more than once, in one round."""
    counts: Counter[tuple[Any, ...]] = Counter()
    number = 1
    for entry in entries:
        number += entry.kind == "round.opened"
        if entry.kind == "stage.opened":
            counts[number, entry.kind, entry.payload["stage"]] += 1
        elif isinstance(entry.payload, dict) and "seat" in entry.payload and entry.kind not in _NO_END:
            # A reviewer arrives or abstains; another stage has a word of its own or fails.
            stage = "panel" if entry.kind.startswith("review.") else entry.kind.partition(".")[0]
            counts[number, stage, entry.payload["seat"]] += 1
    return [key for key, count in counts.items() if count > 1]


def _audit_seats(connection: Connection, found: Audit) -> None:
    row = connection.execute(
        text(
            """
            SELECT count(*) AS seats, coalesce(sum(rescues), 0) AS rescues,
                count(*) FILTER (WHERE cause = 'lost_worker') AS gave_up,
                count(*) FILTER (WHERE state IN ('pending', 'running')) AS open,
                count(*) FILTER (WHERE state = 'done' AND result_digest IS NULL) AS without_result
            FROM stages
            """
        )
    ).one()
    found.seats, found.rescues, found.gave_up = row.seats, row.rescues, row.gave_up
    if row.open or row.without_result:
        found.problems.append(f"{row.open} seats are open, {row.without_result} done ones have no result")


def _audit_tokens(calls: Iterable[Any], arrivals: list[dict[str, Any]], found: Audit) -> None:
    """Each finished call's tokens are those of an arrival of its own; what is left over of the arrivals belongs to
    calls that broke off, whose worker was lost, or whose answer did not say what it cost."""
    theirs = Counter(
        (item["key_digest"], item["model"], item["input_tokens"], item["output_tokens"])
        for item in arrivals
        if item["status"] in {0, 200}
    )
    total = theirs.total()
    ours: Counter[tuple[Any, ...]] = Counter()
    unfinished = 0
    for call in calls:
        found.calls[call.state] += 1
        if call.state == "sent":
            found.problems.append("a call of an ended run is still counted as under way")
        if call.state == "done" and not call.usage_is_estimated:
            ours[_key_of(call.provider), call.model_asked, call.input_tokens, call.output_tokens] += 1
            unfinished += call.http_requests - 1
        else:
            unfinished += call.http_requests
    strange = ours - theirs
    if strange:
        found.problems.append(
            f"{strange.total()} finished calls are not in the simulator's record: {list(strange.items())[:3]}"
        )
    found.tokens_ours = sum((key[2] + key[3]) * count for key, count in ours.items())
    found.tokens_theirs = sum((key[2] + key[3]) * count for key, count in (ours & theirs).items())
    found.unfinished_arrivals = total - ours.total()
    if found.unfinished_arrivals > unfinished:
        found.problems.append(
            f"{found.unfinished_arrivals} answers were given that no finished call has counted, "
            f"but only {unfinished} requests broke off"
        )


def _key_of(provider: str) -> str:
    return hashlib.blake2b(f"chaos-{provider}".encode()).hexdigest()[:8]


def _audit_limits(arrivals: list[dict[str, Any]], per_minute: float, found: Audit) -> None:
    providers = {_key_of(provider): provider for provider in LIMITED}
    times: dict[str, list[float]] = {}
    for item in arrivals:
        provider = providers.get(item["key_digest"])
        if provider is not None:
            family = model_family(provider, item["model"])
            times.setdefault(f"{provider}/{family}", []).append(item["arrived_seconds"])
    for name, moments in sorted(times.items()):
        most = most_in(WINDOW_SECONDS, sorted(moments))
        found.limits[name] = (most, per_minute)
        if most > per_minute:
            found.problems.append(f"{name}: {most} requests arrived within 60 s; {per_minute:g} are allowed")


def most_in(window_seconds: float, moments: list[float]) -> int:
    """The most moments in any window of that length, its end left out."""
    most = first = 0
    for number, moment in enumerate(moments):
        while moment - moments[first] >= window_seconds:
            first += 1
        most = max(most, number - first + 1)
    return most
