"""Trajectories on disk: walks folders, opens files and tables, and hands their bytes to the readers.

This is the only place where reading runs touches the file system."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from workers.agentlens.formats import Labels, read, read_labels, read_rows
from workers.agentlens.trajectory import Trajectory
from workers.errors import TrajectoryError

_ENDINGS = (".json", ".jsonl", ".ndjson", ".traj", ".parquet", ".md")
# Files that lie beside logs and are no logs themselves.
_COMPANIONS = frozenset(
    (
        "result.json",
        "results.json",
        "report.json",
        "output.report.json",
        "reward.json",
        "metrics.json",
        "base_state.json",
        "manifest.json",
        "config.json",
        "preds.json",
        "all_preds.jsonl",
        "labels.json",
        "labels.jsonl",
        "metadata.json",
        "package.json",
        "README.md",
        "CHANGELOG.md",
        "LICENSE.md",
    )
)
_PART = re.compile(r"(?:^|\.)(?:trajectory\.)?(?:cont-\d+|summarization-\d+-\w+)\.json$")
_ROWS_AT_ONCE = 64


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A file that could not be read, and the sentence that says why."""

    path: str
    error: str


def load_labels(path: Path) -> Labels:
    """Outcomes from a labels file (JSON, JSONL, CSV or a grader's report)."""
    return read_labels(path.name, _bytes(path))


def load(
    path: Path, format_name: str | None = None, *, labels: Labels | None = None, root: Path | None = None
) -> Iterator[Trajectory]:
    """The runs in one file, or in a conversation folder of OpenHands 1.x (`base_state.json` and `events/`).

    `labels` win over every outcome the log knows. Paths are given relative to `root` (default: the file's
    folder). Raises `TrajectoryError` with a sentence for what cannot be read."""
    base = root if root is not None else path.parent
    name = path.relative_to(base).as_posix() if path != base else path.name
    for run in _runs(path, name, format_name, base):
        outcome = labels.outcome_of(run) if labels is not None else None
        yield run if outcome is None else dataclasses.replace(run, outcome=outcome)


def load_all(
    root: Path, format_name: str | None = None, *, labels: Labels | None = None
) -> Iterator[Trajectory | Skipped]:
    """Every run below `root` (or in it, if it is a file), in the order of paths, one file in memory at
    a time.

    What cannot be read comes as `Skipped`, after the runs of the same file that could be read."""
    for path in walk(root):
        try:
            yield from load(path, format_name, labels=labels, root=root if root.is_dir() else None)
        except TrajectoryError as error:
            name = path.relative_to(root).as_posix() if root.is_dir() else path.name
            yield Skipped(path=name, error=str(error))


def walk(root: Path) -> Iterator[Path]:
    """The files (and conversation folders) below `root` that may hold runs, sorted."""
    if not root.exists():
        raise TrajectoryError(f"{root}: no such file or folder")
    if root.is_file() or _is_conversation(root):
        yield root
        return
    for path in sorted(root.iterdir()):
        if path.name.startswith("."):
            continue
        if path.is_dir():
            yield from walk(path)
        elif path.suffix in _ENDINGS and path.name not in _COMPANIONS and not _belongs_to_another(path):
            yield path


def _is_conversation(folder: Path) -> bool:
    return (folder / "events").is_dir() and (folder / "base_state.json").is_file()


def _belongs_to_another(path: Path) -> bool:
    """Whether a file is read with the one it belongs to: a transcript, a continuation, a sub-agent's log."""
    if path.suffix == ".md":
        return path.with_suffix(".json").is_file()
    if path.parent.name == "subagents" and path.name.startswith("agent-"):
        return path.parent.parent.with_suffix(".jsonl").is_file()
    match = _PART.search(path.name)
    if match is None:
        return False
    prefix = path.name[: match.start()]
    owner = f"{prefix}.trajectory.json" if prefix else "trajectory.json"
    return path.with_name(owner).is_file()


def _runs(path: Path, name: str, format_name: str | None, root: Path) -> Iterator[Trajectory]:
    if path.is_dir():
        if not _is_conversation(path):
            raise TrajectoryError(
                f"{name}: a folder; only a conversation with base_state.json and events/ is one run"
            )
        events = sorted((path / "events").glob("event-*.json"))
        data = b"\n".join(_bytes(event).replace(b"\n", b" ") for event in events)
        yield from read(
            f"{name}/events.jsonl",
            data,
            format_name or "openhands-v1",
            beside=_Neighbours(path / "events.jsonl", root),
            decode=orjson.loads,
        )
    elif path.suffix == ".parquet":
        yield from read_rows(name, _rows(path, name), format_name)
    else:
        yield from read(name, _bytes(path), format_name, beside=_Neighbours(path, root), decode=orjson.loads)


class _Neighbours:
    """Gives a reader the files beside its log, never one outside the folder that is scored."""

    def __init__(self, path: Path, root: Path) -> None:
        self._path = path
        self._root = (root if root.is_dir() else root.parent).resolve()

    def __call__(self, name: str) -> bytes | None:
        candidates = [self._path.parent / name]
        own = self._path.name
        if "trajectory.json" in own and "/" not in name:
            candidates.append(self._path.with_name(own[: own.index("trajectory.json")] + name))
        for candidate in candidates:
            try:
                resolved = candidate.resolve()
                if resolved.is_relative_to(self._root) and resolved.is_file():
                    return resolved.read_bytes()
            except (OSError, ValueError):
                continue
        return None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise TrajectoryError(f"{path}: cannot be opened: {error.strerror or error}") from error


def _rows(path: Path, name: str) -> Iterator[Any]:
    try:
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    except ImportError as error:
        raise TrajectoryError(
            f"{name}: reading parquet needs pyarrow: pip install 'consensus[parquet]'"
        ) from error
    try:
        with ParquetFile(path) as table:
            for batch in table.iter_batches(batch_size=_ROWS_AT_ONCE):
                yield from batch.to_pylist()
    except (OSError, ArrowException) as error:
        raise TrajectoryError(f"{name}: not a readable parquet file: {error}") from error
