"""An amount of whole cents, divided by weights without losing one."""

from __future__ import annotations

from collections.abc import Sequence


def split(total_cents: int, weights: Sequence[int]) -> list[int]:
    """One part a weight; the parts sum to `total_cents`, which may be negative."""
    if not weights or min(weights) < 0 or not any(weights):
        raise ValueError("weights must be 0 or more, and at least one above 0")
    sign = -1 if total_cents < 0 else 1
    amount, whole = abs(total_cents), sum(weights)
    shares = [divmod(amount * weight, whole) for weight in weights]
    parts = [share for share, _ in shares]
    left_over = amount - sum(parts)
    takers = sorted(range(len(weights)), key=lambda place: (-shares[place][1], place))
    for place in takers[:left_over]:
        parts[place] += 1
    return [sign * part for part in parts]
