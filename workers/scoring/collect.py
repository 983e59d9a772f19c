"""Takes up the files of a folder for a scoring that is made of one: stores what is new of them, and writes down which
files there are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from workers.errors import InputError
from workers.provenance.repository import blobs, scorings, trajectory_files
from workers.provenance.repository.scorings import Scoring
from workers.provenance.repository.trajectory_files import ManifestFile
from workers.scoring.parts import Held
from workers.trajectories import Skipped, shown, walk
from workers.uploads import files_beside

_FILES_AT_ONCE: Final = 50


def collect(held: Held, scoring: Scoring) -> None:
    """Store the folder's files and the manifest. Raises: InputError if the folder is not there or holds nothing."""
    assert scoring.folder is not None  # noqa: S101 - there is no manifest
    root = Path(scoring.folder)
    if not root.is_dir():
        raise InputError(
            f"{shown(scoring.folder)}: no such folder on this worker; a schedule's folder must be there"
        )
    unopened: list[tuple[str, str]] = []
    files: list[ManifestFile] = []
    for places in _some(_places(root, unopened)):
        held.check()
        files += _stored(held, scoring, root, places, unopened)
    if not files:
        raise InputError(f"{shown(scoring.folder)}: holds no file of trajectories")
    with held.context.database.begin() as connection:
        digest = trajectory_files.store_manifest(connection, files, tenant_id=scoring.tenant_id)
        scorings.change(connection, scoring.scoring_id, manifest_digest=digest, unopened=json.dumps(unopened))


def _places(root: Path, unopened: list[tuple[str, str]]) -> Iterator[tuple[Path, str]]:
    """Each file below the root with its role."""
    for found in walk(root):
        if isinstance(found, Skipped):
            unopened.append((found.path, found.error))
        elif found.is_dir():
            yield from ((place, "beside") for place in sorted((found / "events").glob("event-*.json")))
            yield found / "base_state.json", "run"
        else:
            yield found, "run"
    yield from ((place, "beside") for place in files_beside(root))


def _some(places: Iterator[tuple[Path, str]]) -> Iterator[list[tuple[Path, str]]]:
    batch: list[tuple[Path, str]] = []
    for place in places:
        batch.append(place)
        if len(batch) == _FILES_AT_ONCE:
            yield batch
            batch = []
    yield batch


def _stored(
    held: Held,
    scoring: Scoring,
    root: Path,
    places: list[tuple[Path, str]],
    unopened: list[tuple[str, str]],
) -> list[ManifestFile]:
    found = []
    with held.context.database.begin() as connection:
        for place, role in places:
            name = shown(place.relative_to(root).as_posix())
            try:
                size = place.stat().st_size
                if size > held.context.max_file_bytes:
                    limit = held.context.max_file_bytes
                    unopened.append((name, f"{name}: has {size:,} bytes, more than {limit:,}"))
                    continue
                with place.open("rb") as file:
                    digest = blobs.store(connection, file, tenant_id=scoring.tenant_id).digest
            except OSError as error:
                unopened.append((name, f"{name}: cannot be opened: {error.strerror or error}"))
                continue
            found.append(ManifestFile(folder="", prefix="", path=name, digest=digest, role=role))
    return found
