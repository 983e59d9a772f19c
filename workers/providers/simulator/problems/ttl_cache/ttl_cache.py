"""A cache that forgets the least recently used entry, and every entry after its time to live."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable


class TtlCache:
    """At most `capacity` entries, each for less than `ttl_seconds` by `clock`."""

    def __init__(self, capacity: int, ttl_seconds: float, clock: Callable[[], float]) -> None:
        if capacity < 1:
            raise ValueError(f"capacity is {capacity}; at least 1 is needed")
        if not ttl_seconds > 0:
            raise ValueError(f"ttl_seconds is {ttl_seconds}; it must be above 0")
        self._capacity = capacity
        self._ttl_seconds = ttl_seconds
        self._clock = clock
        self._entries: OrderedDict[Hashable, tuple[float, object]] = OrderedDict()

    def get(self, key: Hashable, default: object = None) -> object:
        """The value of a living entry, which becomes the most recently used one; else the default."""
        entry = self._entries.get(key)
        if entry is None:
            return default
        stored_at, value = entry
        if self._is_expired(stored_at):
            del self._entries[key]
            return default
        self._entries.move_to_end(key)
        return value

    def put(self, key: Hashable, value: object) -> None:
        """Store the value, restart its time to live and make it the most recently used one."""
        if key not in self._entries and len(self._entries) >= self._capacity:
            self._make_room()
        self._entries[key] = (self._clock(), value)
        self._entries.move_to_end(key)

    def __len__(self) -> int:
        return sum(not self._is_expired(stored_at) for stored_at, _ in self._entries.values())

    def _is_expired(self, stored_at: float) -> bool:
        return self._clock() - stored_at >= self._ttl_seconds

    def _make_room(self) -> None:
        """Drop what has expired; only if nothing has, drop the least recently used entry."""
        expired = [key for key, (stored_at, _) in self._entries.items() if self._is_expired(stored_at)]
        for key in expired:
            del self._entries[key]
        if not expired:
            self._entries.popitem(last=False)
