"""Scores any number of runs in little memory: what is known of them waits on disk, a problem at a time is scored.

Runs of one problem are scored against each other and may lie anywhere in the files. So a first pass reads
every file once and spools its runs, labelled and without the texts that scoring has no use for; a second pass
takes up one problem after the other and spools the assessments. In memory stays a small entry and a row a
run. Both passes are pure functions of a task, run here or in other processes; the result is the same."""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

from workers.agentlens.assess import Run, assess_all, pool, prepare
from workers.agentlens.cohort import Row, row
from workers.agentlens.duplicates import Original, content_digest
from workers.agentlens.forest import DonorPool
from workers.agentlens.formats import Labels
from workers.agentlens.intents import label
from workers.agentlens.reference import reachable
from workers.agentlens.report import assessment_document, to_bytes
from workers.agentlens.settings import ScoringSettings
from workers.agentlens.tier import Tier
from workers.agentlens.trajectory import RunOutcome, Trajectory
from workers.scoring.packing import packed, unpacked
from workers.trajectories import Skipped, load_each, load_labels, shown

_RUNS_AT_ONCE = 64


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class InputFile:
    """A file to read. place: its path, as text because there are many. root: the folder its name is relative
    to, None for a file that was named itself. prefix: what is put before that name, so that files of several
    roots stay apart. format_name: the reader to use, None to find it out."""

    place: str
    root: Path | None
    prefix: str = ""
    format_name: str | None = None

    @property
    def name(self) -> str:
        """The file's name in the report."""
        path = Path(self.place)
        name = path.name if self.root is None else path.relative_to(self.root).as_posix()
        return self.prefix + shown(name)

    def runs(self, labels: Labels | None = None) -> Iterator[Trajectory | Skipped]:
        """Its runs, with paths relative to its own root, and what of it cannot be read, named as in the
        report."""
        for item in load_each(Path(self.place), self.format_name, labels=labels, root=self.root):
            yield self.placed(item) if isinstance(item, Skipped) and self.prefix else item

    def placed(self, skipped: Skipped) -> Skipped:
        """What was skipped with the prefix before its name, there and where its sentence begins with it."""
        is_named = skipped.error.startswith(skipped.path)
        return dataclasses.replace(
            skipped,
            path=self.prefix + skipped.path,
            error=self.prefix + skipped.error if is_named else skipped.error,
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Bytes in a spool file."""

    file: Path
    offset: int
    length: int


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What stays in memory of a run between the passes. number, position: which file of the input and which
    record in it. sequence: digest of what the run did, as in `Trace`. content: as `content_digest`. acts: whether
    it did anything that is compared. original: the run that counts if this one is its copy."""

    number: int
    position: int
    path: str
    trajectory_id: str
    problem: str | None
    model: str
    outcome: RunOutcome
    sequence: str
    content: bytes
    acts: bool
    is_labelled: bool
    place: Place
    original: Original | None = None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """What stays in memory of an assessment. document: its bytes in the report's JSON form. is_kept:
    whether it is to be training data, for its tier was asked for."""

    entry: Entry
    row: Row
    score: float
    tier: Tier | None
    document: Place
    is_kept: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """Files to read in one go; `first` is the number of the first."""

    files: tuple[InputFile, ...]
    first: int
    labels: Path | None
    spool: Path


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ReadResult:
    files: int
    entries: tuple[Entry, ...]
    skipped: tuple[Skipped, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ScoreTask:
    """Runs of one problem, in order, and the donors that their references are drawn from; runs without a
    problem have none."""

    entries: tuple[Entry, ...]
    donors: tuple[Entry, ...]
    settings: ScoringSettings
    keep: frozenset[Tier]
    spool: Path


def read_files(task: ReadTask) -> ReadResult:
    """Read, label and spool the runs of some files. What cannot be read is returned as skipped."""
    labels = None if task.labels is None else _labels(task.labels)
    entries: list[Entry] = []
    skipped: list[Skipped] = []
    with task.spool.open("wb") as spool:
        for number, file in enumerate(task.files, start=task.first):
            for position, item in enumerate(file.runs(labels)):
                if isinstance(item, Skipped):
                    skipped.append(item)
                    continue
                is_labelled = labels is not None and labels.outcome_of(item) is not None
                path = sys.intern(file.prefix + item.path)
                run = prepare(dataclasses.replace(item, path=path, states=label(item.states)))
                entries.append(
                    Entry(
                        number=number,
                        position=position,
                        path=path,
                        trajectory_id=item.trajectory_id,
                        problem=_shared(item.problem),
                        model=_shared(item.model) or "",
                        outcome=item.outcome,
                        sequence=run.trace.sequence,
                        content=content_digest(item),
                        acts=bool(run.trace.acting),
                        is_labelled=is_labelled,
                        place=_append(spool, task.spool, packed(run)),
                    )
                )
    return ReadResult(files=len(task.files), entries=tuple(entries), skipped=tuple(skipped))


@functools.lru_cache(maxsize=1)
def _labels(path: Path) -> Labels:
    return load_labels(path)


def score_runs(task: ScoreTask) -> list[Scored]:
    """Score runs of one problem against each other and spool their documents."""
    donors = _pool(task.donors, task.settings)
    scored: list[Scored] = []
    with task.spool.open("wb") as spool:
        for start in range(0, len(task.entries), _RUNS_AT_ONCE):
            entries = task.entries[start : start + _RUNS_AT_ONCE]
            runs = [spooled_run(entry) for entry in entries]
            for entry, assessment in zip(entries, assess_all(runs, donors), strict=True):
                keep = assessment.tier in task.keep and entry.original is None
                scored.append(
                    Scored(
                        entry=entry,
                        row=_small(row(assessment)),
                        score=assessment.score,
                        tier=assessment.tier,
                        document=_append(
                            spool,
                            task.spool,
                            to_bytes(assessment_document(assessment, duplicate_of=entry.original)),
                        ),
                        is_kept=keep,
                    )
                )
    return scored


def _small(kept: Row) -> Row:
    """A row that shares its texts, and what of it takes few values, with the others: there are as many as
    runs."""
    return dataclasses.replace(
        kept,
        problem=_shared(kept.problem),
        model=sys.intern(kept.model),
        tiers=_tiers(tuple(kept.tiers.items())),
        wasted=_wasted(tuple(sorted(kept.wasted.items()))),
    )


@functools.lru_cache(maxsize=1024)
def _tiers(items: tuple[tuple[str, Tier | None], ...]) -> Mapping[str, Tier | None]:
    return dict(items)


@functools.lru_cache(maxsize=1024)
def _wasted(items: tuple[tuple[str, int], ...]) -> Mapping[str, int]:
    return dict(items)


def _shared(name: str | None) -> str | None:
    return None if name is None else sys.intern(name)


def problem_donors(entries: Iterable[Entry], settings: ScoringSettings) -> tuple[Entry, ...]:
    """The passing runs of one problem that its references are drawn from. Of those that did the same, only the
    one that counts is taken; runs without a problem are nobody's donors."""
    unique: dict[str, Entry] = {}
    for entry in sorted(entries, key=lambda e: (e.sequence, e.model, e.trajectory_id)):
        if entry.outcome == "passed" and entry.problem is not None and entry.acts:
            unique.setdefault(entry.sequence, entry)
    return tuple(reachable(list(unique.values()), settings))


def problem_pool(entries: Iterable[Entry], settings: ScoringSettings) -> DonorPool:
    """The references of one problem. In memory are the donors that a draw takes, however many passed; the
    candidates stream by later."""
    return _pool(problem_donors(entries, settings), settings)


@functools.lru_cache(maxsize=1)
def _pool(donors: tuple[Entry, ...], settings: ScoringSettings) -> DonorPool:
    return pool(map(spooled_run, donors), settings)


def spooled_run(entry: Entry) -> Run:
    """A run as it was spooled: labelled, without observations, thoughts and the text of edits."""
    return unpacked(fetch(entry.place))


def fetch(place: Place) -> bytes:
    """The bytes at a place."""
    with place.file.open("rb") as spool:
        spool.seek(place.offset)
        return spool.read(place.length)


def _append(spool: BinaryIO, file: Path, data: bytes) -> Place:
    place = Place(file=file, offset=spool.tell(), length=len(data))
    spool.write(data)
    return place
