"""The circuit breaker of one account at one provider, and whether that account is running dry. Pure: times are
passed in, seconds of any one clock.

What a failure means for it is the last column of `reference/panel.md` §5.4: overload, broken connections and
unreadable answers count; an empty account or a refused key opens it at once and for long; rate limits, bad
requests and refusals say nothing about the provider's health."""

from __future__ import annotations

import dataclasses
from enum import StrEnum

#: Kinds of failure that count, and how many in a row open the breaker.
COUNTED = frozenset({"overload", "transport", "timeout", "malformed"})
FAILURES_TO_OPEN = 5
#: First and longest time it stays open after such failures, seconds; every failed trial doubles it.
SHORTEST_OPEN_SECONDS, LONGEST_OPEN_SECONDS = 10.0, 160.0
#: Kinds that no retry mends: the account is empty, the key is refused.
HOPELESS = frozenset({"quota", "auth"})
HOPELESS_OPEN_SECONDS = 600.0
#: A trial call whose end nobody reports (its worker died) stops holding up the next trial after that long.
TRIAL_SECONDS = 150.0


class Health(StrEnum):
    """What an account is good for. LOW: it answers, but what is left of its quota has to last for long."""

    GOOD = "good"
    LOW = "low"
    OPEN = "open"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """Why nothing is sent to an account now. `retry_seconds`: when asking again makes sense, None: not soon."""

    kind: str
    detail: str
    retry_seconds: float | None


@dataclasses.dataclass(slots=True, kw_only=True)
class Breaker:
    """One account's state. `kind` is what opened it; `low_until` and `low_reason` belong to low-quota mode."""

    failures_to_open: int = FAILURES_TO_OPEN
    failures: int = 0
    kind: str = ""
    reason: str = ""
    open_seconds: float = 0.0
    open_until: float | None = None
    trial_until: float | None = None
    low_until: float | None = None
    low_reason: str = ""

    def refusal(self, now: float) -> Refusal | None:
        """None if a call may be sent now. Once its time is over an open breaker lets one call through as a
        trial: the first to `begin`."""
        if self.open_until is None:
            return None
        if now < self.open_until:
            left = self.open_until - now
            return self._refusal(None if self.kind in HOPELESS else left)
        if self.trial_until is not None and now < self.trial_until:
            # Somebody is finding out just now; its answer is a matter of seconds.
            return self._refusal(SHORTEST_OPEN_SECONDS)
        return None

    def begin(self, now: float) -> None:
        """A call is about to be sent. If the breaker's time is over, it is the trial and has to report its end."""
        if self.open_until is not None and now >= self.open_until:
            self.trial_until = now + TRIAL_SECONDS

    def _refusal(self, retry_seconds: float | None) -> Refusal:
        return Refusal(kind=self.kind, detail=self.reason, retry_seconds=retry_seconds)

    def succeeded(self, now: float) -> bool:
        """A call got its answer. True if that closed the breaker, or ended low-quota mode."""
        changed = self.open_until is not None or self._low_is_over(now)
        self.failures, self.kind, self.reason, self.open_seconds = 0, "", "", 0.0
        self.open_until = self.trial_until = None
        if self._low_is_over(now):
            self.low_until, self.low_reason = None, ""
        return changed

    def failed(self, kind: str, reason: str, now: float) -> bool:
        """A call failed with an error of this kind. True if that opened the breaker (again)."""
        if kind in HOPELESS:
            return self._open(kind, reason, HOPELESS_OPEN_SECONDS, now)
        if kind not in COUNTED:
            # The provider is there and answers; a trial that learns this much has learnt enough.
            return self.succeeded(now) if self.trial_until is not None else False
        self.failures += 1
        is_failed_trial = self.trial_until is not None
        if not is_failed_trial and (self.failures < self.failures_to_open or self.open_until is not None):
            return False
        longer = max(SHORTEST_OPEN_SECONDS, 2 * self.open_seconds)
        return self._open(kind, reason, min(longer, LONGEST_OPEN_SECONDS), now)

    def not_sent(self) -> None:
        """The call that was let through was never sent; if it was the trial, somebody else may try."""
        self.trial_until = None

    def _open(self, kind: str, reason: str, seconds: float, now: float) -> bool:
        self.kind, self.reason, self.open_seconds = kind, reason, seconds
        self.open_until, self.trial_until = now + seconds, None
        return True

    def run_low(self, reason: str, seconds: float, now: float) -> bool:
        """What is left must last for `seconds`. True if low-quota mode begins, or lasts longer than known."""
        until = now + seconds
        if self.low_until is not None and until <= self.low_until + 1.0:
            return False
        self.low_until, self.low_reason = until, reason
        return True

    def _low_is_over(self, now: float) -> bool:
        return self.low_until is not None and now >= self.low_until

    def health(self, now: float) -> Health:
        """A breaker whose time is over, but whose trial has not ended well yet, still counts as open."""
        if self.open_until is not None:
            return Health.OPEN
        return Health.LOW if self.low_until is not None and now < self.low_until else Health.GOOD

    def is_running_dry(self, now: float) -> bool:
        """Whether low-quota mode should hold because of this account.

        It ends with the time of an empty account's breaker, not with the trial after it: in low-quota mode every
        seat may begin with another provider, and nobody would ever find out that the account answers again.
        """
        empty = self.kind == "quota" and self.open_until is not None and now < self.open_until
        return empty or self.health(now) is Health.LOW
