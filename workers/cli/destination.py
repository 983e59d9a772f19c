"""Where a command writes: standard output, or a file that appears only when it is whole."""

from __future__ import annotations

import secrets
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from workers.errors import InputError


@contextmanager
def destination(path: Path | None) -> Iterator[BinaryIO]:
    """Where to write: standard output, or a file that appears only when all of it is written.

    Raises: InputError if nothing can be written there, before anything else is done."""
    if path is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        target = path.resolve()
    except RuntimeError:
        raise InputError(f"-o {path}: is a link to itself; give another name") from None
    if target.is_dir():
        raise InputError(f"-o {path}: is a folder; give the name of a file")
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        # A pipe or a device cannot be replaced, only written to.
        with _opened(path, target, "wb") as file:
            yield file
        return
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    file = _opened(path, draft, "xb")
    try:
        with file:
            yield file
        draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


def _opened(named: Path, path: Path, mode: str) -> Any:
    try:
        return path.open(mode)
    except OSError as error:
        raise InputError(
            f"-o {named}: cannot be written: {error.strerror}; give a file in a folder that exists"
        ) from None
