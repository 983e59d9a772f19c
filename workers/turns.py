"""The turns that one call takes at the governor: one for each request that is sent for it."""

from __future__ import annotations

import asyncio
import contextlib
import math
from types import TracebackType
from typing import Self

from workers import metrics
from workers.core.reply import Usage
from workers.errors import SlotTimeoutError
from workers.governor.base import Lane, Spent
from workers.governor.governor import Governor
from workers.governor.slot import Slot
from workers.providers.base import ProviderError


class Turns:
    """The governor's slots of one call: a request that the HTTP layer repeats takes its turn like any other.

    A request that ended badly is settled with no tokens: refusals and faults are not billed, and what a cut
    stream cost is known only at the end of the call.

    The first turn is waited for up to `wait_seconds`, before the call's own `timeout_seconds` begin. A later one is
    waited for at most half of what is left of them: the other half is for the answer, and a call that ran out of
    time in our own line would be taken for a provider that is silent.
    """

    def __init__(
        self,
        governor: Governor,
        key: str,
        *,
        lane: Lane,
        expected: Spent,
        wait_seconds: float,
        timeout_seconds: float,
    ) -> None:
        self._governor = governor
        self._key = key
        self._lane = lane
        self._expected = expected
        self._wait_seconds = wait_seconds
        self._timeout_seconds = timeout_seconds
        self._clock = asyncio.get_running_loop().time
        self._ends_at = math.inf
        self._stack = contextlib.AsyncExitStack()
        self._slot: Slot | None = None

    async def take(self) -> None:
        """Give back the slot of the request before, and wait for the next. Raises: SlotTimeoutError."""
        if self._slot is not None:
            self._slot.refused()
        await self._stack.aclose()
        left_seconds = self._ends_at - self._clock()
        labels = (self._key.split(":", 1)[0], self._lane.value)
        try:
            self._slot = await self._stack.enter_async_context(
                self._governor.slot(
                    self._key,
                    lane=self._lane,
                    input_tokens=self._expected.input_tokens,
                    output_tokens=self._expected.output_tokens,
                    deadline_seconds=max(0.0, min(self._wait_seconds, left_seconds / 2)),
                )
            )
        except SlotTimeoutError:
            metrics.GOVERNOR_TIMEOUTS.labels(*labels).inc()
            raise
        metrics.GOVERNOR_WAIT.labels(*labels).observe(self._slot.waited_seconds)

    def settle(self, spent: Spent) -> None:
        """The call has its answer; this is what the provider bills."""
        assert self._slot is not None  # noqa: S101 - for the type checker: inside the block there is one
        self._slot.settle(spent)

    async def __aenter__(self) -> Self:
        await self.take()
        self._ends_at = self._clock() + self._timeout_seconds
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, ProviderError) and self._slot is not None:
            self._slot.refused()
            if error.usage is not None:
                self._slot.settle(spent(error.usage))
        # The slot is told how the call ended: one that was cancelled was not served.
        await self._stack.__aexit__(kind, error, trace)


def spent(usage: Usage) -> Spent:
    """What counts towards the provider's limit of what it bills."""
    # Most providers do not count what they read from their cache towards the limit (reference/panel.md §5.2).
    return Spent(
        input_tokens=usage.input_tokens - usage.cached_input_tokens, output_tokens=usage.output_tokens
    )
