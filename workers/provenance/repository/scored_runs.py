"""The runs of scorings as lists and pages show them: filtered, sorted, found again by what they consist of."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection, Select, select, tuple_

from workers.core.scoring import ScoringStage, ScoringState
from workers.provenance.scoring_models import assessments, scoring_parts, scoring_runs, scorings

_NEWEST_SCORINGS: Final = 20


class Order(StrEnum):
    """place: that of the report."""

    PLACE = "place"
    WORST = "worst"
    BEST = "best"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Filters:
    """Which runs; None: whatever it is. Texts are compared as a whole."""

    tier: str | None = None
    model: str | None = None
    problem: str | None = None
    mechanism: str | None = None
    outcome: str | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ListedRun:
    """A run that was scored. entry: what is known of it. row: what the cohort keeps of its assessment."""

    place: int
    entry: Mapping[str, Any]
    score: float
    tier: str | None
    row: Mapping[str, Any]


Cursor = tuple[float, int]
"""Score and place of the last run of the page before."""


def page(
    connection: Connection,
    scoring_id: str,
    *,
    tenant_id: str,
    filters: Filters,
    order: Order = Order.PLACE,
    after: Cursor | None = None,
    limit: int = 100,
) -> list[ListedRun]:
    """Scored runs of a scoring; those without an assessment are in none of its figures and not here."""
    run, found = scoring_runs.c, assessments.c
    query: Select[Any] = (
        select(run.place, run.entry, found.score, found.tier, found.row)
        .join(assessments, (found.tenant_id == tenant_id) & (found.assessment_id == run.assessment_id))
        .where(run.scoring_id == scoring_id, *_conditions(filters))
    )
    if order is Order.PLACE:
        query = query.order_by(run.place)
        if after is not None:
            query = query.where(run.place > after[1])
    elif order is Order.WORST:
        query = query.order_by(found.score, run.place)
        if after is not None:
            query = query.where(tuple_(found.score, run.place) > tuple_(*after))
    else:
        query = query.order_by(found.score.desc(), run.place.desc())
        if after is not None:
            query = query.where(tuple_(found.score, run.place) < tuple_(*after))
    rows = connection.execute(query.limit(limit))
    return [
        ListedRun(
            place=row.place,
            entry=json.loads(row.entry),
            score=row.score,
            tier=row.tier,
            row=json.loads(row.row),
        )
        for row in rows
    ]


def _conditions(filters: Filters) -> list[Any]:
    conditions: list[Any] = [] if filters.tier is None else [assessments.c.tier == filters.tier]
    # Quotes inside JSON's strings are escaped: a member is found in the text exactly where it is one.
    for column, name, value in (
        (scoring_runs.c.entry, "model", filters.model),
        (scoring_runs.c.entry, "problem", filters.problem),
        (scoring_runs.c.entry, "outcome", filters.outcome),
        (assessments.c.row, "mechanism", filters.mechanism),
    ):
        if value is not None:
            conditions.append(column.contains(f'"{name}": {json.dumps(value)}', autoescape=True))
    return conditions


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """Where a run stands in a finished scoring."""

    run_digest: str
    scoring_id: str
    place: int
    profile: str
    score: float
    tier: str | None


def standings(connection: Connection, run_digests: Collection[str], *, tenant_id: str) -> list[Standing]:
    """Of the newest finished scorings those that these runs are in, the newest first."""
    newest = (
        select(scorings.c.scoring_id, scorings.c.profile)
        .where(scorings.c.tenant_id == tenant_id, scorings.c.state == ScoringState.FINISHED)
        .order_by(scorings.c.scoring_id.desc())
        .limit(_NEWEST_SCORINGS)
        .subquery()
    )
    run, found = scoring_runs.c, assessments.c
    rows = connection.execute(
        select(found.run_digest, newest.c.scoring_id, run.place, newest.c.profile, found.score, found.tier)
        .select_from(assessments)
        .join(scoring_runs, run.assessment_id == found.assessment_id)
        .join(newest, newest.c.scoring_id == run.scoring_id)
        .where(found.tenant_id == tenant_id, found.run_digest.in_(list(run_digests)))
        .order_by(newest.c.scoring_id.desc(), run.place)
    )
    return [Standing(**row._mapping) for row in rows]


def donors(connection: Connection, scoring_id: str, problem: str | None) -> tuple[int, ...]:
    """The numbers of the runs that a problem's references are drawn from; none for runs without a problem."""
    if problem is None:
        return ()
    found = connection.scalar(
        select(scoring_parts.c.donors)
        .where(
            scoring_parts.c.scoring_id == scoring_id,
            scoring_parts.c.stage == ScoringStage.SCORE,
            scoring_parts.c.label == json.dumps(problem),
        )
        .order_by(scoring_parts.c.number)
        .limit(1)
    )
    return tuple(found or ())
