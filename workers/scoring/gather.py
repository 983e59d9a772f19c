"""All runs of a scoring, put together from what was read of its files: the part of `consensus score` between
reading and scoring."""

from __future__ import annotations

import dataclasses
import hashlib
import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from workers.agentlens.assess import Run
from workers.agentlens.duplicates import actions
from workers.agentlens.formats import Labels, read_labels
from workers.agentlens.settings import SCORING_VERSION, ScoringSettings
from workers.agentlens.trajectory import Trajectory
from workers.core.scoring import PartState, ScoringStage
from workers.errors import InputError
from workers.provenance.digest import canonical
from workers.provenance.repository import blobs, readings, scoring_parts, trajectory_files
from workers.provenance.repository.scorings import Scoring
from workers.scoring.cohort import without_copies
from workers.scoring.manifest import Manifest, Unit
from workers.scoring.packing import unpacked
from workers.scoring.reading import still_holds
from workers.scoring.spool import Entry, InputFile, Place
from workers.trajectories import Skipped


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Gathered:
    """The entries of all runs, in the order of the input, with the reading each comes from; and what could not be
    read."""

    entries: tuple[Entry, ...]
    readings: tuple[str, ...]
    skipped: tuple[Skipped, ...]

    def run_digest(self, number: int) -> str:
        """Names what is known of a run, but for its outcome and its name in reports."""
        return _digest([self.readings[number], self.entries[number].position])


def run_digest(document: Mapping[str, Any]) -> str:
    """As `Gathered.run_digest`, of an entry that is kept with its scoring."""
    return _digest([document["reading"], document["position"]])


def _digest(value: object) -> str:
    return hashlib.sha256(canonical(value)).hexdigest()


def manifest_of(connection: Connection, scoring: Scoring) -> Manifest:
    """The files of a scoring. Raises: NotFoundError."""
    assert scoring.manifest_digest is not None  # noqa: S101 - the plan's first step
    return Manifest.of(
        trajectory_files.load_manifest(connection, scoring.manifest_digest, tenant_id=scoring.tenant_id)
    )


def valid_readings(connection: Connection, scoring: Scoring, manifest: Manifest) -> dict[int, str]:
    """By number of the unit the reading that still holds."""
    keys = {unit.number: unit.key(scoring.format_name) for unit in manifest.units}
    known = readings.find(connection, keys.values(), tenant_id=scoring.tenant_id)
    found: dict[int, str] = {}
    for unit in manifest.units:
        for reading_id, asked in known.get(keys[unit.number], ()):
            if still_holds(asked, unit, manifest.beside):
                found[unit.number] = reading_id
                break
    return found


def gather(connection: Connection, scoring: Scoring) -> Gathered:
    """Everything that was read, with the labels applied, as `consensus score` has it before it scores.

    Raises: InputError if nothing could be read, or if the labels name none of the runs."""
    manifest = manifest_of(connection, scoring)
    valid = valid_readings(connection, scoring, manifest)
    contents = readings.contents(connection, valid.values(), tenant_id=scoring.tenant_id)
    labels = _labels(connection, scoring)
    lost = _lost(connection, scoring)
    entries: list[Entry] = []
    sources: list[str] = []
    skipped: list[Skipped] = []
    for unit in manifest.units:
        if unit.number not in valid:
            why = lost.get(unit.number, "its reading is gone; score it again")
            skipped.append(Skipped(path=unit.name, error=f"{unit.name}: could not be read: {why}"))
            continue
        for position, item in enumerate(contents[valid[unit.number]]):
            if "error" in item:
                skipped.append(_placed(unit, Skipped(**item)))
            else:
                entries.append(_entry(unit, position, item, labels))
                sources.append(valid[unit.number])
    _check(scoring, entries, skipped, labels)
    of = dict(enumerate(zip(sources, [entry.position for entry in entries], strict=True)))

    def did(number: int) -> Sequence[Hashable]:
        packed = readings.packed(connection, [of[number]], tenant_id=scoring.tenant_id)
        return actions(unpacked(packed[of[number]]).trajectory.states)

    return Gathered(
        entries=tuple(without_copies(entries, did)), readings=tuple(sources), skipped=tuple(skipped)
    )


def _placed(unit: Unit, skipped: Skipped) -> Skipped:
    return (
        InputFile(place=unit.path, root=None, prefix=unit.prefix).placed(skipped) if unit.prefix else skipped
    )


def _entry(unit: Unit, position: int, item: Mapping[str, Any], labels: Labels | None) -> Entry:
    # As labels see a run: with the path that its log has below its own folder.
    named = Trajectory(
        trajectory_id=item["trajectory_id"], path=item["path"], format="", problem=item["problem"]
    )
    outcome = labels.outcome_of(named) if labels is not None else None
    return Entry(
        number=unit.number,
        position=position,
        path=unit.prefix + item["path"],
        trajectory_id=item["trajectory_id"],
        problem=None if item["problem"] is None else sys.intern(item["problem"]),
        model=sys.intern(item["model"] or ""),
        outcome=outcome or item["outcome"],
        sequence=item["sequence"],
        content=bytes.fromhex(item["content"]),
        acts=item["acts"],
        is_labelled=outcome is not None,
        place=Place(file=Path(), offset=0, length=0),
    )


def _labels(connection: Connection, scoring: Scoring) -> Labels | None:
    if scoring.labels_digest is None:
        return None
    data = blobs.content(connection, scoring.labels_digest, tenant_id=scoring.tenant_id)
    return read_labels(scoring.labels_name or "labels", data)


def _lost(connection: Connection, scoring: Scoring) -> dict[int, str]:
    """Why units were not read, where their part broke."""
    return {
        number: part.detail or "its worker was lost"
        for part in scoring_parts.of_stage(connection, scoring.scoring_id, ScoringStage.READ)
        if part.state is PartState.FAILED
        for number in part.work
    }


def _check(
    scoring: Scoring, entries: Sequence[Entry], skipped: Sequence[Skipped], labels: Labels | None
) -> None:
    if not entries:
        reasons = "; ".join(item.error for item in skipped[:3])
        more = f"; and {len(skipped) - 3} more" if len(skipped) > 3 else ""
        raise InputError(f"no trajectory could be read: {reasons}{more}")
    if labels is not None and not any(entry.is_labelled for entry in entries):
        raise InputError(
            f"{scoring.labels_name}: names none of the {len(entries)} runs by id, path or problem; "
            f"the first run's id is {entries[0].trajectory_id}"
        )


def settings_of(scoring: Scoring) -> ScoringSettings:
    """The scorer's settings that were asked for."""
    return ScoringSettings(**scoring.settings)


def settings_digest(settings: ScoringSettings) -> str:
    """Names a profile with all parameters."""
    return _digest(dataclasses.asdict(settings))


def reference_digest(donors: Iterable[str]) -> str:
    """Names the runs that references are drawn from by their digests: with another donor, or one that was read
    anew, it is another name."""
    return _digest(sorted(donors))


def assessment_id(gathered: Gathered, number: int, *, reference: str, settings: str) -> str:
    """Names everything that an assessment depends on."""
    entry = gathered.entries[number]
    original = None if entry.original is None else [entry.original.path, entry.original.trajectory_id]
    return _digest(
        [
            SCORING_VERSION,
            settings,
            reference,
            gathered.run_digest(number),
            entry.path,
            entry.outcome,
            original,
        ]
    )


def load_runs(connection: Connection, documents: Sequence[Mapping[str, Any]], *, tenant_id: str) -> list[Run]:
    """Runs as they are scored: with the outcome and the name that they have in this scoring."""
    places = [(document["reading"], document["position"]) for document in documents]
    packed = readings.packed(connection, places, tenant_id=tenant_id)
    found = []
    for document, place in zip(documents, places, strict=True):
        run = unpacked(packed[place])
        trajectory = dataclasses.replace(run.trajectory, path=document["path"], outcome=document["outcome"])
        found.append(dataclasses.replace(run, trajectory=trajectory))
    return found
