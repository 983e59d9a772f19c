"""What ended within a span of time, counted by kind: what metrics are made of. No row is named.

A row belongs to exactly one of consecutive spans: a span ends where no open transaction can still write an end into it
(`horizon`), since ends carry the database's own time."""

from __future__ import annotations

import dataclasses
import datetime as dt
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Row, TextClause, text

#: So much of what was missed is counted at once; a reader that was away for long catches up step by step.
LONGEST_SPAN = dt.timedelta(hours=1)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """From `since`, which is no part of it, to `until`, which is."""

    since: dt.datetime
    until: dt.datetime

    @classmethod
    def after(cls, since: dt.datetime, until: dt.datetime) -> Span:
        """The next span that may be counted when everything up to `until` is settled."""
        return cls(since=since, until=max(since, min(until, since + LONGEST_SPAN)))


#: For a transaction that has begun and is not listed yet.
SETTLE_SECONDS = 1.0

_HORIZON = text(
    """
    SELECT least(now() - make_interval(secs => :settle_seconds), min(xact_start) - interval '1 microsecond')
    FROM pg_stat_activity
    WHERE datname = current_database() AND application_name = 'consensus' AND pid <> pg_backend_pid()
    """
)


def horizon(connection: Connection, *, settle_seconds: float = SETTLE_SECONDS) -> dt.datetime:
    """Up to this time of the database nothing can end any more that has not ended visibly."""
    at: dt.datetime = connection.execute(_HORIZON, {"settle_seconds": settle_seconds}).scalar_one()
    return at


#: `bucket`: how many of the bounds are not above the duration; NULL where there is no duration.
_RUNS = text(
    """
    SELECT coalesce(outcome, state) AS outcome, is_simulated,
           width_bucket(seconds, CAST(:bounds AS double precision[])) AS bucket,
           count(*) AS number, sum(seconds) AS seconds
    FROM (
        SELECT outcome, state, is_simulated,
               CAST(extract(epoch FROM finished_at - coalesce(dispatched_at, created_at)) AS double precision)
                   AS seconds
        FROM runs WHERE finished_at > :since AND finished_at <= :until
    ) AS ended
    GROUP BY 1, 2, 3
    """
)
_SEATS = text(
    """
    SELECT stage, state, width_bucket(seconds, CAST(:bounds AS double precision[])) AS bucket,
           count(*) AS number, sum(seconds) AS seconds, sum(rescues) AS rescues
    FROM (
        SELECT stage, state, rescues,
               CAST(extract(epoch FROM finished_at - started_at) AS double precision) AS seconds
        FROM stages WHERE finished_at > :since AND finished_at <= :until
    ) AS ended
    GROUP BY 1, 2, 3
    """
)
_CALLS = text(
    """
    SELECT provider, family, state, coalesce(error_kind, '') AS kind,
           width_bucket(duration_seconds, CAST(:bounds AS double precision[])) AS bucket,
           count(*) AS number, sum(duration_seconds) AS seconds, sum(http_requests) AS requests,
           sum(input_tokens) AS input, sum(output_tokens) AS output, sum(cached_input_tokens) AS cached_input,
           sum(cache_write_input_tokens) AS cache_write_input,
           coalesce(sum(cost_usd), 0) AS usd, count(*) FILTER (WHERE cost_usd IS NULL) AS unpriced
    FROM calls WHERE ended_at > :since AND ended_at <= :until
    GROUP BY 1, 2, 3, 4, 5
    """
)
_SCORINGS = text(
    """
    SELECT state, count(*) AS number, sum(computed_count) AS computed, sum(reused_count) AS reused
    FROM scorings WHERE finished_at > :since AND finished_at <= :until
    GROUP BY 1
    """
)
_PARTS = text(
    """
    SELECT stage, state, width_bucket(seconds, CAST(:bounds AS double precision[])) AS bucket,
           count(*) AS number, sum(seconds) AS seconds, sum(rescues) AS rescues
    FROM (
        SELECT stage, state, rescues,
               CAST(extract(epoch FROM finished_at - started_at) AS double precision) AS seconds
        FROM scoring_parts WHERE finished_at > :since AND finished_at <= :until
    ) AS ended
    GROUP BY 1, 2, 3
    """
)


def runs_ended(connection: Connection, span: Span, bounds: Sequence[float]) -> Sequence[Row[Any]]:
    """(outcome, is_simulated, bucket, number, seconds); a cancelled run's outcome is `cancelled`. Seconds count from
    the moment its first message was sent."""
    return _rows(connection, _RUNS, span, bounds)


def seats_ended(connection: Connection, span: Span, bounds: Sequence[float]) -> Sequence[Row[Any]]:
    """(stage, state, bucket, number, seconds, rescues). Seconds count from a seat's first start."""
    return _rows(connection, _SEATS, span, bounds)


def calls_ended(connection: Connection, span: Span, bounds: Sequence[float]) -> Sequence[Row[Any]]:
    """(provider, family, state, kind, bucket, number, seconds, requests, tokens by direction, usd, unpriced); `input`
    includes what was read from a cache. `kind` is '' for a call that did not fail."""
    return _rows(connection, _CALLS, span, bounds)


def scorings_ended(connection: Connection, span: Span) -> Sequence[Row[Any]]:
    """(state, number, computed, reused): the last two are assessments."""
    return connection.execute(_SCORINGS, dataclasses.asdict(span)).all()


def parts_ended(connection: Connection, span: Span, bounds: Sequence[float]) -> Sequence[Row[Any]]:
    """(stage, state, bucket, number, seconds, rescues) of parts of scorings."""
    return _rows(connection, _PARTS, span, bounds)


def _rows(
    connection: Connection, statement: TextClause, span: Span, bounds: Sequence[float]
) -> Sequence[Row[Any]]:
    return connection.execute(statement, {**dataclasses.asdict(span), "bounds": list(bounds)}).all()
