"""What this process knows about the accounts it calls: one breaker each, and low-quota mode (DESIGN §4).

Every worker keeps its own breakers, so a call costs no round trip; what changes is published to the database by
the heartbeat and adopted from there, so all workers know of an empty account within seconds, whether Redis is
there or not."""

from __future__ import annotations

import dataclasses
import enum
import threading
from collections.abc import Callable, Iterable, Set

from workers.governor.base import Headroom
from workers.governor.breaker import FAILURES_TO_OPEN, Breaker, Health, Refusal

#: A stated wait or a reset that far away is no pacing but an allowance used up: that of a day, or of a month.
LONG_RESET_SECONDS = 120.0
#: Fewer requests or tokens than this, to last for so long, are little.
FEW_REQUESTS, FEW_TOKENS = 50, 20_000
#: Low-quota mode is forgotten after that long unless an answer says again that little is left: an allowance may
#: have been raised meanwhile, and a provider that names a day may be wrong.
LONGEST_LOW_SECONDS = 3600.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AccountState:
    """An account's state as it is told to others. `state`: good, low, or the kind of error that opened the
    breaker; `seconds_left`: how much longer it holds."""

    provider: str
    key_digest: str
    state: str
    reason: str
    seconds_left: float

    @property
    def is_down(self) -> bool:
        """Whether nothing may be sent to it, or only a trial once its time is over."""
        return self.state not in {Health.GOOD, Health.LOW}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class LowQuota:
    """Why low-quota mode is on."""

    provider: str
    reason: str


class Outlook(enum.Enum):
    """What to expect of all accounts together. TRIAL: none is known to answer, but one may be asked again."""

    GOOD = enum.auto()
    TRIAL = enum.auto()
    AWAY = enum.auto()


def outlook(states: Iterable[AccountState], own: Set[tuple[str, str]]) -> Outlook:
    """What the published states mean for whoever has these accounts (provider, digest of its key). An account that
    nobody said anything about is good; without any account seats say themselves what is missing."""
    known = {(state.provider, state.key_digest): state for state in states}
    down = [known[account] for account in own if account in known and known[account].is_down]
    if not own or len(down) < len(own):
        return Outlook.GOOD
    return Outlook.AWAY if all(state.seconds_left > 0 for state in down) else Outlook.TRIAL


class Accounts:
    """The breakers of one process. Safe to use from any thread. `clock`: seconds, any origin."""

    def __init__(self, clock: Callable[[], float], *, failures_to_open: int = FAILURES_TO_OPEN) -> None:
        self._clock = clock
        self._failures_to_open = failures_to_open
        self._lock = threading.Lock()
        self._breakers: dict[tuple[str, str], Breaker] = {}
        self._changed: set[tuple[str, str]] = set()

    def refusal(self, provider: str, key_digest: str) -> Refusal | None:
        """Why nothing should be sent to the account now, or None; see `Breaker.refusal`."""
        with self._lock:
            return self._breaker(provider, key_digest).refusal(self._clock())

    def begin(self, provider: str, key_digest: str) -> None:
        """A call is about to be sent; say how it ended with `succeeded`, `failed` or `not_sent`."""
        with self._lock:
            self._breaker(provider, key_digest).begin(self._clock())

    def succeeded(self, provider: str, key_digest: str) -> None:
        self._note(provider, key_digest, self._with(provider, key_digest, Breaker.succeeded))

    def failed(self, provider: str, key_digest: str, *, kind: str, reason: str) -> None:
        def fail(breaker: Breaker, now: float) -> bool:
            return breaker.failed(kind, reason, now)

        self._note(provider, key_digest, self._with(provider, key_digest, fail))

    def not_sent(self, provider: str, key_digest: str) -> None:
        """A call that was begun got no slot."""
        with self._lock:
            self._breaker(provider, key_digest).not_sent()

    def told_to_wait(self, provider: str, key_digest: str, seconds: float) -> None:
        """A refusal stated this wait. A long one means that an allowance is used up."""
        if seconds > LONG_RESET_SECONDS:
            self._run_low(provider, key_digest, f"told to wait {seconds:.0f} s", seconds)

    def saw(self, provider: str, key_digest: str, headroom: Headroom) -> None:
        """An answer said what is left. Little of it for long means that an allowance runs out."""
        for what, remaining, reset_seconds, few in (
            ("requests", headroom.requests_remaining, headroom.requests_reset_seconds, FEW_REQUESTS),
            ("input tokens", headroom.input_tokens_remaining, headroom.input_tokens_reset_seconds, FEW_TOKENS),
            ("output tokens", headroom.output_tokens_remaining, headroom.output_tokens_reset_seconds, FEW_TOKENS),
        ):  # fmt: skip
            if remaining is None or reset_seconds is None:
                continue
            if remaining < few and reset_seconds > LONG_RESET_SECONDS:
                reason = f"{remaining} {what} left for {reset_seconds:.0f} s"
                self._run_low(provider, key_digest, reason, reset_seconds)

    def low_quota(self) -> LowQuota | None:
        """Why low-quota mode is on, None when it is off. One account that runs dry is enough: its share of the
        work falls to the others."""
        with self._lock:
            now = self._clock()
            for (provider, _), breaker in self._breakers.items():
                if breaker.is_running_dry(now):
                    return LowQuota(provider=provider, reason=breaker.low_reason or breaker.reason)
        return None

    def take_changes(self) -> list[AccountState]:
        """The accounts whose state has changed here since the last time this was asked."""
        with self._lock:
            keys, self._changed = sorted(self._changed), set()
            return [self._state(key) for key in keys]

    def give_back(self, states: Iterable[AccountState]) -> None:
        """Changes that could not be published: they will be handed out again, as they are then."""
        with self._lock:
            self._changed |= {(state.provider, state.key_digest) for state in states}

    def adopt(self, state: AccountState) -> None:
        """Take over what another worker published."""
        with self._lock:
            breaker, now = self._breaker(state.provider, state.key_digest), self._clock()
            if state.state == Health.GOOD or state.seconds_left <= 0:
                if breaker.open_until is not None or breaker.low_until is not None:
                    breaker.low_until = None
                    breaker.succeeded(now)
            elif state.state == Health.LOW:
                breaker.succeeded(now)
                breaker.low_until, breaker.low_reason = now + state.seconds_left, state.reason
            else:
                breaker.kind, breaker.reason = state.state, state.reason
                breaker.open_until, breaker.trial_until = now + state.seconds_left, None

    def _run_low(self, provider: str, key_digest: str, reason: str, seconds: float) -> None:
        def run_low(breaker: Breaker, now: float) -> bool:
            return breaker.run_low(reason, min(seconds, LONGEST_LOW_SECONDS), now)

        self._note(provider, key_digest, self._with(provider, key_digest, run_low))

    def _with(self, provider: str, key_digest: str, change: Callable[[Breaker, float], bool]) -> bool:
        with self._lock:
            return change(self._breaker(provider, key_digest), self._clock())

    def _note(self, provider: str, key_digest: str, has_changed: bool) -> None:
        if has_changed:
            with self._lock:
                self._changed.add((provider, key_digest))

    def _breaker(self, provider: str, key_digest: str) -> Breaker:
        return self._breakers.setdefault(
            (provider, key_digest), Breaker(failures_to_open=self._failures_to_open)
        )

    def _state(self, key: tuple[str, str]) -> AccountState:
        breaker, now = self._breakers[key], self._clock()
        health = breaker.health(now)
        until, reason = {
            Health.OPEN: (breaker.open_until, breaker.reason),
            Health.LOW: (breaker.low_until, breaker.low_reason),
            Health.GOOD: (None, ""),
        }[health]
        return AccountState(
            provider=key[0],
            key_digest=key[1],
            state=breaker.kind if health is Health.OPEN else health.value,
            reason=reason,
            seconds_left=0.0 if until is None else until - now,
        )
