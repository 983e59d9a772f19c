"""What the stages of a scoring do: plan, read, group (`grouping`), score, merge (`merge`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final

from workers.agentlens.assess import Assessment, assess_all, pool
from workers.agentlens.cohort import row
from workers.agentlens.duplicates import Original
from workers.agentlens.report import assessment_document, to_bytes
from workers.agentlens.settings import SCORING_VERSION, ScoringSettings
from workers.core.scoring import ScoringStage
from workers.provenance.repository import assessments, blobs, readings, scoring_parts, scorings
from workers.provenance.repository.assessments import NewAssessment
from workers.provenance.repository.scoring_parts import NewPart
from workers.scoring import gather
from workers.scoring.collect import collect
from workers.scoring.context import ScoringContext
from workers.scoring.grouping import group
from workers.scoring.merge import merge
from workers.scoring.parts import Held, Work
from workers.scoring.reading import read_unit
from workers.scoring.rows import row_text

_UNITS_AT_ONCE: Final = 32
_RUNS_AT_ONCE: Final = 64


def plan(held: Held) -> None:
    """Find the files that are runs, and open a part for every few that were not read before."""
    context, key = held.context, held.part.key
    with context.database.begin() as connection:
        scoring = scorings.of_worker(connection, key.scoring_id)
    if scoring.manifest_digest is None:
        collect(held, scoring)
    with context.database.begin() as connection:
        scoring = scorings.of_worker(connection, key.scoring_id)
        manifest = gather.manifest_of(connection, scoring)
        valid = gather.valid_readings(connection, scoring, manifest)
        unread = [unit.number for unit in manifest.units if unit.number not in valid]
        parts = [
            NewPart(number=number, work=some, run_count=len(some))
            for number, some in enumerate(some(unread, _UNITS_AT_ONCE))
        ]
        scoring_parts.open_parts(connection, key.scoring_id, ScoringStage.READ, parts)
        scorings.change(
            connection, key.scoring_id, file_count=len(manifest.units), scoring_version=SCORING_VERSION
        )
        held.done(connection, computed_count=len(unread))


def read(held: Held) -> None:
    """Read a part's files, label their runs, and keep them."""
    context, key = held.context, held.part.key
    with context.database.begin() as connection:
        scoring = scorings.of_worker(connection, key.scoring_id)
        manifest = gather.manifest_of(connection, scoring)
    fetch = partial(_fetch, context, scoring.tenant_id)
    for number in held.part.work:
        held.check()
        unit = manifest.units[number]
        reading = read_unit(unit, manifest.beside, format_name=scoring.format_name, fetch=fetch)
        with context.database.begin() as connection:
            readings.store(connection, reading, tenant_id=scoring.tenant_id)
    with context.database.begin() as connection:
        held.done(connection, computed_count=len(held.part.work))


def _fetch(context: ScoringContext, tenant_id: str, digest: str) -> Iterator[bytes]:
    with context.database.begin() as connection:
        yield from blobs.pieces(connection, digest, tenant_id=tenant_id)


def score(held: Held) -> None:
    """Score a part's runs against the references of their problem."""
    context, key = held.context, held.part.key
    with context.database.begin() as connection:
        scoring = scorings.of_worker(connection, key.scoring_id)
        settings = gather.settings_of(scoring)
        donors = [entry for _, entry, _ in assessments.entries(connection, key.scoring_id, held.part.donors)]
        runs = gather.load_runs(connection, donors, tenant_id=scoring.tenant_id)
    references = pool(runs, settings)
    reference = gather.reference_digest(gather.run_digest(donor) for donor in donors)
    for numbers in some(held.part.work, _RUNS_AT_ONCE):
        held.check()
        with context.database.begin() as connection:
            found = assessments.entries(connection, key.scoring_id, numbers)
            runs = gather.load_runs(connection, [entry for _, entry, _ in found], tenant_id=scoring.tenant_id)
        new = [
            _new(assessment, entry, identity, reference=reference, settings=settings)
            for assessment, (_, entry, identity) in zip(assess_all(runs, references), found, strict=True)
        ]
        with context.database.begin() as connection:
            assessments.store(connection, new, tenant_id=scoring.tenant_id)
    with context.database.begin() as connection:
        held.done(connection, computed_count=len(held.part.work))


def _new(
    assessment: Assessment,
    entry: Mapping[str, Any],
    identity: str,
    *,
    reference: str,
    settings: ScoringSettings,
) -> NewAssessment:
    original = entry["original"]
    document = assessment_document(
        assessment, duplicate_of=None if original is None else Original(**original)
    )
    return NewAssessment(
        assessment_id=identity,
        run_digest=gather.run_digest(entry),
        settings_digest=gather.settings_digest(settings),
        reference_digest=reference,
        scoring_version=SCORING_VERSION,
        score=assessment.score,
        tier=assessment.tier,
        row=row_text(row(assessment)),
        document=to_bytes(document),
    )


def some(numbers: Sequence[int], count: int) -> Iterator[Sequence[int]]:
    """The numbers, some at a time."""
    for start in range(0, len(numbers), count):
        yield numbers[start : start + count]


WORK: Final[Mapping[ScoringStage, Work]] = {
    ScoringStage.PLAN: plan,
    ScoringStage.READ: read,
    ScoringStage.GROUP: group,
    ScoringStage.SCORE: score,
    ScoringStage.MERGE: merge,
}
