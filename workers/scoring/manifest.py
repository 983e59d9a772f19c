"""Which of the uploaded files are runs, and which lie beside them: the walk of `workers.trajectories`, over names
instead of folders."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath

from workers.agentlens.settings import SCORING_VERSION
from workers.provenance.digest import canonical
from workers.provenance.repository.trajectory_files import ManifestFile
from workers.trajectories import is_log_name, owner_of, shown

_STATE, _EVENTS = "base_state.json", "events"
#: Names are looked at below some folder, as they are on disk.
_ROOT = PurePosixPath("/folder")

Folder = tuple[str, str]
"""What files lie in beside each other: upload set and prefix."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """What is read in one go: a file, or the folder of a conversation. number: its place in the order of names.
    files: path and digest of what it consists of."""

    number: int
    folder: Folder
    path: str
    files: tuple[tuple[str, str], ...]
    is_conversation: bool = False

    @property
    def prefix(self) -> str:
        """What stands before its path in reports."""
        return self.folder[1]

    @property
    def name(self) -> str:
        """Its name in reports."""
        return self.prefix + shown(self.path)

    def key(self, format_name: str | None) -> str:
        """Digest of everything in it that its reading depends on; what lies beside it is asked for by the
        reader."""
        parts = [SCORING_VERSION, format_name, self.path, [list(file) for file in self.files]]
        return hashlib.sha256(canonical(parts)).hexdigest()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The files of a scoring. beside: by folder the digest of each path."""

    units: tuple[Unit, ...]
    beside: Mapping[Folder, Mapping[str, str]]

    @classmethod
    def of(cls, files: Iterable[ManifestFile]) -> Manifest:
        """Find the runs among the files."""
        folders: dict[Folder, list[ManifestFile]] = {}
        for file in files:
            folders.setdefault((file.folder, file.prefix), []).append(file)
        found = [unit for folder, of in folders.items() for unit in _units(folder, of)]
        found.sort(key=lambda unit: (unit.name, unit.folder))
        return cls(
            units=tuple(dataclasses.replace(unit, number=number) for number, unit in enumerate(found)),
            beside={folder: {file.path: file.digest for file in of} for folder, of in folders.items()},
        )


def _units(folder: Folder, files: Sequence[ManifestFile]) -> list[Unit]:
    digests = {file.path: file.digest for file in files}
    conversations = _conversations(digests)
    found = [
        Unit(
            number=0,
            folder=folder,
            path=place,
            files=tuple((path, digests[path]) for path in paths),
            is_conversation=True,
        )
        for place, paths in conversations.items()
    ]
    for file in files:
        is_run = file.role == "run" if file.role is not None else _is_run(file.path, digests)
        if is_run and not any(str(above) in conversations for above in PurePosixPath(file.path).parents):
            found.append(Unit(number=0, folder=folder, path=file.path, files=((file.path, file.digest),)))
    return found


def _conversations(digests: Mapping[str, str]) -> dict[str, list[str]]:
    """By its path the files of each folder that is one run: its state and its events."""
    found: dict[str, list[str]] = {}
    for path in digests:
        if PurePosixPath(path).name == _STATE:
            found[str(PurePosixPath(path).parent)] = [path]
    for path in sorted(digests):
        place = PurePosixPath(path)
        if place.parent.name == _EVENTS and (of := found.get(str(place.parent.parent))) is not None:
            of.append(path)
    return {
        place: of
        for place, of in found.items()
        if len(of) > 1 and not any(part.startswith(".") and part != "." for part in place.split("/"))
    }


def _is_run(path: str, digests: Mapping[str, str]) -> bool:
    place = _ROOT / path
    if any(part.startswith(".") for part in PurePosixPath(path).parts) or not is_log_name(place):
        return False
    owner = owner_of(place)
    return owner is None or not (owner.is_relative_to(_ROOT) and str(owner.relative_to(_ROOT)) in digests)
