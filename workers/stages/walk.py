"""From model to model along a seat's chain, by cause, and when to come back later instead (DESIGN §4).

What was asked before is read from the call rows, so a walk that another worker takes up, or that goes on after a
wait, sends no link more than its N+1 requests, in whatever order low-quota mode has put the chain by then."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from workers.errors import ConsensusError, SlotTimeoutError
from workers.governor.breaker import Refusal
from workers.provenance.repository.call_history import Asked
from workers.providers.base import OverloadedError, ProviderError, RateLimitedError
from workers.providers.chain import Link
from workers.providers.fallback import Failure, Window, reason_to_skip
from workers.stages.recorded_call import UnpricedModelError

#: A seat that would have to wait longer for a provider gives up instead: a run always ends.
LONGEST_DEFERRAL_SECONDS = 900.0
#: How often a seat's work is taken up: again and again for a slot or a stated wait, less often for a provider
#: that is down, except in a batch, for which nobody sits and waits.
MOST_DELIVERIES, MOST_DELIVERIES_WHEN_DOWN = 20, 4
#: Ends of a call that asking the same model once more cannot change.
_FINAL = frozenset({"bad_request", "context", "refusal", "quota", "auth"})
#: Of these a batch waits for the end, since nobody sits before it: an account is filled up, a key is mended.
_WAITED_FOR = frozenset({"quota", "auth"})

_Answer = TypeVar("_Answer")


class SeatFailedError(ConsensusError):
    """No model of the seat's chain gave a usable answer. `cause` is the last error's kind."""

    def __init__(self, cause: str, detail: str) -> None:
        super().__init__(detail)
        self.cause = cause
        self.detail = detail


class TornReplyError(ConsensusError):
    """The reply was cut off or is not the JSON asked for; asking again with a hint can help."""

    kind = "torn"

    def __init__(self, message: str, *, was_truncated: bool) -> None:
        super().__init__(message)
        self.was_truncated = was_truncated


@dataclasses.dataclass(slots=True, kw_only=True)
class Walk(Generic[_Answer]):
    """One seat's way along its chain.

    `ask(link, number, used)` asks one link, which has `used` of its `retries` + 1 requests behind it. It raises
    ProviderError, TornReplyError, UnpricedModelError or SlotTimeoutError to go on with the next link; `spent()` is
    how many requests are used after that. `refusal` says why nothing may be sent to a link now, `moved(number)` is
    told where the walk stands whenever that is another link than before (`at`, to begin with).
    """

    links: Sequence[Link]
    asked_before: Mapping[tuple[str, str], Asked]
    retries: int
    deliveries: int
    at: int
    is_batch: bool
    #: When a batch asks again at an account that no retry mends; its breaker stays open for ten minutes (`breaker.py`).
    held_seconds: float
    window: Window
    refusal: Callable[[Link], Refusal | None]
    moved: Callable[[int], None]
    ask: Callable[[Link, int, int], _Answer]
    spent: Callable[[], int]
    failures: list[Failure] = dataclasses.field(default_factory=list)
    waits: list[float] = dataclasses.field(default_factory=list)
    #: Of a batch: waits for accounts that are away, and for a turn.
    held: list[float] = dataclasses.field(default_factory=list)
    #: Whether any link failed the seat itself, now or before, instead of its account being away.
    has_tried: bool = False

    def answer(self) -> _Answer:
        """The first usable answer. `failures` then says what became of the links before it.

        Raises: SlotTimeoutError when it is worth coming back; SeatFailedError; RunCancelledError.
        """
        for number, link in enumerate(self.links):
            before = self.asked_before.get((link.provider, link.model))
            used = before.requests if before else 0
            failure = self._settled(link, before) or self._refused(link)
            if failure is not None:
                self.failures.append(failure)
                continue
            if number != self.at:
                self.at = number
                self.moved(number)
            try:
                return self.ask(link, number, used)
            except (ProviderError, TornReplyError, UnpricedModelError) as error:
                self._failed(link, error)
            except SlotTimeoutError as error:
                # The governor's line is long; another model may be free now.
                self.failures.append(Failure(link=link, kind="rate", detail=str(error)))
                self._no_turn(error.wait_seconds)
        raise self._end()

    def _settled(self, link: Link, before: Asked | None) -> Failure | None:
        """How this link is known to end without asking it."""
        skipped = reason_to_skip(link, self.failures, self.window)
        if skipped is not None:
            asked = f"{skipped.link.provider}/{skipped.link.model}"
            return Failure(
                link=link, kind=skipped.kind, detail=f"not asked: {asked} ended with {skipped.kind}"
            )
        if before is None:
            return None
        self.has_tried = True
        if before.error_kind in _FINAL and not (self.is_batch and before.error_kind in _WAITED_FOR):
            return Failure(link=link, kind=before.error_kind or "", detail=before.error or "")
        if before.requests > self.retries:
            return Failure(
                link=link,
                kind=before.error_kind or "lost_worker",
                detail=before.error or "its requests were spent before a worker was lost",
            )
        return None

    def _refused(self, link: Link) -> Failure | None:
        refusal = self.refusal(link)
        if refusal is None:
            return None
        if self.is_batch:
            self.held.append(self.held_seconds if refusal.retry_seconds is None else refusal.retry_seconds)
        elif refusal.retry_seconds is not None:
            self._come_back(refusal.retry_seconds, MOST_DELIVERIES_WHEN_DOWN)
        return Failure(link=link, kind=refusal.kind, detail=f"not asked: {refusal.detail}")

    def _no_turn(self, wait_seconds: float) -> None:
        """Nothing was sent. Of a batch far more seats stand in line than a provider serves in twenty deliveries."""
        if self.is_batch:
            self.held.append(wait_seconds)
        else:
            self._come_back(wait_seconds, MOST_DELIVERIES)

    def _failed(self, link: Link, error: ProviderError | TornReplyError | UnpricedModelError) -> None:
        self.has_tried = True
        self.failures.append(Failure(link=link, kind=error.kind, detail=str(error)))
        if self.is_batch and error.kind in _WAITED_FOR:
            self._come_back(self.held_seconds, MOST_DELIVERIES)
        # A stated wait that is too long to sit through, but short enough to come back for.
        if not isinstance(error, (RateLimitedError, OverloadedError)):
            return
        if error.retry_after_seconds and self.spent() <= self.retries:
            self._come_back(error.retry_after_seconds, MOST_DELIVERIES)

    def _come_back(self, wait_seconds: float, most_deliveries: int) -> None:
        if wait_seconds <= LONGEST_DEFERRAL_SECONDS and self.deliveries < most_deliveries:
            self.waits.append(wait_seconds)

    def _end(self) -> SlotTimeoutError | SeatFailedError:
        detail = "; ".join(
            f"{failure.link.provider}/{failure.link.model}: {failure.detail}" for failure in self.failures
        )[:2000]
        if self.held and not self.has_tried:
            return SlotTimeoutError(detail, wait_seconds=min(self.held), is_held=True)
        for wait_seconds in self.held:
            self._come_back(wait_seconds, MOST_DELIVERIES)
        if self.waits:
            return SlotTimeoutError(detail, wait_seconds=min(self.waits))
        return SeatFailedError(self.failures[-1].kind, detail)
