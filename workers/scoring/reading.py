"""Reads one unit of a scoring as `consensus score` would read it from a folder, and remembers what it asked for."""

from __future__ import annotations

import dataclasses
import hashlib
import posixpath
import tempfile
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from workers.agentlens.assess import prepare
from workers.agentlens.duplicates import content_digest
from workers.agentlens.intents import label
from workers.agentlens.trajectory import Trajectory
from workers.provenance.digest import canonical
from workers.provenance.repository.readings import Asked, NewReading
from workers.scoring.manifest import Folder, Unit
from workers.scoring.packing import packed
from workers.trajectories import Skipped, load_each, names_beside

Fetch = Callable[[str], Iterable[bytes]]
"""Gives the bytes under a digest, piece by piece."""

#: A conversation that is all of what was uploaded has no folder's name.
_NAMELESS: Final = "run"


class _Beside:
    """Gives a reader the files beside its log, out of what was uploaded with it."""

    def __init__(
        self, path: str, files: Mapping[str, str], fetch: Fetch, asked: dict[str, str | None]
    ) -> None:
        self.asked = asked
        self._folder, self._own = posixpath.split(path)
        self._files = files
        self._fetch = fetch

    def __call__(self, name: str) -> bytes | None:
        for candidate in names_beside(self._own, name):
            path = posixpath.normpath(posixpath.join(self._folder, candidate))
            if path.startswith(("/", "../")) or path == "..":
                continue
            digest = self._files.get(path)
            self.asked[path] = digest
            if digest is not None:
                return b"".join(self._fetch(digest))
        return None


def read_unit(
    unit: Unit,
    files: Mapping[Folder, Mapping[str, str]],
    *,
    format_name: str | None,
    fetch: Fetch,
) -> NewReading:
    """The runs of a unit, labelled and packed, and what of it cannot be read."""
    asked: dict[str, str | None] = {}
    items: list[dict[str, Any]] = []
    runs: dict[int, bytes] = {}
    for position, item in enumerate(
        runs_of_unit(unit, files, format_name=format_name, fetch=fetch, asked=asked)
    ):
        if isinstance(item, Skipped):
            items.append(dataclasses.asdict(item))
            continue
        run = prepare(dataclasses.replace(item, states=label(item.states)))
        items.append(_item(item, sequence=run.trace.sequence, acts=bool(run.trace.acting)))
        runs[position] = packed(run)
    key = unit.key(format_name)
    return NewReading(
        reading_id=hashlib.sha256(canonical([key, asked])).hexdigest(),
        unit_key=key,
        asked=asked,
        contents=items,
        packed=runs,
    )


def runs_of_unit(
    unit: Unit,
    files: Mapping[Folder, Mapping[str, str]],
    *,
    format_name: str | None,
    fetch: Fetch,
    asked: dict[str, str | None] | None = None,
) -> Generator[Trajectory | Skipped, None, None]:
    """The runs of a unit as its reader gives them. asked: takes what the reader asked for beside its log."""
    beside = _Beside(
        posixpath.join(unit.path, "events.jsonl") if unit.is_conversation else unit.path,
        files[unit.folder],
        fetch,
        {} if asked is None else asked,
    )
    with tempfile.TemporaryDirectory(prefix="consensus-read-", ignore_cleanup_errors=True) as scratch:
        root = Path(scratch) / _NAMELESS
        for path, digest in unit.files:
            _write(root / path, fetch(digest))
        yield from load_each(root / unit.path, format_name, root=root, beside=beside)


def still_holds(asked: Asked, unit: Unit, files: Mapping[Folder, Mapping[str, str]]) -> bool:
    """Whether a reader would find today what it found then."""
    here = files[unit.folder]
    return all(here.get(path) == digest for path, digest in asked.items())


def _write(place: Path, pieces: Iterable[bytes]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    with place.open("wb") as file:
        file.writelines(pieces)


def _item(run: Trajectory, *, sequence: str, acts: bool) -> dict[str, Any]:
    return {
        "path": run.path,
        "trajectory_id": run.trajectory_id,
        "problem": run.problem,
        "model": run.model,
        "outcome": run.outcome,
        "sequence": sequence,
        "content": content_digest(run).hex(),
        "acts": acts,
    }
