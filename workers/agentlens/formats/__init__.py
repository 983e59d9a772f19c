"""The readers, one file a format (AGENTLENS §1). Adding a format is one file and one line in `FORMATS`.

Nothing here touches a disk: bytes, names and rows are handed in."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from workers.agentlens.formats import (
    agentlens_bench,
    aider,
    atif,
    chat,
    claude_code,
    codex,
    mini_swe_agent,
    moatless,
    openhands_v0,
    openhands_v1,
    swe_agent,
)
from workers.agentlens.formats.base import Beside, Decode, Format, Json, Source, nothing_beside
from workers.agentlens.formats.refused import REFUSED
from workers.agentlens.formats.results import Labels, read_labels
from workers.agentlens.trajectory import Trajectory
from workers.errors import TrajectoryError

# Asked in this order; the more particular come first.
FORMATS: tuple[Format, ...] = (
    agentlens_bench.FORMAT,
    atif.FORMAT,
    *REFUSED,
    openhands_v1.FORMAT,
    openhands_v0.FORMAT,
    swe_agent.FORMAT,
    mini_swe_agent.FORMAT,
    moatless.NODES,
    moatless.TRANSITIONS,
    moatless.STEPS,
    codex.ROLLOUT,
    codex.EXEC,
    claude_code.FORMAT,
    aider.FORMAT,
    chat.FORMAT,
)

__all__ = ["FORMATS", "Beside", "Decode", "Labels", "read", "read_labels", "read_rows"]

_SHAPE_ERRORS = (TypeError, KeyError, AttributeError, IndexError, ValueError, RecursionError, OverflowError)


def read(
    path: str,
    data: bytes,
    format_name: str | None = None,
    *,
    beside: Beside = nothing_beside,
    decode: Decode = json.loads,
) -> Iterator[Trajectory]:
    """The runs in `data`, the content of the file called `path`.

    `format_name` forces a reader instead of asking them all. `beside` gives the bytes of a file named
    relative
    to this one (continuations, sub-agents, graders' reports), None where there is none. `decode` parses JSON;
    a faster parser than the standard one may be handed in.

    Raises `TrajectoryError`, naming file, position and field, for what no reader can read."""
    yield from _runs(_source(path, data, beside, _lenient(decode)), format_name)


def read_rows(path: str, rows: Iterable[Json], format_name: str | None = None) -> Iterator[Trajectory]:
    """The runs in the rows of a table (parquet is opened outside and its rows are handed in)."""
    reader: Format | None = None
    for number, row in enumerate(rows, start=1):
        source = Source(path=path, row=number, document=row)
        reader = reader or _reader(source, format_name)
        yield from _runs(source, reader.name)


def _runs(source: Source, format_name: str | None) -> Iterator[Trajectory]:
    reader = _reader(source, format_name)
    try:
        yield from reader.read(source)
    except TrajectoryError:
        raise
    except _SHAPE_ERRORS as error:
        raise TrajectoryError(
            f"{source.path}: as {reader.name}: a value has not the shape this format gives it ({error})"
        ) from error


def _reader(source: Source, format_name: str | None) -> Format:
    if format_name is not None:
        for reader in FORMATS:
            if reader.name == format_name:
                return reader
        known = ", ".join(reader.name for reader in FORMATS)
        raise TrajectoryError(f"{source.path}: unknown format {format_name!r}; expected one of {known}")
    for reader in FORMATS:
        if _recognises(reader, source):
            return reader
    raise TrajectoryError(f"{source.path}: no known trajectory format; name one with --format if it is one")


def _recognises(reader: Format, source: Source) -> bool:
    try:
        return reader.sniff(source)
    except _SHAPE_ERRORS:
        return False  # values of other types than the format's are not the format's


def _lenient(decode: Decode) -> Decode:
    """A fast parser is strict about what Python's own accepts (NaN, lone surrogates, long numbers)."""
    if decode is json.loads:
        return decode

    def decoded(text: bytes | str) -> Json:
        try:
            return decode(text)
        except ValueError:
            return json.loads(text)

    return decoded


def _source(path: str, data: bytes, beside: Beside, decode: Decode) -> Source:
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.strip():
        raise TrajectoryError(f"{path}: the file is empty")
    if path.endswith(".md"):
        return Source(path=path, text=data.decode("utf-8", "replace"), beside=beside, decode=decode)
    if not path.endswith((".jsonl", ".ndjson")):
        try:
            return Source(path=path, document=decode(data), beside=beside, decode=decode)
        except RecursionError as error:
            raise TrajectoryError(f"{path}: the JSON is nested too deeply to be a trajectory") from error
        except ValueError as error:
            if not _is_lines(data, decode):
                raise TrajectoryError(f"{path}: not JSON: {error}") from error
    return Source(path=path, lines=tuple(_records(path, data, decode)), beside=beside, decode=decode)


def _is_lines(data: bytes, decode: Decode) -> bool:
    first, _, rest = data.lstrip().partition(b"\n")
    if not rest.strip():
        return False
    try:
        return isinstance(decode(first), dict)
    except (ValueError, RecursionError):
        return False


def _records(path: str, data: bytes, decode: Decode) -> Iterator[tuple[int, Json]]:
    for number, line in enumerate(data.split(b"\n"), start=1):
        if line.strip():
            try:
                yield number, decode(line)
            except (ValueError, RecursionError) as error:
                raise TrajectoryError(f"{path}: line {number}: not JSON: {error}") from error
