"""Taking payloads of an ended run away: the digest stays in the chain, the body goes, an event says who, when and why.

Bodies are shared by content. A run that redacts one shows it no more, whoever else holds it; the body itself goes with
the last run that shows it (`drop_payload_bodies`). Should the same content be submitted anew, it is there for that run
and stays hidden in this one."""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
from collections.abc import Iterable, Sequence
from typing import Any

from sqlalchemy import ARRAY, Connection, LargeBinary, Text, TextClause, bindparam, text
from sqlalchemy.dialects.postgresql import insert

from workers.core.run import RunState
from workers.errors import InputError, NotFoundError, StateError
from workers.provenance import ledger
from workers.provenance.digest import keepable
from workers.provenance.models import redactions

#: What other checks stand on, and what says of a redaction that it was one.
KEPT_KINDS = ("payload.redacted", "calls.sealed", "call.ended_late")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """What is to go: payloads of events and calls by name, whatever contains a text, or `everything` but the team."""

    events: tuple[int, ...] = ()
    calls: tuple[str, ...] = ()
    digests: tuple[str, ...] = ()
    containing: str | None = None
    everything: bool = False


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Redacted:
    """What went. `shared`: those whose bodies other runs still show, with these runs. `beside`: rows whose texts
    beside the payloads were cleared."""

    digests: tuple[str, ...]
    calls: tuple[str, ...]
    shared: dict[str, list[str]]
    beside: int = 0


_PAYLOADS = text(
    """
    SELECT digest, seq, call_id, is_team, body IS NULL AS is_gone,
        EXISTS (SELECT FROM unnest(:needles) AS needle WHERE position(needle IN body) > 0) AS matches
    FROM (
        SELECT payload_digest AS digest, seq, NULL AS call_id, false AS is_team
        FROM events WHERE run_id = :run_id AND kind <> ALL (:kept)
        UNION ALL SELECT request_digest, NULL, call_id, false FROM calls WHERE run_id = :run_id
        UNION ALL SELECT reply_digest, NULL, call_id, false FROM calls WHERE run_id = :run_id
        UNION ALL SELECT input_digest, NULL, NULL, false FROM runs WHERE run_id = :run_id
        UNION ALL SELECT team_digest, NULL, NULL, true FROM runs WHERE run_id = :run_id
    ) AS named
    JOIN payloads USING (digest)
    WHERE NOT EXISTS (
        SELECT FROM redactions WHERE redactions.run_id = :run_id AND redactions.digest = named.digest
    )
    ORDER BY digest
    """
).bindparams(bindparam("needles", type_=ARRAY(LargeBinary)), bindparam("kept", type_=ARRAY(Text)))

#: Only the rows, in order: whoever is about to name one of them waits, and whoever has just named it is seen below.
_LOCK = text("SELECT digest FROM payloads WHERE digest = ANY (:digests) ORDER BY digest FOR UPDATE")

_HOLDERS = text(
    """
    SELECT DISTINCT digest, run_id
    FROM (
        SELECT payload_digest AS digest, run_id FROM events WHERE payload_digest = ANY (:digests)
        UNION ALL SELECT request_digest, run_id FROM calls WHERE request_digest = ANY (:digests)
        UNION ALL SELECT reply_digest, run_id FROM calls WHERE reply_digest = ANY (:digests)
        UNION ALL SELECT input_digest, run_id FROM runs WHERE input_digest = ANY (:digests)
        UNION ALL SELECT team_digest, run_id FROM runs WHERE team_digest = ANY (:digests)
    ) AS held
    WHERE NOT EXISTS (
        SELECT FROM redactions WHERE redactions.run_id = held.run_id AND redactions.digest = held.digest
    )
    ORDER BY digest, run_id
    """
)


def _clearing(statement: str, column: str) -> TextClause:
    """Free text beside the payloads goes with them. `column` is ours, an expression of the statement's table."""
    found = f"EXISTS (SELECT FROM unnest(:forms) AS form WHERE position(form IN {column}) > 0)"  # nosec B608 # ours
    clause = text(f"{statement} AND (:everything OR {found})")
    return clause.bindparams(bindparam("forms", type_=ARRAY(Text)))


_CLEAR_ERRORS = text(
    """
    UPDATE calls SET error = NULL
    WHERE run_id = :run_id AND error IS NOT NULL AND (
        :everything OR call_id = ANY (:calls)
        OR EXISTS (SELECT FROM unnest(:forms) AS form WHERE position(form IN error) > 0)
    )
    RETURNING call_id
    """
).bindparams(bindparam("forms", type_=ARRAY(Text)), bindparam("calls", type_=ARRAY(Text)))

_CLEAR_BESIDE = (
    _clearing("UPDATE stages SET detail = NULL WHERE run_id = :run_id AND detail IS NOT NULL", "detail"),
    _clearing(
        "UPDATE runs SET metadata = '{}' WHERE run_id = :run_id AND metadata <> '{}'",
        "CAST(metadata AS text)",
    ),
    _clearing(
        "UPDATE runs SET external_id = NULL WHERE run_id = :run_id AND external_id IS NOT NULL", "external_id"
    ),
    _clearing(
        "UPDATE runs SET idempotency_key = NULL WHERE run_id = :run_id AND idempotency_key IS NOT NULL",
        "idempotency_key",
    ),
)
_DROP = text("SELECT drop_payload_bodies(CAST(:digests AS text[]), CAST(:at AS timestamptz), 'redacted')")


def redact(
    connection: Connection, run_id: str, what: Selection, *, who: str, why: str, at: dt.datetime
) -> Redacted:
    """Hide the selected payloads in this run and drop the bodies that no other run shows; with an event in the ledger.

    Raises: NotFoundError for no such run, event or call; StateError for a run at work; InputError when nothing is
    selected, or it was redacted before.
    """
    if not who.strip() or not why.strip():
        raise InputError("a redaction says who made it and why; give both")
    if any(form in who or form in why for form in _forms(what.containing)):
        raise InputError(
            "the reason or the name holds the text that is to go, and both stay for good; write others"
        )
    with ledger.writer(connection, run_id) as log:
        if log.state not in {RunState.FINISHED, RunState.CANCELLED}:
            raise StateError(f"run {run_id} is at work; cancel it or wait for its end, then redact")
        chosen = _chosen(connection, run_id, what)
        clearing = {
            "run_id": run_id,
            "everything": what.everything,
            "calls": list(what.calls),
            "forms": _forms(what.containing),
        }
        errors = [row.call_id for row in connection.execute(_CLEAR_ERRORS, clearing)]
        beside = sum(connection.execute(statement, clearing).rowcount for statement in _CLEAR_BESIDE)
        if not chosen and not errors and not beside:
            raise InputError(f"nothing of run {run_id} is left to be redacted by that")
        connection.execute(_LOCK, {"digests": chosen})
        if chosen:
            rows = [{"run_id": run_id, "digest": key, "at": at} for key in chosen]
            connection.execute(insert(redactions), rows)
        shared = holders(connection, chosen)
        connection.execute(_DROP, {"digests": [key for key in chosen if key not in shared], "at": at})
        log.append(
            "payload.redacted",
            {"digests": chosen, "calls": sorted(errors), "who": who.strip(), "why": why.strip()},
            at=at,
        )
    return Redacted(digests=tuple(chosen), calls=tuple(sorted(errors)), shared=shared, beside=beside)


def holders(connection: Connection, digests: Sequence[str]) -> dict[str, list[str]]:
    """The runs that show some payloads, by digest; those that nobody shows are missing."""
    found: dict[str, list[str]] = {}
    if digests:
        for row in connection.execute(_HOLDERS, {"digests": list(digests)}):
            found.setdefault(row.digest, []).append(row.run_id)
    return found


def _chosen(connection: Connection, run_id: str, what: Selection) -> list[str]:
    rows = connection.execute(
        _PAYLOADS,
        {
            "run_id": run_id,
            "needles": [form.encode() for form in _forms(what.containing)],
            "kept": list(KEPT_KINDS),
        },
    ).all()
    _check_named(what.events, {row.seq for row in rows}, f"event of run {run_id} that can be redacted:")
    _check_named(what.calls, {row.call_id for row in rows}, f"call of run {run_id} that can be redacted:")
    return sorted({row.digest for row in rows if _is_chosen(row, what)})


def _is_chosen(row: Any, what: Selection) -> bool:
    return bool(
        (what.everything and not row.is_team)
        or row.matches
        or row.seq in what.events
        or row.call_id in what.calls
        or row.digest in what.digests
    )


def _check_named(named: Iterable[object], known: set[Any], kind: str) -> None:
    for name in named:
        if name not in known:
            raise NotFoundError(f"there is no {kind} {name}")


def _forms(wanted: str | None) -> list[str]:
    """How a text may stand in a body: plain, as a JSON string, and as one inside JSON strings, as replies are."""
    if not wanted:
        return []
    found = {keepable(wanted)}
    for _ in range(3):
        found |= {
            json.dumps(form, ensure_ascii=is_ascii)[1:-1] for form in found for is_ascii in (True, False)
        }
    return sorted(found)
