"""A large body on its way into a temporary file: bounded, unpacked, digested, and written off the event loop."""

from __future__ import annotations

import dataclasses
import hashlib
import tempfile
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import BinaryIO, cast

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from workers.errors import BodyTooLargeError, InputError, MediaTypeError, UnavailableError

#: What is gathered before a thread writes it.
_WRITE_BYTES = 1024 * 1024
#: The most that a step of unpacking may give.
_UNPACKED_STEP_BYTES = 1024 * 1024


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Spool:
    """The body as it was meant, unpacked; `file` stands at its beginning and goes away with the request."""

    file: BinaryIO
    size_bytes: int
    digest: str


@asynccontextmanager
async def spooled(request: Request, *, max_bytes: int) -> AsyncIterator[Spool]:
    """The body in a temporary file, as long as the block runs.

    Raises: BodyTooLargeError as soon as there is too much of it; MediaTypeError for an encoding other than gzip;
    InputError for broken gzip; UnavailableError for a full disk; starlette's ClientDisconnect when the client is gone.
    """
    unpack = _unpacking(request.headers.get("content-encoding", ""))
    _refuse_announced(request.headers.get("content-length", ""), max_bytes)
    # Unlinked from the start: a process that is killed leaves nothing behind.
    with tempfile.TemporaryFile() as file:
        sink = _Sink(cast(BinaryIO, file), unpack, max_bytes)
        waiting = bytearray()
        async for part in request.stream():
            waiting += part
            if len(waiting) >= _WRITE_BYTES:
                await run_in_threadpool(sink.write, bytes(waiting))
                waiting.clear()
        yield await run_in_threadpool(sink.finish, bytes(waiting))


def _unpacking(encoding: str) -> _Gunzip | None:
    name = encoding.strip().lower()
    if name in {"gzip", "x-gzip"}:
        return _Gunzip()
    if name in {"", "identity"}:
        return None
    raise MediaTypeError(f"Content-Encoding {name[:40]!r} is not known; send the body as it is or as gzip")


def _refuse_announced(length: str, max_bytes: int) -> None:
    if length.isdecimal() and int(length[:20]) > max_bytes:
        raise _too_large(max_bytes)


def _too_large(max_bytes: int) -> BodyTooLargeError:
    return BodyTooLargeError(f"the body has more than {max_bytes:,} bytes; send the lines in several batches")


class _Sink:
    def __init__(self, file: BinaryIO, unpack: _Gunzip | None, max_bytes: int) -> None:
        self._file = file
        self._unpack = unpack
        self._max_bytes = max_bytes
        self._size_bytes = 0
        self._digest = hashlib.sha256()

    def write(self, received: bytes) -> None:
        for part in (received,) if self._unpack is None else self._unpack.feed(received):
            self._size_bytes += len(part)
            if self._size_bytes > self._max_bytes:
                raise _too_large(self._max_bytes)
            self._digest.update(part)
            try:
                self._file.write(part)
            except OSError as error:
                raise UnavailableError(f"the body cannot be kept for checking: {error.strerror}") from error

    def finish(self, received: bytes) -> Spool:
        self.write(received)
        if self._unpack is not None:
            self._unpack.close()
        self._file.seek(0)
        return Spool(file=self._file, size_bytes=self._size_bytes, digest=self._digest.hexdigest())


class _Gunzip:
    """Unpacks step by step, so that a bomb is refused before it has gone off; files put together are one."""

    def __init__(self) -> None:
        self._decoder = _decoder()
        self._is_inside = False

    def feed(self, received: bytes) -> Iterator[bytes]:
        while received:
            if self._decoder.eof:
                self._decoder = _decoder()
            try:
                part = self._decoder.decompress(received, _UNPACKED_STEP_BYTES)
            except zlib.error:
                raise InputError("the body is not gzip, as its Content-Encoding says it is") from None
            self._is_inside = not self._decoder.eof
            received = self._decoder.unused_data if self._decoder.eof else self._decoder.unconsumed_tail
            yield part

    def close(self) -> None:
        """Raises: InputError if the last file has no end."""
        if self._is_inside:
            raise InputError("the gzip body breaks off before its end; send all of it")


def _decoder() -> zlib._Decompress:
    return zlib.decompressobj(wbits=zlib.MAX_WBITS | 16)
