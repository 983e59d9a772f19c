"""A seat's way along its chain: by cause, bounded, and with a reason to come back or to give up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from workers.errors import ConsensusError, SlotTimeoutError
from workers.governor.breaker import Refusal
from workers.provenance.repository.call_history import Asked
from workers.providers.base import (
    BadRequestError,
    ContextTooLongError,
    OverloadedError,
    ProviderError,
    QuotaError,
    RateLimitedError,
    RefusedError,
)
from workers.providers.chain import Link
from workers.stages.walk import MOST_DELIVERIES, MOST_DELIVERIES_WHEN_DOWN, SeatFailedError, Walk

A = Link(provider="one", model="a", family="alder")
A2 = Link(provider="one", model="a2", family="alder")
B = Link(provider="two", model="b", family="birch")
C = Link(provider="three", model="c", family="alder")


def walk(
    *links: Link, ends: Mapping[Link, ConsensusError] | None = None, **changes: Any
) -> tuple[Walk[str], list[Link]]:
    """A walk over `links`, of which those in `ends` raise that and the others answer; and whom it asked."""
    asked: list[Link] = []

    def ask(link: Link, number: int, used: int) -> str:
        asked.append(link)
        if link in (ends or {}):
            raise (ends or {})[link]
        return f"{link.model} after {used}"

    values: dict[str, Any] = {
        "links": links,
        "asked_before": {},
        "retries": 2,
        "deliveries": 1,
        "is_batch": False,
        "window": {}.get,
        "refusal": lambda _: None,
        "moved": lambda _: None,
        "ask": ask,
        "spent": lambda: 1,
    }
    return Walk(**{**values, **changes}), asked


def refuses(
    link: Link, retry_seconds: float | None, kind: str = "overload"
) -> Callable[[Link], Refusal | None]:
    refusal = Refusal(kind=kind, detail="HTTP 503", retry_seconds=retry_seconds)
    return lambda other: refusal if other == link else None


def test_the_first_link_that_answers_is_enough() -> None:
    way, asked = walk(A, B)

    assert way.answer() == "a after 0"
    assert (asked, way.failures) == ([A], [])


@pytest.mark.parametrize(
    ("error", "asked_next"),
    [
        # The whole account: nobody else of provider one.
        (QuotaError("402"), [A, B]),
        # A habit of the family: neither a2 nor c.
        (RefusedError("no"), [A, B]),
        (OverloadedError("503"), [A, A2]),
        (BadRequestError("400"), [A, A2]),
        # Nobody knows the windows.
        (ContextTooLongError("413"), [A, A2]),
    ],
)
def test_the_cause_decides_who_is_asked_next(error: ProviderError, asked_next: list[Link]) -> None:
    way, asked = walk(A, A2, C, B, ends={A: error})

    way.answer()

    assert asked == (asked_next if error.kind != "quota" else [A, C])


def test_a_prompt_too_long_goes_to_a_larger_window_only() -> None:
    way, asked = walk(A, A2, B, ends={A: ContextTooLongError("413")}, window={A: 100, A2: 100, B: 200}.get)

    assert way.answer() == "b after 0"
    assert asked == [A, B]
    assert [failure.detail for failure in way.failures] == ["413", "not asked: one/a ended with context"]


def test_an_open_breaker_is_walked_past_without_a_request() -> None:
    way, asked = walk(A, B, refusal=refuses(A, 9.0))

    assert way.answer() == "b after 0"
    assert asked == [B]
    assert way.failures[0].detail == "not asked: HTTP 503"


def test_a_seat_comes_back_for_the_shortest_wait_when_nobody_answers() -> None:
    limited = RateLimitedError("429", retry_after_seconds=60)
    way, _ = walk(A, B, C, ends={B: limited, C: BadRequestError("400")}, refusal=refuses(A, 9.0))

    with pytest.raises(SlotTimeoutError) as raised:
        way.answer()

    assert raised.value.wait_seconds == 9.0


@pytest.mark.parametrize(
    ("is_batch", "deliveries", "comes_back"),
    [
        (False, MOST_DELIVERIES_WHEN_DOWN - 1, True),
        (False, MOST_DELIVERIES_WHEN_DOWN, False),
        (True, MOST_DELIVERIES_WHEN_DOWN, True),
        (True, MOST_DELIVERIES, False),
    ],
)
def test_patience_with_a_provider_that_is_down_ends(
    is_batch: bool, deliveries: int, comes_back: bool
) -> None:
    way, _ = walk(A, refusal=refuses(A, 9.0), is_batch=is_batch, deliveries=deliveries)

    with pytest.raises(SlotTimeoutError if comes_back else SeatFailedError):
        way.answer()


def test_an_empty_account_is_no_reason_to_come_back() -> None:
    way, _ = walk(A, refusal=refuses(A, None, kind="quota"))

    with pytest.raises(SeatFailedError) as raised:
        way.answer()

    assert raised.value.cause == "quota"


@pytest.mark.parametrize("error", [RateLimitedError, OverloadedError])
@pytest.mark.parametrize(("spent", "comes_back"), [(2, True), (3, False)])
def test_a_stated_wait_is_worth_coming_back_for_while_requests_are_left(
    spent: int, comes_back: bool, error: type[RateLimitedError] | type[OverloadedError]
) -> None:
    # retries 2: three requests in all.
    way, _ = walk(A, ends={A: error("later", retry_after_seconds=60)}, spent=lambda: spent)

    with pytest.raises(SlotTimeoutError if comes_back else SeatFailedError):
        way.answer()


def test_a_wait_beyond_the_longest_is_not_waited_for() -> None:
    way, _ = walk(A, ends={A: SlotTimeoutError("tomorrow", wait_seconds=901)})

    with pytest.raises(SeatFailedError):
        way.answer()


def test_what_was_asked_before_counts_whoever_asked_it_and_in_whatever_order() -> None:
    before = {
        ("one", "a"): Asked(requests=3, error_kind=None, error=None),
        ("two", "b"): Asked(requests=1, error_kind="bad_request", error="HTTP 400"),
        ("three", "c"): Asked(requests=2, error_kind="overload", error="HTTP 503"),
    }
    way, asked = walk(B, A, C, asked_before=before)

    # a has spent its three requests, b can only fail again, c has one left.
    assert way.answer() == "c after 2"
    assert asked == [C]
    assert [(failure.link, failure.kind) for failure in way.failures] == [
        (B, "bad_request"),
        (A, "lost_worker"),
    ]
