"""What every reader shares: the shape of a reader, sentences for what cannot be read, careful access."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

from workers.agentlens.trajectory import Trajectory
from workers.errors import TrajectoryError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LARGEST_COUNT = 10**15
_EPOCH_HERE = _EPOCH.replace(tzinfo=None)

Json = Any
Decode = Callable[[bytes | str], Json]
Beside = Callable[[str], bytes | None]


def nothing_beside(_name: str) -> bytes | None:
    """A file that stands alone."""
    return None


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """One file to read. `document` is its decoded JSON; `lines` its records where it is JSONL (each with its
    1-based line number). `row` counts the rows of a table of which this is one. `number` counts, from 0, the
    records of a JSONL file of which this is one among several. `beside` gives the bytes of a file named
    relative to this one, or None."""

    path: str
    row: int | None = None
    number: int | None = None
    document: Json = None
    lines: tuple[tuple[int, Json], ...] = ()
    text: str = ""
    beside: Beside = nothing_beside
    decode: Decode = json.loads

    @property
    def stem(self) -> str:
        """The file's name without its extension."""
        name = self.path.replace("\\", "/").rpartition("/")[2]
        for ending in (
            "_pta.json",
            ".traj.json",
            ".trajectory.json",
            ".traces.json",
            ".atif.json",
            ".atif.jsonl",
        ):
            if name.endswith(ending) and len(name) > len(ending):
                return name.removesuffix(ending)
        stem = name.rpartition(".")[0] or name
        return stem if self.row is None else f"{stem}#{self.row}"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """A reader. `sniff` tells whether a decoded document (or a JSONL file's first records) is of this format;
    `read` gives its runs. `is_run` tells whether one record of a JSONL file is a whole run, so that such files are
    read record by record; None where a file's records make up one run. `blind_signals` names what the format
    cannot feed."""

    name: str
    sniff: Callable[[Source], bool]
    read: Callable[[Source], Iterator[Trajectory]]
    is_run: Callable[[Json], bool] | None = None
    blind_signals: tuple[str, ...] = ()


def refuse(source: Source, position: str, wrong: str) -> TrajectoryError:
    """The error that names file, position and field."""
    return TrajectoryError(f"{source.path}: {position}: {wrong}")


def kind_name(value: Json) -> str:
    """A JSON value's type in JSON's words."""
    names = {
        dict: "an object",
        list: "a list",
        str: "a text",
        bool: "a boolean",
        int: "a number",
        float: "a number",
    }
    return "null" if value is None else names.get(type(value), "something else")


def as_object(source: Source, value: Json, position: str) -> dict[str, Json]:
    """`value` as an object, or a refusal."""
    if isinstance(value, dict):
        return value
    raise refuse(source, position, f"expected an object, found {kind_name(value)}")


def as_list(source: Source, value: Json, position: str) -> list[Json]:
    """`value` as a list, or a refusal."""
    if isinstance(value, list):
        return value
    raise refuse(source, position, f"expected a list, found {kind_name(value)}")


def as_text(source: Source, value: Json, position: str) -> str:
    """`value` as a text ("" for null), or a refusal."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    raise refuse(source, position, f"expected a text, found {kind_name(value)}")


def inner(value: Json) -> dict[str, Json]:
    """`value` if it is an object, else an empty one: for parts of a log that may be missing."""
    return value if isinstance(value, dict) else {}


def text_at(source: Source, holder: dict[str, Json], name: str, position: tuple[str, ...]) -> str:
    """The text that `holder` has under `name` ("" for null or nothing), or a refusal. The position is put
    together only for the refusal, which matters where millions of values are read."""
    value = holder.get(name)
    return value if type(value) is str else as_text(source, value, ".".join((*position, name)))


def object_at(
    source: Source, holder: dict[str, Json], name: str, position: tuple[str, ...]
) -> dict[str, Json]:
    """The object that `holder` has under `name`, or a refusal; like `text_at`."""
    value = holder.get(name)
    return value if type(value) is dict else as_object(source, value, ".".join((*position, name)))


def whole(value: Json) -> int | None:
    """A whole number, or None for anything else (a boolean is none), or for one so large that it counts
    nothing and that sums of it leave the 64 bits of other programs."""
    if type(value) is not int:
        if not isinstance(value, float) or not value.is_integer():
            return None
        value = int(value)
    return value if -_LARGEST_COUNT < value < _LARGEST_COUNT else None


def number(value: Json) -> float | None:
    """A finite number, or None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < 1e300 else None


def seconds(value: Json) -> float | None:
    """A time stamp as seconds since the epoch: a number, or ISO 8601 text (without a zone: UTC)."""
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            return None
        return (moment - (_EPOCH_HERE if moment.tzinfo is None else _EPOCH)).total_seconds()
    return number(value)


def join_text(parts: Json) -> str:
    """The text of a message: a text, or a list of parts of which the text parts count."""
    if isinstance(parts, str):
        return parts
    if isinstance(parts, dict):
        parts = [parts]
    if not isinstance(parts, Iterable):
        return ""
    found = []
    for part in parts:
        if isinstance(part, str):
            found.append(part)
        elif isinstance(part, dict):
            text = part.get("text")
            if not isinstance(text, str):
                text = part.get("content") if isinstance(part.get("content"), str) else None
            if text:
                found.append(text)
    return "\n".join(found)
