"""Merging of overlapping intervals."""

from __future__ import annotations

from collections.abc import Iterable

Interval = tuple[float, float]


def merge(intervals: Iterable[Interval]) -> list[Interval]:
    """The union of the intervals as sorted tuples of which no two overlap or touch."""
    pairs = [(start, end) for start, end in intervals]
    for start, end in pairs:
        if end < start:
            raise ValueError(f"interval ({start}, {end}) ends before it starts")
    merged: list[Interval] = []
    for start, end in sorted(pairs):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged
