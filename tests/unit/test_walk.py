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
from workers.stages.walk import (
    MOST_DELIVERIES,
    MOST_DELIVERIES_WHEN_DOWN,
    SeatFailedError,
    Walk,
)

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
        "at": 0,
        "is_batch": False,
        "held_seconds": 200.0,
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
    ("deliveries", "comes_back"), [(MOST_DELIVERIES_WHEN_DOWN - 1, True), (MOST_DELIVERIES_WHEN_DOWN, False)]
)
def test_patience_with_a_provider_that_is_down_ends(deliveries: int, comes_back: bool) -> None:
    way, _ = walk(A, refusal=refuses(A, 9.0), deliveries=deliveries)

    with pytest.raises(SlotTimeoutError if comes_back else SeatFailedError):
        way.answer()


@pytest.mark.parametrize(
    ("kind", "retry_seconds", "wait_seconds"),
    [("overload", 9.0, 9.0), ("quota", None, 200.0), ("auth", None, 200.0)],
)
def test_a_batch_waits_for_an_account_that_is_away_at_no_cost_to_its_seats(
    kind: str, retry_seconds: float | None, wait_seconds: float
) -> None:
    deliveries = 10 * MOST_DELIVERIES
    way, asked = walk(A, refusal=refuses(A, retry_seconds, kind), is_batch=True, deliveries=deliveries)

    with pytest.raises(SlotTimeoutError) as raised:
        way.answer()

    assert (raised.value.wait_seconds, raised.value.is_held, asked) == (wait_seconds, True, [])


def test_a_batch_waits_for_its_turn_at_no_cost_to_its_seats() -> None:
    line = SlotTimeoutError("the line is long", wait_seconds=30)
    way, _ = walk(A, ends={A: line}, is_batch=True, deliveries=10 * MOST_DELIVERIES)

    with pytest.raises(SlotTimeoutError) as raised:
        way.answer()

    assert (raised.value.wait_seconds, raised.value.is_held) == (30, True)


@pytest.mark.parametrize(("deliveries", "comes_back"), [(1, True), (MOST_DELIVERIES, False)])
def test_a_batchs_seat_that_another_link_failed_waits_for_the_rest_of_its_chain_but_not_for_ever(
    deliveries: int, comes_back: bool
) -> None:
    way, asked = walk(
        A,
        B,
        ends={B: BadRequestError("400")},
        refusal=refuses(A, None, "quota"),
        is_batch=True,
        deliveries=deliveries,
    )

    with pytest.raises(SlotTimeoutError if comes_back else SeatFailedError) as raised:
        way.answer()

    assert asked == [B]
    assert getattr(raised.value, "is_held", False) is False


@pytest.mark.parametrize("is_batch", [False, True])
def test_an_account_found_empty_ends_a_seat_somebody_waits_for_and_defers_one_of_a_batch(
    is_batch: bool,
) -> None:
    way, _ = walk(A, ends={A: QuotaError("402")}, is_batch=is_batch)

    with pytest.raises(SlotTimeoutError if is_batch else SeatFailedError):
        way.answer()


@pytest.mark.parametrize("is_batch", [False, True])
def test_a_batch_asks_again_where_an_account_was_empty_before(is_batch: bool) -> None:
    before = {("one", "a"): Asked(requests=1, error_kind="quota", error="402")}
    way, asked = walk(A, B, asked_before=before, is_batch=is_batch)

    way.answer()

    assert asked == ([A] if is_batch else [B])


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


def test_it_says_where_it_stands_whenever_that_is_elsewhere_than_before() -> None:
    """The row stood at the second link; the first is free again, and refers to the second once more."""
    moves: list[int] = []
    way, _ = walk(A, B, ends={A: OverloadedError("503")}, at=1, moved=moves.append)

    way.answer()

    assert moves == [0, 1]


def test_a_walk_that_begins_where_the_row_stands_says_nothing() -> None:
    moves: list[int] = []
    way, _ = walk(A, B, moved=moves.append)

    way.answer()

    assert moves == []
