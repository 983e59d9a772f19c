"""The last stage of a scoring: one report out of all its assessments, in every form."""

from __future__ import annotations

import dataclasses
import io
import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, Final

from rich.console import Console

from workers.agentlens.report import as_json
from workers.agentlens.tier import Tier
from workers.core.scoring import PartState, ScoringStage, ScoringState
from workers.errors import InputError
from workers.provenance.repository import assessments, scoring_parts, scorings
from workers.provenance.repository.assessments import ScoringRun
from workers.provenance.repository.scorings import Scoring
from workers.scoring import gather
from workers.scoring.cohort import Cohort
from workers.scoring.comparison import Seen, compare
from workers.scoring.forms import json_frame, write_csv, write_parquet
from workers.scoring.packing import packed
from workers.scoring.page import select, write_html
from workers.scoring.parts import Held
from workers.scoring.rows import entry_of, row_of
from workers.scoring.spool import Entry, Place, Scored, problem_donors
from workers.scoring.table import print_cohort
from workers.trajectories import Skipped

_ROWS_AT_ONCE: Final = 500
_TABLE_WIDTH: Final = 100


def merge(held: Held) -> None:
    """Make the report and end the scoring."""
    context, key = held.context, held.part.key
    with tempfile.TemporaryDirectory(prefix="consensus-merge-", ignore_cleanup_errors=True) as scratch:
        with context.database.begin() as connection:
            scoring = scorings.of_worker(connection, key.scoring_id)
        cohort = _cohort(held, scoring, Path(scratch))
        previous = _previous(held, scoring)
        if previous is not None:
            cohort = dataclasses.replace(cohort, comparison=_compared(held, cohort, previous))
        held.check()
        reports = _reports(held, scoring, cohort, Path(scratch))
    with context.database.begin() as connection:
        for form, body in reports.items():
            assessments.store_report(connection, key.scoring_id, form, body)
        scorings.change(
            connection,
            key.scoring_id,
            summary=json.dumps(as_json(cohort.summary)),
            comparison=None if cohort.comparison is None else json.dumps(as_json(cohort.comparison)),
            previous_id=None if previous is None else previous.scoring_id,
            computed_count=sum(
                part.computed_count
                for part in scoring_parts.of_stage(connection, key.scoring_id, ScoringStage.SCORE)
            ),
            skipped_count=len(cohort.skipped),
        )
        held.done(connection)
        scorings.end(connection, key.scoring_id, state=ScoringState.FINISHED)


def _cohort(held: Held, scoring: Scoring, scratch: Path) -> Cohort:
    context = held.context
    with context.database.begin() as connection:
        skipped = list(gather.gather(connection, scoring).skipped)
        unopened = scorings.texts(connection, scoring.scoring_id)["unopened"]
        broken = _broken(scoring_parts.of_stage(connection, scoring.scoring_id, ScoringStage.SCORE))
    skipped += [Skipped(path=path, error=error) for path, error in unopened]
    scored: list[Scored] = []
    spool = scratch / "documents"
    with spool.open("wb") as documents:
        for run in _runs(held, scoring):
            entry = entry_of(run.entry, Place(file=scratch / f"run-{run.number}", offset=0, length=-1))
            if run.row is None or run.document is None or run.score is None:
                why = broken.get(run.number, "its assessment is gone; score it again")
                skipped.append(Skipped(path=entry.path, error=f"{entry.path}: {why}", is_record=True))
                continue
            place = Place(file=spool, offset=documents.tell(), length=len(run.document))
            documents.write(run.document)
            scored.append(
                Scored(
                    entry=entry,
                    row=row_of(run.row),
                    score=run.score,
                    tier=None if run.tier is None else Tier(run.tier),
                    document=place,
                    is_kept=False,
                )
            )
    if not scored:
        raise InputError(f"no run could be scored: {skipped[0].error}")
    return Cohort.of((), scored, skipped, gather.settings_of(scoring))


def _runs(held: Held, scoring: Scoring) -> Iterator[ScoringRun]:
    after = -1
    while True:
        held.check()
        with held.context.database.begin() as connection:
            found = assessments.report_rows(
                connection,
                scoring.scoring_id,
                tenant_id=scoring.tenant_id,
                after=after,
                limit=_ROWS_AT_ONCE,
            )
        yield from found
        if len(found) < _ROWS_AT_ONCE:
            return
        after = found[-1].place


def _broken(parts: Sequence[scoring_parts.Part]) -> dict[int, str]:
    """Why runs have no assessment: the problem whose part broke, and how."""
    return {
        number: f"problem {part.label or 'none'} could not be scored: {part.detail or 'its worker was lost'}"
        for part in parts
        if part.state is PartState.FAILED
        for number in part.work
    }


def _previous(held: Held, scoring: Scoring) -> Scoring | None:
    with held.context.database.begin() as connection:
        found = scorings.night_before(connection, scoring)
        return None if found is None else scorings.of_worker(connection, found)


def _compared(held: Held, cohort: Cohort, previous: Scoring) -> Mapping[str, object]:
    now = [_seen(run.entry, run.row.model, run.score, run.tier, run.row.mechanism) for run in cohort.counted]
    before = []
    for run in _runs(held, previous):
        if run.row is not None and run.score is not None and run.entry["original"] is None:
            row = row_of(run.row)
            entry = entry_of(run.entry, Place(file=Path(), offset=0, length=0))
            before.append(_seen(entry, row.model, run.score, run.tier, row.mechanism))
    return compare(now, before, scoring_id=previous.scoring_id, night=previous.night or "")


def _seen(entry: Entry, model: str, score: float, tier: str | None, mechanism: str | None) -> Seen:
    return Seen(
        path=entry.path,
        trajectory_id=entry.trajectory_id,
        model=model,
        score=score,
        tier=None if tier is None else str(tier),
        mechanism=None if mechanism is None else str(mechanism),
    )


def _reports(held: Held, scoring: Scoring, cohort: Cohort, scratch: Path) -> dict[str, bytes]:
    """Every form but JSON, of which only the frame is kept: the assessments stand in the database."""
    _lay_out(held, scoring, cohort, scratch)
    writers: dict[str, Callable[[Cohort, BinaryIO], None]] = {"html": write_html, "csv": write_csv}
    if find_spec("pyarrow") is not None:
        writers["parquet"] = write_parquet
    head, tail = json_frame(cohort)
    skipped = json.dumps([dataclasses.asdict(item) for item in cohort.skipped]).encode("ascii")
    reports = {"json-head": head, "json-tail": tail, "skipped": skipped, "table": _table(cohort)}
    for form, write in writers.items():
        held.check()
        out = io.BytesIO()
        write(cohort, out)
        reports[form] = out.getvalue()
    return reports


def _lay_out(held: Held, scoring: Scoring, cohort: Cohort, scratch: Path) -> None:
    """Put the runs that the page shows step by step, and the donors of their problems, where it looks for them."""
    chosen = [run.entry for _, run in select(list(cohort.counted))]
    wanted = {entry.place.file: entry for entry in chosen}
    for problem in {entry.problem for entry in chosen if entry.problem is not None}:
        donors = problem_donors(cohort.problem(problem), cohort.settings)
        wanted |= {entry.place.file: entry for entry in donors}
    numbers = [int(place.name.removeprefix("run-")) for place in wanted]
    with held.context.database.begin() as connection:
        found = assessments.entries(connection, scoring.scoring_id, numbers)
        for number, document, _ in found:
            (run,) = gather.load_runs(connection, [document], tenant_id=scoring.tenant_id)
            (scratch / f"run-{number}").write_bytes(packed(run))


def _table(cohort: Cohort) -> bytes:
    text = io.StringIO()
    print_cohort(cohort, Console(file=text, highlight=False, width=_TABLE_WIDTH))
    return text.getvalue().encode("utf-8", "replace")
