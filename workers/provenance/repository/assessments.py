"""Assessments, which never change, and which of them a scoring consists of."""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from sqlalchemy import Connection, insert, select
from sqlalchemy.dialects.postgresql import insert as upsert

from workers.provenance.scoring_models import assessments, scoring_reports, scoring_runs

_MOST_AT_ONCE: Final = 5_000
_PIECE_BYTES: Final = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewAssessment:
    """What is kept of an assessment. row: the cohort's row, as JSON. document: its bytes in the report."""

    assessment_id: str
    run_digest: str
    settings_digest: str
    reference_digest: str
    scoring_version: str
    score: float
    tier: str | None
    row: str
    document: bytes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class NewScoringRun:
    """A run of a scoring. number: its place in the input. place: in the report. entry: what is known of it, JSON."""

    number: int
    place: int
    entry: Mapping[str, Any]
    assessment_id: str


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ScoringRun:
    """A run of a scoring, with its assessment if there is one."""

    number: int
    place: int
    entry: Mapping[str, Any]
    assessment_id: str
    score: float | None
    tier: str | None
    row: str | None
    document: bytes | None


def store(connection: Connection, found: Sequence[NewAssessment], *, tenant_id: str) -> int:
    """Keep assessments; how many of them were not there yet."""
    if not found:
        return 0
    rows = [
        {
            "tenant_id": tenant_id,
            **dataclasses.asdict(assessment),
            "document": zlib.compress(assessment.document),
        }
        for assessment in found
    ]
    written = connection.execute(
        upsert(assessments).values(rows).on_conflict_do_nothing().returning(assessments.c.assessment_id)
    )
    return len(written.all())


def present(connection: Connection, ids: Collection[str], *, tenant_id: str) -> set[str]:
    """Those of the assessments that are there."""
    return _among(connection, assessments.c.assessment_id, ids, tenant_id=tenant_id)


def assessed_before(
    connection: Connection, run_digests: Collection[str], *, settings_digest: str, tenant_id: str
) -> set[str]:
    """Those of the runs that have an assessment with these settings, against whatever reference and by whatever
    version."""
    only = assessments.c.settings_digest == settings_digest
    return _among(connection, assessments.c.run_digest, run_digests, only, tenant_id=tenant_id)


def _among(
    connection: Connection, column: Any, values: Collection[str], *conditions: Any, tenant_id: str
) -> set[str]:
    found: set[str] = set()
    wanted = sorted(set(values))
    for start in range(0, len(wanted), _MOST_AT_ONCE):
        chosen = column.in_(wanted[start : start + _MOST_AT_ONCE])
        found |= set(
            connection.scalars(
                select(column).where(assessments.c.tenant_id == tenant_id, chosen, *conditions).distinct()
            )
        )
    return found


def store_runs(connection: Connection, scoring_id: str, runs: Sequence[NewScoringRun]) -> None:
    """Write which runs a scoring consists of."""
    for start in range(0, len(runs), _MOST_AT_ONCE):
        connection.execute(
            insert(scoring_runs),
            [
                {
                    "scoring_id": scoring_id,
                    "number": run.number,
                    "place": run.place,
                    "entry": json.dumps(dict(run.entry)),
                    "assessment_id": run.assessment_id,
                }
                for run in runs[start : start + _MOST_AT_ONCE]
            ],
        )


def entries(
    connection: Connection, scoring_id: str, numbers: Sequence[int] | None = None
) -> list[tuple[int, dict[str, Any], str]]:
    """(number, entry, assessment's id) of the runs with these numbers, or of all, in order of their numbers."""
    run = scoring_runs.c
    query = select(run.number, run.entry, run.assessment_id).where(run.scoring_id == scoring_id)
    if numbers is not None:
        query = query.where(run.number.in_(numbers))
    rows = connection.execute(query.order_by(run.number))
    return [(row.number, json.loads(row.entry), row.assessment_id) for row in rows]


def report_rows(
    connection: Connection, scoring_id: str, *, tenant_id: str, after: int = -1, limit: int = 500
) -> list[ScoringRun]:
    """Runs in the order of the report, those behind the place `after`."""
    run, found = scoring_runs.c, assessments.c
    rows = connection.execute(
        select(
            run.number,
            run.place,
            run.entry,
            run.assessment_id,
            found.score,
            found.tier,
            found.row,
            found.document,
        )
        .select_from(
            scoring_runs.outerjoin(
                assessments, (found.tenant_id == tenant_id) & (found.assessment_id == run.assessment_id)
            )
        )
        .where(run.scoring_id == scoring_id, run.place > after)
        .order_by(run.place)
        .limit(limit)
    )
    return [
        ScoringRun(
            number=row.number,
            place=row.place,
            entry=json.loads(row.entry),
            assessment_id=row.assessment_id,
            score=row.score,
            tier=row.tier,
            row=row.row,
            document=None if row.document is None else zlib.decompress(row.document),
        )
        for row in rows
    ]


def store_report(connection: Connection, scoring_id: str, form: str, body: bytes) -> None:
    """Keep a report in one of its forms."""
    for number, start in enumerate(range(0, max(len(body), 1), _PIECE_BYTES)):
        connection.execute(
            insert(scoring_reports).values(
                scoring_id=scoring_id,
                form=form,
                number=number,
                body=zlib.compress(body[start : start + _PIECE_BYTES]),
            )
        )


def report_piece(connection: Connection, scoring_id: str, form: str, number: int) -> bytes | None:
    """A piece of a report; None behind the last."""
    body = connection.scalar(
        select(scoring_reports.c.body).where(
            scoring_reports.c.scoring_id == scoring_id,
            scoring_reports.c.form == form,
            scoring_reports.c.number == number,
        )
    )
    return None if body is None else zlib.decompress(body)


def report(connection: Connection, scoring_id: str, form: str) -> Iterator[bytes]:
    """A whole report, piece by piece; nothing if there is none in this form."""
    number = 0
    while (piece := report_piece(connection, scoring_id, form, number)) is not None:
        yield piece
        number += 1
