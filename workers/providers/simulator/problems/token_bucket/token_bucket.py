"""A token bucket: a limit on the mean rate that still allows bursts up to its capacity."""

from __future__ import annotations

from collections.abc import Callable


class TokenBucket:
    """Starts full; `clock` returns seconds."""

    def __init__(self, capacity: float, refill_per_second: float, clock: Callable[[], float]) -> None:
        if not (capacity > 0 and refill_per_second > 0):
            raise ValueError("capacity and refill_per_second must be above 0")
        self._capacity = float(capacity)
        self._refill_per_second = float(refill_per_second)
        self._clock = clock
        self._tokens = self._capacity
        self._refilled_at = clock()

    def try_take(self, amount: float = 1) -> bool:
        """Take that many tokens if they are there; else take none."""
        self._check(amount)
        self._refill()
        if self._tokens < amount:
            return False
        self._tokens -= amount
        return True

    def seconds_until(self, amount: float = 1) -> float:
        """How long until that many tokens will be there; 0.0 if they are."""
        self._check(amount)
        self._refill()
        return max(0.0, amount - self._tokens) / self._refill_per_second

    def _check(self, amount: float) -> None:
        if not 0 < amount <= self._capacity:
            raise ValueError(f"amount is {amount}; it must be above 0 and at most {self._capacity}")

    def _refill(self) -> None:
        now = self._clock()
        elapsed = max(0.0, now - self._refilled_at)
        self._tokens = min(self._capacity, self._tokens + elapsed * self._refill_per_second)
        self._refilled_at = now
