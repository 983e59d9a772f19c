"""The readers, one file a format. Adding a format is one file and one line here."""

from __future__ import annotations

import json
from collections.abc import Iterator

from workers.agentlens.formats import agentlens_bench
from workers.agentlens.formats.base import Beside, Decode, Format, Source, nothing_beside
from workers.agentlens.trajectory import Trajectory
from workers.errors import TrajectoryError

FORMATS: tuple[Format, ...] = (agentlens_bench.FORMAT,)

__all__ = ["FORMATS", "read"]


def read(
    path: str,
    data: bytes,
    format_name: str | None = None,
    *,
    beside: Beside = nothing_beside,
    decode: Decode = json.loads,
) -> Iterator[Trajectory]:
    """The runs in `data`, the content of the file called `path`."""
    try:
        document = decode(data)
    except (ValueError, RecursionError) as error:
        raise TrajectoryError(f"{path}: not JSON: {error}") from error
    source = Source(path=path, document=document, beside=beside, decode=decode)
    for reader in FORMATS:
        if reader.name == format_name or (format_name is None and reader.sniff(source)):
            return reader.read(source)
    raise TrajectoryError(f"{path}: no known format")
