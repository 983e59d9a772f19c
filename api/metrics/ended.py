"""Counts what has ended since the last look."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

from prometheus_client.core import Metric
from sqlalchemy import Connection, Row

from api.metrics import families as f
from api.metrics.families import Family
from api.metrics.totals import Totals
from workers.core.run import Outcome, RunState, SeatState, Stage
from workers.core.scoring import PartState, ScoringStage, ScoringState
from workers.provenance.repository import tallies
from workers.provenance.repository.tallies import Span

DIRECTIONS = ("input", "output", "cached_input", "cache_write_input")
CALL_STATES = ("done", "failed", "orphaned")
_SEAT_ENDS = (SeatState.DONE, SeatState.ABSTAINED, SeatState.FAILED, SeatState.CANCELLED)


class Ended:
    """Counters of an installation. Not safe to use from several threads at once."""

    def __init__(self) -> None:
        self._totals = Totals()
        self._since: dt.datetime | None = None
        #: The (provider, family) pairs that were called.
        self.families: set[tuple[str, str]] = set()
        self._know()

    def count(self, connection: Connection, providers: Iterable[str], *, of_seconds: float) -> None:
        """Add what has ended since the last time; the first time, within the last `of_seconds`. Nothing is added
        unless everything could be read."""
        for provider in providers:
            self._know_provider(provider)
        until = tallies.horizon(connection)
        if self._since is None:
            self._since = until - dt.timedelta(seconds=of_seconds)
        span = Span.after(self._since, until)
        if span.since == span.until:
            return
        runs = tallies.runs_ended(connection, span, f.RUN_BOUNDS)
        seats = tallies.seats_ended(connection, span, f.STAGE_BOUNDS)
        calls = tallies.calls_ended(connection, span, f.CALL_BOUNDS)
        scorings = tallies.scorings_ended(connection, span)
        parts = tallies.parts_ended(connection, span, f.PART_BOUNDS)
        self._since = span.until
        for row in runs:
            self._totals.add(f.RUNS_ENDED, row.number, row.outcome, _word(row.is_simulated))
            self._observe(f.RUN_DURATION, row, row.outcome)
        for row in seats:
            self._totals.add(f.SEATS_ENDED, row.number, row.stage, row.state)
            self._totals.add(f.RESCUES, row.rescues, row.stage)
            self._observe(f.STAGE_DURATION, row, row.stage)
        for row in calls:
            self._add_calls(row)
        for row in scorings:
            self._totals.add(f.SCORINGS_ENDED, row.number, row.state)
            self._totals.add(f.ASSESSMENTS, row.computed, "computed")
            self._totals.add(f.ASSESSMENTS, row.reused, "reused")
        for row in parts:
            self._totals.add(f.PARTS_ENDED, row.number, row.stage, row.state)
            self._totals.add(f.PART_RESCUES, row.rescues, row.stage)
            self._observe(f.PART_DURATION, row, row.stage)

    def _add_calls(self, row: Row[Any]) -> None:
        totals, provider = self._totals, row.provider
        self.families.add((provider, row.family))
        totals.add(f.CALLS, row.number, provider, row.state)
        if row.kind:
            totals.add(f.CALL_FAILURES, row.number, provider, row.kind)
        self._observe(f.CALL_DURATION, row, provider)
        totals.add(f.PROVIDER_REQUESTS, row.requests, provider)
        for direction in DIRECTIONS:
            totals.add(f.TOKENS, getattr(row, direction), provider, direction)
        totals.add(f.COST, float(row.usd), provider)
        totals.add(f.UNPRICED, row.unpriced, provider)

    def _observe(self, family: Family, row: Row[Any], *labels: str) -> None:
        """What was never begun has no duration."""
        if row.bucket is not None:
            self._totals.observe(family, row.bucket, row.number, row.seconds, *labels)

    def collect(self) -> list[Metric]:
        return self._totals.collect(f.COUNTERS)

    def _know(self) -> None:
        know = self._totals.know
        for outcome in (*Outcome, RunState.CANCELLED):
            know(f.RUN_DURATION, outcome.value)
            for simulated in (True, False):
                know(f.RUNS_ENDED, outcome.value, _word(simulated))
        for stage in Stage:
            know(f.RESCUES, stage.value)
            know(f.STAGE_DURATION, stage.value)
            for state in _SEAT_ENDS:
                know(f.SEATS_ENDED, stage.value, state.value)
        for scoring in (ScoringState.FINISHED, ScoringState.FAILED, ScoringState.CANCELLED):
            know(f.SCORINGS_ENDED, scoring.value)
        for origin in ("computed", "reused"):
            know(f.ASSESSMENTS, origin)
        for part in ScoringStage:
            know(f.PART_RESCUES, part.value)
            know(f.PART_DURATION, part.value)
            for end in (PartState.DONE, PartState.FAILED, PartState.CANCELLED):
                know(f.PARTS_ENDED, part.value, end.value)

    def _know_provider(self, provider: str) -> None:
        know = self._totals.know
        for state in CALL_STATES:
            know(f.CALLS, provider, state)
        for direction in DIRECTIONS:
            know(f.TOKENS, provider, direction)
        for family in (f.PROVIDER_REQUESTS, f.COST, f.UNPRICED, f.CALL_DURATION):
            know(family, provider)


def _word(value: bool) -> str:
    return "true" if value else "false"
