"""The stage between reading and scoring: which runs are copies, which belong together, against what each is scored,
and which assessments are there already."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from workers.agentlens.settings import ScoringSettings
from workers.core.scoring import ScoringStage
from workers.provenance.repository import assessments, scoring_parts, scorings
from workers.provenance.repository.assessments import NewScoringRun
from workers.provenance.repository.scoring_parts import NewPart
from workers.scoring import gather
from workers.scoring.cohort import groups
from workers.scoring.parts import Held
from workers.scoring.rows import entry_document


def group(held: Held) -> None:
    """Find copies, problems and references, and open a part for each problem that has runs without an
    assessment."""
    context, key = held.context, held.part.key
    with context.database.begin() as connection:
        scoring = scorings.of_worker(connection, key.scoring_id)
        gathered = gather.gather(connection, scoring)
        planned = _planned(gathered, gather.settings_of(scoring))
        there = assessments.present(
            connection, [p.assessment_id for p in planned], tenant_id=scoring.tenant_id
        )
        before = assessments.assessed_before(
            connection,
            [gathered.run_digest(p.number) for p in planned if p.assessment_id not in there],
            settings_digest=gather.settings_digest(gather.settings_of(scoring)),
            tenant_id=scoring.tenant_id,
        )
        missing = [p for p in planned if p.assessment_id not in there]
        assessments.store_runs(connection, key.scoring_id, _runs(gathered, planned))
        parts = _parts(planned, {p.number for p in missing})
        scoring_parts.open_parts(connection, key.scoring_id, ScoringStage.SCORE, parts)
        scorings.change(
            connection,
            key.scoring_id,
            run_count=len(planned),
            problem_count=len({e.problem for e in gathered.entries if e.problem is not None}),
            reused_count=len(planned) - len(missing),
            stale_count=sum(gathered.run_digest(p.number) in before for p in missing),
            skipped_count=len(gathered.skipped),
        )
        held.done(connection)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Planned:
    """A run and what it is scored against. part: which piece of work it belongs to."""

    number: int
    part: int
    problem: str | None
    donors: tuple[int, ...]
    assessment_id: str


def _planned(gathered: gather.Gathered, settings: ScoringSettings) -> list[_Planned]:
    numbers = {id(entry): number for number, entry in enumerate(gathered.entries)}
    settings_digest = gather.settings_digest(settings)
    found = []
    for part, (entries, donors) in enumerate(groups(gathered.entries, settings)):
        of = tuple(numbers[id(donor)] for donor in donors)
        reference = gather.reference_digest(gathered.run_digest(number) for number in of)
        for entry in entries:
            number = numbers[id(entry)]
            identity = gather.assessment_id(gathered, number, reference=reference, settings=settings_digest)
            found.append(
                _Planned(number=number, part=part, problem=entry.problem, donors=of, assessment_id=identity)
            )
    return found


def _parts(planned: Sequence[_Planned], missing: set[int]) -> list[NewPart]:
    by_part: dict[int, list[_Planned]] = {}
    for run in planned:
        by_part.setdefault(run.part, []).append(run)
    return [
        NewPart(
            number=number,
            work=[run.number for run in runs if run.number in missing],
            donors=runs[0].donors,
            is_done=not any(run.number in missing for run in runs),
            label=runs[0].problem,
            run_count=len(runs),
        )
        for number, runs in by_part.items()
    ]


def _runs(gathered: gather.Gathered, planned: Sequence[_Planned]) -> list[NewScoringRun]:
    identities = {run.number: run.assessment_id for run in planned}

    def order(number: int) -> tuple[str, str, int]:
        entry = gathered.entries[number]
        return entry.path, entry.trajectory_id, entry.position

    # Runs that are alike in all of this stay in the order in which `consensus score` meets them.
    places = sorted((run.number for run in planned), key=order)
    return [
        NewScoringRun(
            number=number,
            place=place,
            entry=entry_document(gathered.entries[number], gathered.readings[number]),
            assessment_id=identities[number],
        )
        for place, number in enumerate(places)
    ]
