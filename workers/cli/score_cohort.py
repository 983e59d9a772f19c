"""The two passes over a folder of runs: which files, in which processes, and what comes out."""

from __future__ import annotations

import dataclasses
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol, TypeVar

from workers.agentlens.duplicates import actions
from workers.agentlens.settings import DEFAULT_SETTINGS, ScoringSettings
from workers.agentlens.tier import Tier
from workers.errors import InputError, UnavailableError
from workers.scoring.cohort import Cohort, groups, without_copies
from workers.scoring.spool import (
    Entry,
    InputFile,
    ReadTask,
    Scored,
    ScoreTask,
    read_files,
    score_runs,
    spooled_run,
)
from workers.trajectories import Skipped, load_labels, shown, walk

_FILES_AT_ONCE = 16

_Task = TypeVar("_Task")
_Result = TypeVar("_Result")


class _Map(Protocol):
    def __call__(self, work: Callable[[_Task], _Result], tasks: Sequence[_Task], /) -> Iterator[_Result]: ...


class Progress(Protocol):
    """Is told how far the passes are."""

    def begin(self, what: str, total: int) -> None:
        """A pass over `total` things starts."""

    def advance(self, by: int) -> None:
        """So many more are done."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to score and how. keep: tiers whose assessments are kept for an export. output: a file that is
    written, never read."""

    paths: tuple[Path, ...]
    labels: Path | None = None
    format_name: str | None = None
    settings: ScoringSettings = DEFAULT_SETTINGS
    keep: frozenset[Tier] = frozenset()
    jobs: int = 1
    output: Path | None = None


def score_cohort(request: Request, spool: Path, progress: Progress) -> Cohort:
    """Score everything below the paths. `spool` is an empty folder, to be removed after the report is made.

    Raises: InputError or TrajectoryError if a path or the labels cannot be read, if nothing is a run, or if
    the labels name none."""
    if request.labels is not None:
        load_labels(request.labels)
    files, unopened = find_files(
        request.paths, format_name=request.format_name, output=request.output, labels=request.labels
    )
    with _processes(request.jobs) as each:
        entries, skipped = _read(request, files, unopened, spool, progress, each)
        if request.labels is not None and not any(entry.is_labelled for entry in entries):
            raise InputError(
                f"{request.labels}: names none of the {len(entries)} runs by id, path or problem; "
                f"the first run's id is {entries[0].trajectory_id}"
            )
        scored = _score(
            request,
            without_copies(entries, lambda n: actions(spooled_run(entries[n]).trajectory.states)),
            spool,
            progress,
            each,
        )
    return Cohort.of(files, scored, skipped, request.settings)


def find_files(
    paths: Sequence[Path],
    *,
    format_name: str | None = None,
    output: Path | None = None,
    labels: Path | None = None,
) -> tuple[list[InputFile], list[Skipped]]:
    """The files below the paths that may hold runs, each once, in the order of their names in the report; and
    what below them cannot be opened. `output` and `labels` are none of them, wherever they lie.

    Raises: InputError or TrajectoryError with the path that is missing or holds nothing, or with the output
    if it would replace the labels or a run."""
    found: dict[str, InputFile] = {}
    unopened: list[Skipped] = []
    written = None if output is None else str(output.resolve())
    known = None if labels is None else str(labels.resolve())
    if written is not None and written == known:
        raise InputError(f"-o {output}: would replace the labels; give another name")
    for root in paths:
        count = 0
        for path in walk(root):
            if isinstance(path, Skipped):
                count += 1
                below = _input_file(root / path.path, root, None, is_only=len(paths) == 1)
                unopened.append(below.placed(path))
                continue
            place = str(path.resolve())
            file = _input_file(path, root, format_name, is_only=len(paths) == 1)
            if place == written and not isinstance(next(file.runs(), None), Skipped | None):
                raise InputError(f"-o {output}: would replace a run that is to be read; give another name")
            if place not in (written, known):
                count += 1
                found.setdefault(place, file)
        if not count:
            raise InputError(
                f"{shown(str(root))}: holds no file of trajectories (.json, .jsonl, .traj, .parquet, .md)"
            )
    return sorted(found.values(), key=lambda file: file.name), unopened


def _input_file(path: Path, root: Path, format_name: str | None, *, is_only: bool) -> InputFile:
    is_below = root.is_dir() and path != root
    parent = root if is_below else root.parent
    prefix = "" if is_only or parent == Path() else f"{shown(parent.as_posix().rstrip('/'))}/"
    return InputFile(place=str(path), root=root if is_below else None, prefix=prefix, format_name=format_name)


def _read(
    request: Request,
    files: Sequence[InputFile],
    unopened: Sequence[Skipped],
    spool: Path,
    progress: Progress,
    each: _Map,
) -> tuple[list[Entry], list[Skipped]]:
    progress.begin("reading files", len(files))
    tasks = [
        ReadTask(
            files=tuple(files[first : first + _FILES_AT_ONCE]),
            first=first,
            labels=request.labels,
            spool=spool / f"runs-{first}",
        )
        for first in range(0, len(files), _FILES_AT_ONCE)
    ]
    entries: list[Entry] = []
    skipped = list(unopened)
    for result in each(read_files, tasks):
        entries += result.entries
        skipped += result.skipped
        progress.advance(result.files)
    if not entries:
        reasons = "; ".join(item.error for item in skipped[:3])
        more = f"; and {len(skipped) - 3} more" if len(skipped) > 3 else ""
        raise InputError(f"no trajectory could be read: {reasons}{more}")
    return entries, skipped


def _score(
    request: Request,
    entries: Sequence[Entry],
    spool: Path,
    progress: Progress,
    each: _Map,
) -> list[Scored]:
    progress.begin("scoring runs", len(entries))
    tasks = [
        ScoreTask(
            entries=group,
            donors=donors,
            settings=request.settings,
            keep=request.keep,
            spool=spool / f"scores-{number}",
        )
        for number, (group, donors) in enumerate(groups(entries, request.settings))
    ]
    scored: list[Scored] = []
    for result in each(score_runs, tasks):
        scored += result
        progress.advance(len(result))
    return scored


@contextmanager
def _processes(jobs: int) -> Iterator[_Map]:
    """`map`, in this process or over several; results come in the order of the tasks."""
    if jobs == 1:
        yield map
        return
    # Started afresh: a copy of this process would hold the locks of the progress bar's thread.
    # Ctrl-C reaches every process of a terminal; only this one ends by it, and then ends the others.
    executor = ProcessPoolExecutor(
        jobs,
        mp_context=multiprocessing.get_context("spawn"),
        initializer=signal.signal,
        initargs=(signal.SIGINT, signal.SIG_IGN),
    )
    try:
        yield executor.map
    except KeyboardInterrupt:
        # Nobody waits for what they are doing, and it may take long.
        for process in multiprocessing.active_children():
            process.terminate()
        raise
    except BrokenProcessPool:
        raise UnavailableError(
            "a scoring process ended before its time, most likely for lack of memory; try fewer --jobs"
        ) from None
    finally:
        executor.shutdown(cancel_futures=True)
