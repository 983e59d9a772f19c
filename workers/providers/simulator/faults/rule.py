"""Which request gets which fault. Chance is a function of the request, so the same requests fail again."""

from __future__ import annotations

import dataclasses
import hashlib
from collections import OrderedDict
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase

from workers.providers.simulator.faults.kind import KINDS, Fault, Group
from workers.providers.simulator.material import role_of
from workers.providers.simulator.problem import family
from workers.providers.simulator.wire import Call, WireName

#: Requests whose repetitions are counted; beyond this many the oldest count as new.
MAX_REMEMBERED = 100_000


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class When:
    """All that is given must hold. `model` is a pattern (`claude-*`) for the model asked for or the one that
    answers. `attempt`: so often have the same bytes been sent. `nth`, `every`: of the requests for which the
    rest holds, only this one, or every so many. Seconds count from the simulator's start; `until_seconds` is
    excluded."""

    model: str | None = None
    family: str | None = None
    role: str | None = None
    wire: WireName | None = None
    stream: bool | None = None
    attempt: int | None = None
    nth: int | None = None
    every: int | None = None
    probability: float | None = None
    from_seconds: float = 0.0
    until_seconds: float | None = None

    def holds_at(self, elapsed_seconds: float) -> bool:
        return self.from_seconds <= elapsed_seconds and (
            self.until_seconds is None or elapsed_seconds < self.until_seconds
        )


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    fault: Fault
    when: When = dataclasses.field(default_factory=When)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request as rules see it. `fields`: the names in its body; `digest`: of its body and the seed."""

    call: Call
    wire: WireName
    digest: str
    fields: Collection[str]
    elapsed_seconds: float


class Faults:
    """Decides over a simulator's life: counts what its rules count. One loop, no threads."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules = tuple(rule for rule in rules if KINDS[rule.fault.kind].group is not Group.LISTENER)
        self._seen = [0] * len(self.rules)
        self._attempts: OrderedDict[str, int] = OrderedDict()
        self._needs_role = any(rule.when.role is not None for rule in self.rules)

    def decide(self, asked: Asked) -> Fault | None:
        """The fault of the first rule that fits; the rules below it do not count the request."""
        if not self.rules:
            return None
        attempt = self._count(asked.digest)
        role = role_of(asked.call.system) if self._needs_role else None
        for index, rule in enumerate(self.rules):
            if not _holds(rule, asked, role, attempt):
                continue
            self._seen[index] += 1
            when = rule.when
            if when.nth is not None and self._seen[index] != when.nth:
                continue
            if when.every is not None and self._seen[index] % when.every:
                continue
            if when.probability is None or _share(index, attempt, asked.digest) < when.probability:
                return rule.fault
        return None

    def _count(self, digest: str) -> int:
        attempt = self._attempts.pop(digest, 0) + 1
        self._attempts[digest] = attempt
        if len(self._attempts) > MAX_REMEMBERED:
            self._attempts.popitem(last=False)
        return attempt


def _holds(rule: Rule, asked: Asked, role: str | None, attempt: int) -> bool:
    when, call = rule.when, asked.call
    return (
        when.holds_at(asked.elapsed_seconds)
        and when.attempt in (None, attempt)
        and when.wire in (None, asked.wire)
        and when.stream in (None, call.is_streamed)
        and when.role in (None, role)
        and when.family in (None, family(call.model))
        and (
            when.model is None
            or fnmatchcase(call.asked_model, when.model)
            or fnmatchcase(call.model, when.model)
        )
        # A field can only be refused to those who send it: without it the request is fine.
        and (rule.fault.field is None or rule.fault.field in asked.fields)
    )


def _share(rule_index: int, attempt: int, digest: str) -> float:
    """In [0, 1), evenly, by rule, request and attempt: asking again is another draw."""
    drawn = hashlib.blake2b(f"{rule_index}|{attempt}|{digest}".encode(), digest_size=6).digest()
    return int.from_bytes(drawn) / 2**48


def refused_windows(rules: Sequence[Rule]) -> tuple[tuple[float, float | None], ...]:
    """From when until when (seconds after the start; None: for ever) connections are refused, in order."""
    return tuple(
        sorted(
            (
                (rule.when.from_seconds, rule.when.until_seconds)
                for rule in rules
                if KINDS[rule.fault.kind].group is Group.LISTENER
            ),
            key=lambda window: window[0],
        )
    )
