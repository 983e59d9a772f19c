"""Which digests a long list has had, and on which line first, in 20 bytes a slot: Python's own dict takes seven times
that, and a batch of a hundred thousand lines needs two."""

from __future__ import annotations

from array import array

_KEY_BYTES = 16
_FIRST_SLOTS = 1024


class SeenDigests:
    """An open-addressing table from the first 16 bytes of a digest to a line number. Digests are evenly spread, so
    that their last bits are as good a place to start looking as any."""

    def __init__(self) -> None:
        self._count = 0
        self._clear(_FIRST_SLOTS)

    def __len__(self) -> int:
        return self._count

    def line_of(self, digest: bytes) -> int | None:
        """The line on which this digest came first, None if it did not."""
        return self._lines[self._slot_of(digest[:_KEY_BYTES])] or None

    def first_line(self, digest: bytes, line: int) -> int:
        """The line on which this digest came first: `line` itself, from 1, if it is new, and then it is kept."""
        key = digest[:_KEY_BYTES]
        slot = self._slot_of(key)
        if self._lines[slot]:
            return self._lines[slot]
        # Four fifths full: beyond that, looking for a free slot takes long.
        if 5 * (self._count + 1) > 4 * len(self._lines):
            self._grow()
            slot = self._slot_of(key)
        self._put(slot, key, line)
        return line

    def _clear(self, slots: int) -> None:
        self._keys = bytearray(_KEY_BYTES * slots)
        self._lines = array("I", bytes(4 * slots))  # 0: free

    def _slot_of(self, key: bytes) -> int:
        """Where the key is, or the free slot where it would be."""
        last = len(self._lines) - 1
        slot = int.from_bytes(key[-8:]) & last
        while self._lines[slot] and self._keys[_KEY_BYTES * slot : _KEY_BYTES * (slot + 1)] != key:
            slot = (slot + 1) & last
        return slot

    def _put(self, slot: int, key: bytes, line: int) -> None:
        self._keys[_KEY_BYTES * slot : _KEY_BYTES * (slot + 1)] = key
        self._lines[slot] = line
        self._count += 1

    def _grow(self) -> None:
        keys, lines = self._keys, self._lines
        self._count = 0
        self._clear(2 * len(lines))
        for slot, line in enumerate(lines):
            if line:
                key = bytes(keys[_KEY_BYTES * slot : _KEY_BYTES * (slot + 1)])
                self._put(self._slot_of(key), key, line)
