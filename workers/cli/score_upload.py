"""Sends trajectories to a server: names and digests of all, bytes only of what it lacks."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from workers.cli.score_cohort import Progress
from workers.cli.scoring_client import ScoringClient
from workers.scoring.spool import InputFile
from workers.trajectories import Neighbours, load_each, shown
from workers.uploads import files_beside

_NAMES_AT_ONCE: Final = 500
_FILES_AT_ONCE: Final = 100
_BYTES_AT_ONCE: Final = 8 << 20
_PIECE_BYTES: Final = 1 << 20


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A file as the server is to know it. path: below the folder it is read in; prefix: before that in reports."""

    place: Path
    prefix: str
    path: str
    role: str
    digest: str = ""
    size_bytes: int = 0

    @property
    def name(self) -> str:
        return self.prefix + self.path


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Uploaded:
    """What the server has now. refused: (name, sentence) of what it does not take."""

    upload_set: str
    refused: tuple[tuple[str, str], ...]
    files: int
    sent_files: int
    sent_bytes: int


def upload(
    client: ScoringClient, files: Sequence[InputFile], roots: Iterable[Path], progress: Progress
) -> Uploaded:
    """Make sure that the server has all files and what is read beside them."""
    found = _unique(itertools.chain(_runs(files), _beside(files, roots)))
    refused: list[tuple[str, str]] = []
    listed = _digested(found, refused, progress)
    upload_set = _set_of(listed)
    missing: list[Sent] = []
    for some in _chunks(listed, _NAMES_AT_ONCE):
        answers = client.name_files(upload_set, [_line(file) for file in some])
        missing += [file for file, answer in zip(some, answers, strict=True) if answer["status"] == "missing"]
        refused += _refused(some, answers)
    progress.begin("uploading", len(missing))
    for batch in _batches(missing):
        names = [(file.path, file.place) for file in batch]
        answers = client.upload(upload_set, names, prefix=batch[0].prefix, role=batch[0].role)
        refused += _refused(batch, answers)
        progress.advance(len(batch))
    return Uploaded(
        upload_set=upload_set,
        refused=tuple(refused),
        files=len(listed),
        sent_files=len(missing),
        sent_bytes=sum(file.size_bytes for file in missing),
    )


def _digested(found: Sequence[Sent], refused: list[tuple[str, str]], progress: Progress) -> list[Sent]:
    progress.begin("looking at files", len(found))
    listed: list[Sent] = []
    for file in found:
        try:
            listed.append(_with_digest(file))
        except OSError as error:
            if file.role == "run":
                refused.append((file.name, f"{file.name}: cannot be opened: {error.strerror or error}"))
        progress.advance(1)
    return listed


def _refused(files: Sequence[Sent], answers: Sequence[dict[str, Any]]) -> list[tuple[str, str]]:
    return [
        (file.name, f"{file.name}: {answer['problem']}")
        for file, answer in zip(files, answers, strict=True)
        if answer["status"] == "refused"
    ]


def _runs(files: Iterable[InputFile]) -> Iterator[Sent]:
    for file in files:
        place = Path(file.place)
        base = _base(file)
        if place.is_dir():
            # A conversation: its state stands for it.
            yield _sent(place / "base_state.json", base, file.prefix, "run")
            for event in sorted((place / "events").glob("event-*.json")):
                yield _sent(event, base, file.prefix, "beside")
        else:
            yield _sent(place, base, file.prefix, "run")


def _base(file: InputFile) -> Path:
    return file.root if file.root is not None else Path(file.place).parent


def _beside(files: Iterable[InputFile], roots: Iterable[Path]) -> Iterator[Sent]:
    """Below a folder all that may be asked for; for a file that was named itself what its reader asks for."""
    prefixes = {file.root: file.prefix for file in files if file.root is not None}
    for root in roots:
        if root in prefixes:
            for place in files_beside(root):
                yield _sent(place, root, prefixes[root], "beside")
    for file in files:
        if file.root is None:
            asked = _Asked(file)
            for _ in load_each(Path(file.place), file.format_name, root=None, beside=asked):
                pass
            for place in asked.found:
                yield _sent(place, _base(file).resolve(), file.prefix, "beside")


class _Asked:
    """Gives a reader the files beside its log, and remembers which there were."""

    def __init__(self, file: InputFile) -> None:
        place = Path(file.place)
        self._neighbours = Neighbours(place / "events.jsonl" if place.is_dir() else place, _base(file))
        self.found: list[Path] = []

    def __call__(self, name: str) -> bytes | None:
        place = self._neighbours.find(name)
        if place is not None:
            self.found.append(place)
        return self._neighbours(name)


def _sent(place: Path, base: Path, prefix: str, role: str) -> Sent:
    return Sent(place=place, prefix=prefix, path=shown(place.relative_to(base).as_posix()), role=role)


def _unique(files: Iterable[Sent]) -> list[Sent]:
    """Each name once; a run is not also beside one."""
    found: dict[tuple[str, str], Sent] = {}
    for file in files:
        found.setdefault((file.prefix, file.path), file)
    return list(found.values())


def _with_digest(file: Sent) -> Sent:
    digest, size = hashlib.sha256(), 0
    with file.place.open("rb") as opened:
        while piece := opened.read(_PIECE_BYTES):
            digest.update(piece)
            size += len(piece)
    return dataclasses.replace(file, digest=digest.hexdigest(), size_bytes=size)


def _set_of(files: Iterable[Sent]) -> str:
    """The same files are the same set, whoever sends them and how often."""
    names = sorted([file.prefix, file.path, file.digest, file.role] for file in files)
    return f"cli-{hashlib.sha256(json.dumps(names).encode('ascii')).hexdigest()[:32]}"


def _line(file: Sent) -> dict[str, str]:
    return {"path": file.path, "prefix": file.prefix, "role": file.role, "digest": file.digest}


def _chunks(files: Sequence[Sent], count: int) -> Iterator[Sequence[Sent]]:
    for start in range(0, len(files), count):
        yield files[start : start + count]


def _batches(files: Iterable[Sent]) -> Iterator[list[Sent]]:
    """Files of one prefix and role, so many at once that a request stays small."""
    ordered = sorted(files, key=lambda file: (file.prefix, file.role))
    for _, of in itertools.groupby(ordered, key=lambda file: (file.prefix, file.role)):
        batch: list[Sent] = []
        size = 0
        for file in of:
            if batch and (size + file.size_bytes > _BYTES_AT_ONCE or len(batch) == _FILES_AT_ONCE):
                yield batch
                batch, size = [], 0
            batch.append(file)
            size += file.size_bytes
        if batch:
            yield batch
