"""From an address to a run: finds its file, reads it whole, and looks up what scorings said of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import orjson

from workers.agentlens.assess import Run, prepare
from workers.agentlens.formats.seen import OBSERVATION_LIMIT, whole_observations
from workers.agentlens.intents import label
from workers.agentlens.trajectory import Trajectory
from workers.core.scoring import ScoringState
from workers.errors import InputError, NotFoundError, StateError
from workers.inspection.address import RunAddress
from workers.inspection.opened import Against, OpenedRun, hold_against
from workers.inspection.texts import sound
from workers.provenance.repository import (
    assessments,
    blobs,
    readings,
    scored_runs,
    scorings,
    trajectory_files,
)
from workers.provenance.repository.assessments import ScoringRun
from workers.provenance.repository.scored_runs import Standing
from workers.provenance.repository.scorings import Scoring
from workers.provenance.repository.trajectory_files import StoredFile
from workers.provenance.session import Database
from workers.scoring import gather
from workers.scoring.manifest import Manifest, Unit
from workers.scoring.reading import runs_of_unit, still_holds
from workers.trajectories import Skipped

OTHER_RULES = "its reference cannot be drawn any more: other rules, or files that have gone, made it"


def open_scored(database: Database, address: RunAddress, *, tenant_id: str) -> OpenedRun:
    """A run of a scoring. Raises: NotFoundError; StateError for a scoring that has not ended well; InputError if the
    file cannot be read any more."""
    with database.begin() as connection:
        scoring = scorings.get(connection, address.owner, tenant_id=tenant_id)
        if scoring.state is not ScoringState.FINISHED:
            raise StateError(
                f"scoring {scoring.scoring_id} is {scoring.state}; its runs are shown once it has finished"
            )
        found = assessments.report_rows(
            connection, address.owner, tenant_id=tenant_id, after=address.number - 1, limit=1
        )
        manifest = gather.manifest_of(connection, scoring)
    if not found or found[0].place != address.number:
        raise NotFoundError(f"scoring {address.owner} has no run {address.number}")
    scored = found[0]
    unit = manifest.units[scored.entry["number"]]
    whole = _read(
        database,
        unit,
        manifest,
        scored.entry["position"],
        format_name=scoring.format_name,
        tenant_id=tenant_id,
    )
    trajectory = dataclasses.replace(whole, path=scored.entry["path"], outcome=scored.entry["outcome"])
    run, observations = _cut(trajectory)
    document = None if scored.document is None else orjson.loads(scored.document)
    against = _against(database, scoring, scored, run, document)
    with database.begin() as connection:
        file_id = trajectory_files.find_id(
            connection, upload_set=unit.folder[0], prefix=unit.prefix, path=unit.path, tenant_id=tenant_id
        )
    had_reference = document is not None and document["reference"] is not None
    return OpenedRun(
        address=address,
        file_id=file_id,
        run=run,
        observations=observations,
        document=document,
        scoring_id=scoring.scoring_id,
        against=against,
        note=OTHER_RULES if had_reference and against is None else None,
    )


def open_file_run(database: Database, address: RunAddress, *, tenant_id: str) -> OpenedRun:
    """A record of an uploaded file, whatever scorings say. Raises: NotFoundError; InputError if it cannot be read."""
    with database.begin() as connection:
        file = trajectory_files.get(connection, address.owner, tenant_id=tenant_id)
    unit, manifest = unit_of(database, file, tenant_id=tenant_id)
    whole = _read(database, unit, manifest, address.number, format_name=None, tenant_id=tenant_id)
    run, observations = _cut(dataclasses.replace(whole, path=file.prefix + whole.path))
    return OpenedRun(address=address, file_id=file.file_id, run=run, observations=observations)


def unit_of(database: Database, file: StoredFile, *, tenant_id: str) -> tuple[Unit, Manifest]:
    """What an uploaded file is read as, with what lies beside it. Raises: InputError for one that is no run of its
    own."""
    with database.begin() as connection:
        manifest = Manifest.of(
            trajectory_files.of_folder(
                connection, upload_set=file.upload_set, prefix=file.prefix, tenant_id=tenant_id
            )
        )
    for unit in manifest.units:
        if any(path == file.path for path, _ in unit.files):
            return unit, manifest
    raise InputError(f"{file.path}: is read beside a log and is no run of its own")


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """A record of a file as its reading has it. error: why it is no run."""

    position: int
    trajectory_id: str | None
    problem: str | None
    model: str | None
    outcome: str | None
    error: str | None


def records_of(
    database: Database, file: StoredFile, *, tenant_id: str
) -> tuple[list[Record] | None, list[Standing]]:
    """The records of an uploaded file if some scoring has read it, and where its runs stand in scorings; None: nobody
    has."""
    unit, manifest = unit_of(database, file, tenant_id=tenant_id)
    key = unit.key(None)
    with database.begin() as connection:
        known = readings.find(connection, [key], tenant_id=tenant_id).get(key, [])
        reading_id = next((of for of, asked in known if still_holds(asked, unit, manifest.beside)), None)
        if reading_id is None:
            return None, []
        contents = readings.contents(connection, [reading_id], tenant_id=tenant_id)[reading_id]
        digests = {
            gather.run_digest({"reading": reading_id, "position": position}): position
            for position, item in enumerate(contents)
            if "error" not in item
        }
        standings = scored_runs.standings(connection, digests, tenant_id=tenant_id)
    records = [
        Record(
            position=position,
            trajectory_id=item.get("trajectory_id"),
            problem=item.get("problem"),
            model=item.get("model"),
            outcome=item.get("outcome"),
            error=item.get("error"),
        )
        for position, item in enumerate(contents)
    ]
    return records, [
        dataclasses.replace(standing, run_digest=str(digests[standing.run_digest])) for standing in standings
    ]


def _read(
    database: Database,
    unit: Unit,
    manifest: Manifest,
    position: int,
    *,
    format_name: str | None,
    tenant_id: str,
) -> Trajectory:
    def fetch(digest: str) -> Iterator[bytes]:
        with database.begin() as connection:
            yield from blobs.pieces(connection, digest, tenant_id=tenant_id)

    reading = runs_of_unit(unit, manifest.beside, format_name=format_name, fetch=fetch)
    with whole_observations(), closing(reading) as items:
        for number, item in enumerate(items):
            if number < position:
                continue
            if isinstance(item, Skipped):
                raise InputError(item.error)
            return item
    raise NotFoundError(f"{unit.name}: has no record {position}")


def _cut(whole: Trajectory) -> tuple[Run, tuple[str, ...]]:
    """The run as the scorer sees it, and its whole observations."""
    states = tuple(
        state
        if len(state.observation) <= OBSERVATION_LIMIT
        else dataclasses.replace(state, observation=state.observation[:OBSERVATION_LIMIT])
        for state in whole.states
    )
    run = prepare(
        dataclasses.replace(
            whole,
            trajectory_id=sound(whole.trajectory_id),
            path=sound(whole.path),
            problem=None if whole.problem is None else sound(whole.problem),
            model=None if whole.model is None else sound(whole.model),
            warnings=tuple(map(sound, whole.warnings)),
            states=label(states),
        )
    )
    return run, tuple(state.observation for state in whole.states)


def _against(
    database: Database,
    scoring: Scoring,
    scored: ScoringRun,
    run: Run,
    document: Mapping[str, Any] | None,
) -> Against | None:
    if document is None or document["reference"] is None:
        return None
    with database.begin() as connection:
        numbers = scored_runs.donors(connection, scoring.scoring_id, scored.entry["problem"])
        entries = [entry for _, entry, _ in assessments.entries(connection, scoring.scoring_id, numbers)]
        places = [(entry["reading"], entry["position"]) for entry in entries]
        if len(readings.packed(connection, places, tenant_id=scoring.tenant_id)) < len(set(places)):
            return None
        donors = gather.load_runs(connection, entries, tenant_id=scoring.tenant_id)
    return hold_against(run, donors, gather.settings_of(scoring), document)
