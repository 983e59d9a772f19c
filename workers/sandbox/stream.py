"""The engine's attached stream, cut into frames: 8 bytes of header (stream, length), then the payload."""

from __future__ import annotations

import hashlib
import struct

from workers.sandbox.base import Output

_HEADER = struct.Struct(">BxxxI")
_STDERR = 2


class Tail:
    """The end of a stream, its size and digest; of what comes after `most_bytes` nothing is read."""

    def __init__(self, *, keep_bytes: int, most_bytes: int) -> None:
        self._keep_bytes = keep_bytes
        self._left_bytes = most_bytes
        self._kept = bytearray()
        self._size_bytes = 0
        self._digest = hashlib.sha256()

    def feed(self, data: bytes) -> bool:
        """Take more of the stream. False when there was more than may be read."""
        taken = data[: self._left_bytes]
        self._left_bytes -= len(taken)
        self._size_bytes += len(taken)
        self._digest.update(taken)
        self._kept += taken
        del self._kept[: -self._keep_bytes]
        return len(taken) == len(data)

    def output(self) -> Output:
        return Output(tail=bytes(self._kept), size_bytes=self._size_bytes, sha256=self._digest.hexdigest())


class Demultiplexer:
    """Feeds two tails from the one stream. Frames may arrive in any pieces."""

    def __init__(self, *, keep_bytes: int, most_bytes: int) -> None:
        self.stdout = Tail(keep_bytes=keep_bytes, most_bytes=most_bytes)
        self.stderr = Tail(keep_bytes=keep_bytes, most_bytes=most_bytes)
        self._header = bytearray()
        self._current = self.stdout
        self._payload_left = 0

    def feed(self, data: bytes) -> bool:
        """Take bytes from the socket. False as soon as one stream had more than may be read."""
        view = memoryview(data)
        while view:
            if self._payload_left:
                piece, view = view[: self._payload_left], view[self._payload_left :]
                self._payload_left -= len(piece)
                if not self._current.feed(bytes(piece)):
                    return False
                continue
            missing = _HEADER.size - len(self._header)
            self._header += view[:missing]
            view = view[missing:]
            if len(self._header) == _HEADER.size:
                stream, self._payload_left = _HEADER.unpack(self._header)
                self._current = self.stderr if stream == _STDERR else self.stdout
                self._header.clear()
        return True
