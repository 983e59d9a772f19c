"""Every kind of fault, and what a script may say of it. Adding one: an entry here, and what it does in
`refusal.py`, `content.py` or `delivery.py`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Any

from workers.providers.simulator.retry_statement import GRAMMARS

#: Longer than any deadline of a caller.
MAX_SECONDS = 3600.0


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A kind with its parameters; those that the kind does not have are None."""

    kind: str
    status: int | None = None
    retry_after_seconds: float | None = None
    retry_after_as: str | None = None
    after_pieces: int | None = None
    seconds: float | None = None
    keep_alive_seconds: float | None = None
    field: str | None = None
    finish: str | None = None
    piece_bytes: int | None = None
    gap_seconds: float | None = None


class Group(StrEnum):
    """What a kind acts on: it refuses the call, changes what is said, how that travels, or the listener."""

    REFUSAL = "refusal"
    CONTENT = "content"
    DELIVERY = "delivery"
    LISTENER = "listener"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """`defaults`: the parameters that it has. `statuses`: those it may be given, if any."""

    group: Group
    defaults: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    statuses: tuple[int, ...] = ()

    def fault(self, name: str, given: Mapping[str, Any]) -> Fault:
        return Fault(kind=name, **{**self.defaults, **given})


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Whether a value will do, and what would."""

    fits: Callable[[Any], bool]
    right: str


def whole(least: int, most: int) -> Check:
    return Check(
        fits=lambda value: isinstance(value, int) and not isinstance(value, bool) and least <= value <= most,
        right=f"a whole number from {least} to {most}",
    )


def number(least: float, most: float) -> Check:
    return Check(
        fits=lambda value: (
            isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most
        ),
        right=f"a number from {least:g} to {most:g}",
    )


def text(right: str) -> Check:
    return Check(fits=lambda value: isinstance(value, str) and 0 < len(value) <= 200, right=right)


def one_of(*values: object) -> Check:
    # By type as well: to YAML, and to Python, 1 and true are alike.
    allowed = {(type(value), value) for value in values}
    return Check(
        fits=lambda value: isinstance(value, str | int) and (type(value), value) in allowed,
        right=" or ".join([", ".join(map(_shown, values[:-1])), _shown(values[-1])])
        if len(values) > 1
        else _shown(values[0]),
    )


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


#: Parameters by name, but `status`, whose values depend on the kind.
PARAMETERS: Mapping[str, Check] = {
    "retry_after_seconds": number(0, 1e9),
    "retry_after_as": one_of(*GRAMMARS),
    "after_pieces": whole(0, 1000),
    "seconds": number(0, MAX_SECONDS),
    "keep_alive_seconds": number(0.01, MAX_SECONDS),
    "field": text("the name of a field of the request"),
    "finish": text("a finish reason"),
    "piece_bytes": whole(1, 1_000_000),
    "gap_seconds": number(0, MAX_SECONDS),
}

_WAIT = {"retry_after_seconds": 1.0, "retry_after_as": "seconds"}
_NO_WAIT = {"retry_after_seconds": 1.0, "retry_after_as": "none"}


def _refusal(*statuses: int, **defaults: Any) -> Kind:
    """A refusal; its usual status (None: it depends on the wire format) may be replaced by one of these."""
    status = {"status": None} if statuses else {}
    return Kind(group=Group.REFUSAL, statuses=statuses, defaults={**status, **defaults})


def _content(**defaults: Any) -> Kind:
    return Kind(group=Group.CONTENT, defaults=defaults)


def _delivery(**defaults: Any) -> Kind:
    return Kind(group=Group.DELIVERY, defaults=defaults)


KINDS: Mapping[str, Kind] = {
    "rate-limit": _refusal(**_WAIT),
    "rate-limit-in-200": _delivery(after_pieces=0, retry_after_seconds=1.0, retry_after_as="sentence"),
    "payment-required": _refusal(**_NO_WAIT),
    "insufficient-quota": _refusal(),
    "spend-limit": _refusal(),
    "overloaded": _refusal(503, 529, **_NO_WAIT),
    "overloaded-in-200": _delivery(after_pieces=2),
    "server-error": _refusal(500, 502, 503, 504, **_NO_WAIT),
    "refuse-connections": Kind(group=Group.LISTENER),
    "reset": _delivery(after_pieces=0),
    "cut": _delivery(after_pieces=2),
    "bad-request": _refusal(400, 404, 405, 422),
    "refused-field": _refusal(400, 422, field="temperature"),
    "unauthorized": _refusal(),
    "forbidden": _refusal(),
    "context-too-long": _refusal(400, 413),
    "html-page": _refusal(200, 403, 404, 500, 502, 503, 504),
    "not-json": _delivery(),
    "no-choices": _content(),
    "length": _content(),
    "empty": _content(),
    "reasoning-only": _content(),
    "invalid-json": _content(),
    "refusal": _content(),
    "truncated-tool-json": _content(),
    "no-usage": _content(),
    "wrong-finish": _content(finish=None),
    "no-end-mark": _content(),
    "torn-event": _delivery(after_pieces=2),
    "split-utf8": _delivery(gap_seconds=0.01),
    "silence": _delivery(after_pieces=1, seconds=75.0, keep_alive_seconds=None),
    "slow-drip": _delivery(piece_bytes=64, gap_seconds=0.1),
}


def parameter_check(kind: Kind, name: str) -> Check:
    """What a parameter of this kind may be."""
    return one_of(*kind.statuses) if name == "status" else PARAMETERS[name]
