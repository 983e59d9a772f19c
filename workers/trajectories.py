"""Trajectories on disk: walks folders, opens files and tables, and hands their bytes to the readers.

This is the only place where reading runs touches the file system."""

from __future__ import annotations

import dataclasses
import io
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import Any, TypeVar

import orjson

from workers.agentlens.formats import (
    LINES,
    Beside,
    Labels,
    is_lines,
    read,
    read_labels,
    read_lines,
    read_rows,
)
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
_COMPANION_ENDINGS = ("_pta_report.json",)
_PART = re.compile(r"(?:^|\.)(?:trajectory\.)?(?:cont-\d+|summarization-\d+-\w+)\.json$")
_ROWS_AT_ONCE = 64
_SMALL_BYTES = 1 << 20
_BEGINNING_BYTES = 4096

PathOf = TypeVar("PathOf", bound=PurePath)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """What could not be read, and the sentence that says why: a file or folder, or (is_record) one record of
    a file whose other records were read."""

    path: str
    error: str
    is_record: bool = False


def load_labels(path: Path) -> Labels:
    """Outcomes from a labels file (JSON, JSONL, CSV or a grader's report).

    Raises `TrajectoryError` for a pipe too, because every process that reads runs reads the labels."""
    if path.exists() and not path.is_file():
        raise TrajectoryError(f"{shown(str(path))}: a folder, pipe or device; labels must be in a file")
    return read_labels(path.name, _bytes(path))


def load(
    path: Path | str,
    format_name: str | None = None,
    *,
    labels: Labels | None = None,
    root: Path | None = None,
) -> Iterator[Trajectory]:
    """The runs in one file, or in a conversation folder of OpenHands 1.x (`base_state.json` and `events/`).

    `labels` win over every outcome the log knows. Paths are given relative to `root` (default: the file's
    folder). A file of JSON lines is read line by line. Raises `TrajectoryError` with a sentence for the first
    thing that cannot be read; `load_each` goes on behind it."""
    for item in load_each(Path(path), format_name, labels=labels, root=root):
        if isinstance(item, Skipped):
            raise TrajectoryError(item.error)
        yield item


def load_each(
    path: Path,
    format_name: str | None = None,
    *,
    labels: Labels | None = None,
    root: Path | None = None,
    beside: Beside | None = None,
) -> Iterator[Trajectory | Skipped]:
    """As `load`, but what cannot be read comes as `Skipped`, and the records behind it are read. `beside` gives
    the files beside it, instead of its folder."""
    base = root if root is not None else path.parent
    name = shown(path.relative_to(base).as_posix() if path != base else path.name)
    try:
        for run in _runs(path, name, format_name, base, beside):
            if isinstance(run, TrajectoryError):
                yield Skipped(path=name, error=str(run), is_record=True)
                continue
            outcome = labels.outcome_of(run) if labels is not None else None
            yield run if outcome is None else dataclasses.replace(run, outcome=outcome)
    except TrajectoryError as error:
        yield Skipped(path=name, error=str(error))
    except MemoryError:
        yield Skipped(path=name, error=f"{name}: does not fit in memory; give one run a file, or JSON lines")


def load_all(
    root: Path | str, format_name: str | None = None, *, labels: Labels | None = None
) -> Iterator[Trajectory | Skipped]:
    """Every run below `root` (or in it, if it is a file), in the order of paths, one file in memory at
    a time, and of a file of JSON lines one line.

    What cannot be read comes as `Skipped`."""
    root = Path(root)
    base = root if root.is_dir() else None
    for path in walk(root):
        if isinstance(path, Skipped):
            yield path
        else:
            yield from load_each(path, format_name, labels=labels, root=base)


def shown(name: str) -> str:
    """A file's name as text that can be written anywhere: bytes that are no text, and control characters, as
    escapes."""
    text = name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return "".join(repr(c)[1:-1] if unicodedata.category(c) == "Cc" else c for c in text)


def walk(root: Path) -> Iterator[Path | Skipped]:
    """The files (and conversation folders) below `root` that may hold runs, sorted. Links are followed, but
    no folder is entered twice. What cannot be opened comes as `Skipped`, named relative to `root`.

    Raises `TrajectoryError` if `root` itself is missing, cannot be opened, or is neither a file nor a folder."""
    if root.is_file():
        yield root
    elif root.is_dir():
        yield from _walk(root)
    elif root.exists():
        raise TrajectoryError(f"{shown(str(root))}: a pipe or device; only files and folders can be scored")
    else:
        raise TrajectoryError(f"{shown(str(root))}: no such file or folder")


def _walk(root: Path) -> Iterator[Path | Skipped]:
    # Not by recursion: folders may lie deeper in each other than calls can.
    entered: set[tuple[int, int]] = set()
    waiting = [root]
    while waiting:
        path = waiting.pop()
        try:
            if not path.is_dir():
                yield path if path.is_file() else _unreadable(path, root)
                continue
            identity = path.stat()
            if (identity.st_dev, identity.st_ino) in entered:
                continue
            entered.add((identity.st_dev, identity.st_ino))
            if _is_conversation(path):
                yield path
                continue
            waiting += sorted(filter(_may_hold_runs, path.iterdir()), reverse=True)
        except OSError as error:
            wrong = f"cannot be opened: {error.strerror or error}"
            if path == root:
                raise TrajectoryError(f"{shown(str(root))}: {wrong}") from error
            name = shown(path.relative_to(root).as_posix())
            yield Skipped(path=name, error=f"{name}: {wrong}")


def _may_hold_runs(path: Path) -> bool:
    """Whether a name below a folder is that of a folder, or of a file that may be a log."""
    if path.name.startswith("."):
        return False
    owner = owner_of(path)
    is_log = is_log_name(path) and (owner is None or not owner.is_file())
    return is_log or path.is_dir()


def is_log_name(path: PurePath) -> bool:
    """Whether a file may be a log, by its name alone."""
    return path.suffix.lower() in _ENDINGS and not _is_companion(path)


def _unreadable(path: Path, root: Path) -> Skipped:
    name = shown(path.relative_to(root).as_posix())
    wrong = "is a pipe or a device, no file" if path.exists() else "is a link to nothing"
    return Skipped(path=name, error=f"{name}: {wrong}")


def _is_companion(path: PurePath) -> bool:
    return path.name in _COMPANIONS or path.name.endswith(_COMPANION_ENDINGS)


def _is_conversation(folder: Path) -> bool:
    return (folder / "events").is_dir() and (folder / "base_state.json").is_file()


def owner_of(path: PathOf) -> PathOf | None:
    """The file with which this one is read, if that is there: a transcript, a continuation and a sub-agent's log
    belong to a log. None for a file whose name makes it none of these."""
    if path.suffix == ".md":
        return path.with_suffix(".json")
    if path.parent.name == "subagents" and path.name.startswith("agent-"):
        return path.parent.parent.with_suffix(".jsonl")
    match = _PART.search(path.name)
    if match is None:
        return None
    prefix = path.name[: match.start()]
    return path.with_name(f"{prefix}.trajectory.json" if prefix else "trajectory.json")


def _runs(
    path: Path, name: str, format_name: str | None, root: Path, beside: Beside | None
) -> Iterator[Trajectory | TrajectoryError]:
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
            beside=beside or Neighbours(path / "events.jsonl", root),
            decode=orjson.loads,
        )
    elif path.suffix == ".parquet":
        yield from read_rows(name, _rows(path, name), format_name)
    else:
        yield from _content(path, name, format_name, beside or Neighbours(path, root))


def _content(
    path: Path, name: str, format_name: str | None, beside: Beside
) -> Iterator[Trajectory | TrajectoryError]:
    """The runs in a file of text. Lines are taken one by one, whatever the file's ending; a small
    file is read in one go."""
    try:
        with path.open("rb") as file:
            data = file.read(_SMALL_BYTES)
            is_small = len(data) < _SMALL_BYTES
            if not is_small and path.suffix not in (*LINES, ".md"):
                data += file.readline() + file.read(_BEGINNING_BYTES)
            if path.suffix in LINES or (path.suffix != ".md" and is_lines(data, orjson.loads)):
                file.seek(0)
                lines = io.BytesIO(data) if is_small else file
                yield from read_lines(name, lines, format_name, beside=beside, decode=orjson.loads)
                return
            data = data if is_small else data + file.read()
    except OSError as error:
        raise TrajectoryError(f"{path}: cannot be opened: {error.strerror or error}") from error
    yield from read(name, data, format_name, beside=beside, decode=orjson.loads)


def names_beside(own: str, name: str) -> list[str]:
    """Where a reader's file lies, relative to the folder of the log that is called `own`: under the name it asks
    for or, beside a log whose name begins with that of its run, under that beginning and the name."""
    if "trajectory.json" in own and "/" not in name:
        return [name, own[: own.index("trajectory.json")] + name]
    return [name]


class Neighbours:
    """Gives a reader the files beside its log, never one outside the folder that is scored."""

    def __init__(self, path: Path, root: Path) -> None:
        self._path = path
        self._root = (root if root.is_dir() else root.parent).resolve()

    def __call__(self, name: str) -> bytes | None:
        path = self.find(name)
        try:
            return None if path is None else path.read_bytes()
        except OSError:
            return None

    def find(self, name: str) -> Path | None:
        """Where the file that is asked for lies; None if there is none."""
        for candidate in names_beside(self._path.name, name):
            try:
                resolved = (self._path.parent / candidate).resolve()
                if resolved.is_relative_to(self._root) and resolved.is_file():
                    return resolved
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
