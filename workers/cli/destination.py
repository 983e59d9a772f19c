"""Where a command writes: standard output, or a file that appears only when it is whole."""

from __future__ import annotations

import os
import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from workers.errors import InputError


@contextmanager
def destination(path: Path | None, *, option: str = "-o ", permissions: int = 0o666) -> Iterator[BinaryIO]:
    """Where to write: standard output, or a file that appears only when all of it is written.

    A link stays one, and what it leads to is written; a pipe or a device is written to and not replaced.
    `permissions`: of a new file, less the umask. `option`: what stands before the name in sentences.
    Raises: InputError if nothing can be written there, before anything else is done."""
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        target = path.resolve()
    except RuntimeError:
        raise InputError(f"{option}{path}: is a link to itself; give another name") from None
    if target.is_dir():
        raise InputError(f"{option}{path}: is a folder; give the name of a file")
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        # A pipe or a device cannot be replaced, only written to.
        with _opened(f"{option}{path}", target, os.O_TRUNC, permissions) as file:
            yield file
        return
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    file = _opened(f"{option}{path}", draft, os.O_CREAT | os.O_EXCL, permissions)
    try:
        with file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _opened(named: str, path: Path, flags: int, permissions: int) -> BinaryIO:
    try:
        return os.fdopen(os.open(path, os.O_WRONLY | flags, permissions), "wb")
    except OSError as error:
        raise InputError(
            f"{named}: cannot be written: {error.strerror}; give a file in a folder that exists"
        ) from None
