"""A file of specs on its way to the API: read in pieces, whatever its size; plain or gzipped, or standard input."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import hashlib
import io
import sys
import tempfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, Self

from workers.errors import InputError

PIECE_BYTES = 256 * 1024
_GZIP = b"\x1f\x8b"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class SpecsFile:
    """Specs, one a line. `size_bytes` is the file's, `digest` that of its text, which is the same however packed."""

    name: str
    size_bytes: int
    digest: str
    is_packed: bool
    _source: BinaryIO

    def pieces(self, advance: Callable[[int], None] = lambda _: None) -> Iterator[bytes]:
        """The file as it is, from its beginning; `advance` is told of a piece's bytes when the next is wanted.

        Raises: InputError when it cannot be read any more.
        """
        with _readable(self.name):
            self._source.seek(0)
            while piece := self._source.read(PIECE_BYTES):
                yield piece
                advance(len(piece))

    @classmethod
    @contextlib.contextmanager
    def opened(cls, place: str) -> Iterator[Self]:
        """The file at `place`, or standard input for `-`, which is kept in a temporary file meanwhile.

        Raises: InputError if it cannot be read or holds nothing.
        """
        name = "standard input" if place == "-" else place
        with contextlib.ExitStack() as stack:
            source = stack.enter_context(_spooled(sys.stdin.buffer) if place == "-" else _opened(place))
            is_packed = _is_packed(source, name)
            hashed = hashlib.sha256()
            is_blank = True
            for piece in _text(source, name, is_packed=is_packed):
                hashed.update(piece)
                is_blank = is_blank and not piece.strip()
            if is_blank:
                raise InputError(
                    f'{name}: holds no spec; give one JSON object a line, such as {{"spec": "…"}}'
                )
            yield cls(
                name=name,
                size_bytes=source.seek(0, io.SEEK_END),
                digest=hashed.hexdigest(),
                is_packed=is_packed,
                _source=source,
            )


def _opened(place: str) -> BinaryIO:
    try:
        return Path(place).open("rb")
    except OSError as error:
        raise _unreadable(place, error) from None


@contextlib.contextmanager
def _spooled(source: BinaryIO) -> Iterator[BinaryIO]:
    with tempfile.TemporaryFile(prefix="consensus-specs-") as spool:
        while piece := source.read(PIECE_BYTES):
            spool.write(piece)
        yield spool


def _is_packed(source: BinaryIO, name: str) -> bool:
    with _readable(name):
        source.seek(0)
        return source.read(len(_GZIP)) == _GZIP


def _text(source: BinaryIO, name: str, *, is_packed: bool) -> Iterator[bytes]:
    """The text of the file from its beginning. Raises: InputError."""
    with _readable(name):
        source.seek(0)
        reader = gzip.GzipFile(fileobj=source, mode="rb") if is_packed else source
        while piece := reader.read(PIECE_BYTES):
            yield piece


@contextlib.contextmanager
def _readable(name: str) -> Iterator[None]:
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{name}: is no whole gzip file: {error}; pack it again, or give it plain") from None
    except OSError as error:
        raise _unreadable(name, error) from None


def _unreadable(name: str, error: OSError) -> InputError:
    return InputError(f"{name}: cannot be read: {error.strerror}; give a JSONL file of specs, or -")
