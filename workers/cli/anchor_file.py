"""A file of anchors: only ever appended to, a line each."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from workers.errors import InputError
from workers.provenance.anchor import Anchor, read


def anchors_in(path: Path) -> list[Anchor]:
    """The anchors in a file, unchecked; none for one that is not there yet. Raises: InputError."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    if raw and not raw.endswith(b"\n"):
        raise InputError(
            f"{path}: its last line is cut off, as by a full disk; remove that line, it will be written again"
        )
    return read(raw, name=str(path))


def append(path: Path, lines: Iterable[bytes]) -> None:
    """Write lines behind what is there, and wait until the disk has them. Raises: InputError."""
    try:
        with path.open("ab") as file:
            for line in lines:
                file.write(line + b"\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
