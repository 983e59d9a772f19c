"""Keeps what was opened last, so that the next step of the same run costs nothing."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_Value = TypeVar("_Value")


class Shelf(Generic[_Value]):
    """Values by key, those used last, up to a weight in all. One value is made at a time, whoever asks: opening runs is
    work for one processor, and the same run is asked for several times at once."""

    def __init__(self, *, most_weight: int, weight_of: Callable[[_Value], int]) -> None:
        self._most_weight = most_weight
        self._weight_of = weight_of
        self._kept: OrderedDict[Hashable, tuple[_Value, int]] = OrderedDict()
        self._making = threading.Lock()
        self._order = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], _Value]) -> _Value:
        """The value under a key, made if it is not there. Raises what `make` raises, and keeps nothing then."""
        found = self._find(key)
        if found is not None:
            return found[0]
        with self._making:
            found = self._find(key)
            if found is not None:
                return found[0]
            value = make()
            self._keep(key, value)
            return value

    def _find(self, key: Hashable) -> tuple[_Value, int] | None:
        with self._order:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def _keep(self, key: Hashable, value: _Value) -> None:
        weight = self._weight_of(value)
        with self._order:
            self._kept[key] = value, weight
            # What alone is heavier than the shelf stays until the next one comes.
            while len(self._kept) > 1 and sum(of for _, of in self._kept.values()) > self._most_weight:
                self._kept.popitem(last=False)
