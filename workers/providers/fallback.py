"""Where a seat turns when a model fails it: by cause, within its chain (DESIGN §4). Pure."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal

from workers.providers.chain import Link

#: Causes that every model of the same account shares.
_ACCOUNT_WIDE = frozenset({"quota", "auth"})

#: How many tokens a model takes in all, None if nobody knows.
Window = Callable[[Link], int | None]
#: What a model costs, in any one unit, None if nobody knows.
Cost = Callable[[Link], Decimal | None]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A link that gave no usable answer, and the kind of error it ended with."""

    link: Link
    kind: str
    detail: str


def reason_to_skip(link: Link, failures: Iterable[Failure], window: Window) -> Failure | None:
    """The failure because of which asking `link` is pointless, or None.

    An empty account or a refused key is the same for every model of that provider; a refusal is a habit of the
    family; a prompt that was too long for one window is too long for every smaller one.
    """
    for failure in failures:
        failed = failure.link
        if failure.kind in _ACCOUNT_WIDE and link.provider == failed.provider:
            return failure
        if failure.kind == "refusal" and link.family == failed.family:
            return failure
        if failure.kind == "context" and _is_known_not_larger(window(link), window(failed)):
            return failure
    return None


def _is_known_not_larger(this: int | None, other: int | None) -> bool:
    return this is not None and other is not None and this <= other


def frugal(chain: Sequence[Link], extra: Sequence[Link], cost: Cost) -> tuple[Link, ...]:
    """The chain for low-quota mode: the same links and `extra` (the cheap models of the same providers), the
    cheapest first; equally cheap ones keep their order, those without a known price come last."""
    links = dict.fromkeys((*chain, *extra))
    unknown = Decimal("Infinity")

    def price(link: Link) -> Decimal:
        known = cost(link)
        return unknown if known is None else known

    return tuple(sorted(links, key=price))
