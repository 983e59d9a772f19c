"""The readers, one file a format (AGENTLENS §1). Adding a format is one file and one line in `FORMATS`.

Nothing here touches a disk: bytes, names and rows are handed in."""

from __future__ import annotations

import dataclasses
import io
import itertools
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

__all__ = [
    "FORMATS",
    "LINES",
    "Beside",
    "Decode",
    "Labels",
    "is_lines",
    "read",
    "read_decoded",
    "read_labels",
    "read_lines",
    "read_rows",
]

LINES = (".jsonl", ".ndjson")
"""Endings of files that hold a record a line."""
_MARK = b"\xef\xbb\xbf"
_TOO_DEEP = "the JSON is nested too deeply to be a trajectory"
_SNIFFED = 3
_LONGEST_HEAD = 100
_LONGEST_INTEGER = 4000

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
    lenient = _lenient(decode)
    data = data.removeprefix(_MARK)
    if not data.strip():
        raise TrajectoryError(f"{path}: the file is empty")
    if path.endswith(".md"):
        text = data.decode("utf-8", "replace")
        yield from _runs(Source(path=path, text=text, beside=beside, decode=decode), format_name)
        return
    if not path.endswith(LINES):
        try:
            document = lenient(data)
        except RecursionError as error:
            raise TrajectoryError(f"{path}: {_TOO_DEEP}") from error
        except ValueError as error:
            if not is_lines(data, lenient):
                raise TrajectoryError(f"{path}: not JSON: {error}") from error
        else:
            source = Source(path=path, document=document, beside=beside, decode=lenient)
            yield from _runs(source, format_name)
            return
    for item in read_lines(path, io.BytesIO(data), format_name, beside=beside, decode=decode):
        if isinstance(item, TrajectoryError):
            raise item
        yield item


def read_lines(
    path: str,
    lines: Iterable[bytes],
    format_name: str | None = None,
    *,
    beside: Beside = nothing_beside,
    decode: Decode = json.loads,
) -> Iterator[Trajectory | TrajectoryError]:
    """The runs in a file of JSON lines, given line by line.

    Where every line is a run, one line is in memory at a time, and one that cannot be read comes as its error.
    Where the lines make up one run, nothing is left of it if one of them is bad.

    Raises `TrajectoryError` if there is no run to be found."""
    decode = _lenient(decode)
    records = _records(path, lines, decode)
    head = _head(records)
    good = [(number, value) for number, value in head if not isinstance(value, TrajectoryError)]
    if not good:
        raise next(
            (value for _, value in head if isinstance(value, TrajectoryError)),
            TrajectoryError(f"{path}: the file is empty"),
        )
    source = Source(path=path, lines=tuple(good), beside=beside, decode=decode)
    reader = _reader_of_lines(source, format_name)
    if reader is None:
        whole = tuple(_sound(itertools.chain(head, records)))
        yield from _runs(dataclasses.replace(source, lines=whole), format_name)
        return
    for position, (number, value) in enumerate(itertools.chain(head, records)):
        if isinstance(value, TrajectoryError):
            yield value
            continue
        alone = dataclasses.replace(
            source, lines=((number, value),), number=position if len(head) > 1 else None
        )
        yield from _each(alone, reader, f"line {number}: ")


def read_decoded(
    path: str, document: Json, format_name: str | None = None, *, beside: Beside = nothing_beside
) -> Iterator[Trajectory]:
    """The runs in a file's content that is decoded already; as `read`."""
    yield from _runs(Source(path=path, document=document, beside=beside), format_name)


def read_rows(
    path: str, rows: Iterable[Json], format_name: str | None = None
) -> Iterator[Trajectory | TrajectoryError]:
    """The runs in the rows of a table (parquet is opened outside and its rows are handed in); the error in
    place of a row that cannot be read.

    Raises `TrajectoryError` if the first row is of no known format."""
    reader: Format | None = None
    for number, row in enumerate(rows, start=1):
        source = Source(path=path, row=number, document=row)
        reader = reader or _reader(source, format_name)
        yield from _each(source, reader, f"row {number}: ")


def _each(source: Source, reader: Format, where: str) -> Iterator[Trajectory | TrajectoryError]:
    try:
        yield from _read_by(reader, source, where)
    except TrajectoryError as error:
        yield error


def _runs(source: Source, format_name: str | None) -> Iterator[Trajectory]:
    yield from _read_by(_reader(source, format_name), source, "")


def _read_by(reader: Format, source: Source, where: str) -> Iterator[Trajectory]:
    try:
        yield from reader.read(source)
    except TrajectoryError:
        raise
    except _SHAPE_ERRORS as error:
        raise TrajectoryError(
            f"{source.path}: {where}as {reader.name}: a value has not the shape this format gives it ({error})"
        ) from error


def _reader_of_lines(source: Source, format_name: str | None) -> Format | None:
    """The reader if each line is a run of its own; None if the lines have to be seen together."""
    first = source.lines[0][1]
    try:
        reader = _reader(source, format_name)
        return reader if reader.is_run is not None and reader.is_run(first) else None
    except (TrajectoryError, *_SHAPE_ERRORS):
        return None


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

    def decoded(text: bytes | str) -> Json:
        try:
            return decode(text)
        except ValueError:
            return json.loads(text, parse_int=_integer)

    return decoded


def _integer(digits: str) -> int | float:
    """A whole number; one of thousands of digits, which `int` refuses and no log means, as the nearest float."""
    return int(digits) if len(digits) < _LONGEST_INTEGER else float(digits)


def is_lines(data: bytes, decode: Decode = json.loads) -> bool:
    """Whether the content of a file, or its beginning beyond the first line, is JSON lines."""
    first, _, rest = data.lstrip().partition(b"\n")
    if not rest.strip():
        return False
    try:
        return isinstance(decode(first), dict)
    except (ValueError, RecursionError):
        return False


_Record = tuple[int, Json | TrajectoryError]


def _records(path: str, lines: Iterable[bytes], decode: Decode) -> Iterator[_Record]:
    """The lines that are not blank, decoded, with their numbers; the error in place of one that is not JSON."""
    for number, given in enumerate(lines, start=1):
        line = given.removeprefix(_MARK) if number == 1 else given
        if line.strip():
            try:
                yield number, decode(line)
            except RecursionError:
                yield number, TrajectoryError(f"{path}: line {number}: {_TOO_DEEP}")
            except ValueError as error:
                yield number, TrajectoryError(f"{path}: line {number}: not JSON: {error}")


def _head(records: Iterator[_Record]) -> list[_Record]:
    """As many records as the sniffing needs, and not many more where most of them are bad."""
    head: list[_Record] = []
    good = 0
    while good < _SNIFFED and len(head) < _LONGEST_HEAD:
        record = next(records, None)
        if record is None:
            break
        head.append(record)
        good += not isinstance(record[1], TrajectoryError)
    return head


def _sound(records: Iterable[_Record]) -> Iterator[tuple[int, Json]]:
    for number, value in records:
        if isinstance(value, TrajectoryError):
            raise value
        yield number, value
