"""The count of requests one link of a fallback chain may send, shared by both retry layers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from workers.providers.base import AttemptsExhaustedError


class AttemptCounter:
    """A `BeforeAttempt`: call it before each request; it raises once `limit` requests were sent.

    The (N+1)² trap: give each retry layer a counter of its own and a link that may retry N times sends
    (N+1) requests for each of the (N+1) tries of the layer above. So there is one counter per link, made by
    whoever walks the chain and handed down to everything that sends; nothing below may make another.

    `used` continues a count that an earlier process stored. `on_attempt` gets the new count and is awaited
    before the request leaves, so that a worker that dies mid-call has already been charged for it.
    """

    def __init__(
        self,
        limit: int,
        *,
        used: int = 0,
        on_attempt: Callable[[int], Awaitable[None]] | None = None,
    ) -> None:
        if limit < 1:
            raise ValueError(f"an attempt limit of {limit} sends nothing; it must be at least 1")
        self.limit = limit
        self.used = used
        self._on_attempt = on_attempt

    @property
    def remaining(self) -> int:
        return max(0, self.limit - self.used)

    async def __call__(self) -> None:
        """Raises: AttemptsExhaustedError; whatever `on_attempt` raises."""
        if self.used >= self.limit:
            raise AttemptsExhaustedError(f"all {self.limit} requests of this link were sent")
        self.used += 1
        if self._on_attempt is not None:
            await self._on_attempt(self.used)
