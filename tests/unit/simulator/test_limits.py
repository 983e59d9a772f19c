"""The limiter alone: time is a number, all of a call's limits are taken or none."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workers.errors import InputError
from workers.providers.simulator.limits import Admission, Demand, Gauge, Limiter, Limits

MIDNIGHT = 86_400.0 * 20_000


def demand(**fields: Any) -> Demand:
    plain: dict[str, Any] = {
        "key": "k",
        "family": "sim-alder",
        "input_tokens": 10,
        "output_tokens": 5,
        "reserved_output_tokens": 20,
        "cost_usd": 0.5,
    }
    return Demand(**(plain | fields))


def cause(admission: Admission) -> str | None:
    return admission.refusal.cause if admission.refusal else None


def gauge(admission: Admission, meter: str) -> Gauge:
    (found,) = [gauge for gauge in admission.gauges if gauge.meter == meter]
    return found


def test_requests_refill_all_the_time() -> None:
    limiter = Limiter(Limits(requests_per_minute=3))
    # Three at once; the next when 60 s / 3 have passed, and not a moment before.
    assert [cause(limiter.admit(demand(), 0.0)) for _ in range(4)] == [None, None, None, "requests"]
    assert cause(limiter.admit(demand(), 19.99)) == "requests"
    assert cause(limiter.admit(demand(), 20.0)) is None


def test_a_short_burst_holds_a_minutes_limit_to_each_second() -> None:
    limiter = Limiter(Limits(requests_per_minute=120, burst_seconds=1))
    # Two a second.
    assert [cause(limiter.admit(demand(), 0.0)) for _ in range(3)] == [None, None, "requests"]
    assert cause(limiter.admit(demand(), 0.5)) is None


def test_the_stated_wait_is_exactly_enough() -> None:
    limiter = Limiter(Limits(requests_per_minute=7, input_tokens_per_minute=100))
    now = 0.0
    for _ in range(30):
        admission = limiter.admit(demand(), now)
        while admission.refusal is not None:
            assert admission.refusal.wait_seconds is not None
            now += admission.refusal.wait_seconds
            admission = limiter.admit(demand(), now)
    # Both buckets start full. 30 calls of 10 tokens need 300; 200 of them come at 100 a minute: 120 s.
    # 23 requests come at 7 a minute: 197.1 s, which decides.
    assert now == pytest.approx(23 * 60 / 7)


@settings(max_examples=60)
@given(
    calls=st.lists(
        st.tuples(st.floats(0, 20), st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=60
    )
)
def test_no_window_lets_in_more_than_the_rate_and_the_burst(calls: list[tuple[float, int, int]]) -> None:
    limits = Limits(requests_per_minute=20, input_tokens_per_minute=300, burst_seconds=6)
    limiter = Limiter(limits)
    now, admitted = 0.0, []
    for wait_seconds, input_tokens, reserved in calls:
        now += wait_seconds
        call = demand(input_tokens=input_tokens, reserved_output_tokens=reserved, output_tokens=0)
        if limiter.admit(call, now).refusal is None:
            admitted.append((now, input_tokens))
    for start, _ in admitted:
        for end, _ in admitted:
            inside = [tokens for moment, tokens in admitted if start <= moment <= end]
            if inside:
                # A burst of 2 requests and of 30 tokens; a call of up to 40 may leave a debt of 10.
                assert len(inside) <= 2 + (end - start) / 3 + 1e-6
                assert sum(inside) <= 30 + 10 + (end - start) * 5 + 1e-6


def test_a_refused_call_takes_nothing() -> None:
    limiter = Limiter(Limits(requests_per_minute=10, input_tokens_per_minute=15))
    limiter.admit(demand(), 0.0)
    refused = limiter.admit(demand(), 0.0)
    assert cause(refused) == "input-tokens"
    assert gauge(refused, "requests").remaining == 9
    assert gauge(refused, "input-tokens").remaining == 5


def test_a_call_larger_than_the_limit_is_let_in_when_it_is_full_and_leaves_a_debt() -> None:
    limiter = Limiter(Limits(input_tokens_per_minute=60))
    assert cause(limiter.admit(demand(input_tokens=180), 0.0)) is None
    refused = limiter.admit(demand(input_tokens=1), 0.0)
    # 120 tokens of debt and one more, at one a second.
    assert refused.refusal is not None
    assert refused.refusal.wait_seconds == pytest.approx(121)
    assert gauge(refused, "input-tokens") == Gauge(
        meter="input-tokens", limit=60, remaining=0, reset_seconds=180
    )


def test_output_is_reserved_and_what_was_not_used_comes_back() -> None:
    limiter = Limiter(Limits(output_tokens_per_minute=100))
    first = demand(reserved_output_tokens=90, output_tokens=30)
    limiter.admit(first, 0.0)
    assert cause(limiter.admit(demand(reserved_output_tokens=20), 0.0)) == "output-tokens"
    limiter.release(first, 0.0)
    assert gauge(limiter.admit(demand(reserved_output_tokens=20), 0.0), "output-tokens").remaining == 50


def test_what_comes_back_never_overfills() -> None:
    limiter = Limiter(Limits(output_tokens_per_minute=100))
    call = demand(reserved_output_tokens=90, output_tokens=0)
    limiter.admit(call, 0.0)
    limiter.release(call, 60.0)
    assert gauge(limiter.admit(demand(reserved_output_tokens=0), 60.0), "output-tokens").remaining == 100


def test_a_days_requests_begin_anew_at_midnight_utc() -> None:
    limiter = Limiter(Limits(requests_per_day=2))
    evening = MIDNIGHT - 30
    assert [cause(limiter.admit(demand(), evening)) for _ in range(3)] == [None, None, "requests-per-day"]
    refusal = limiter.admit(demand(), evening).refusal
    assert refusal is not None
    assert refusal.wait_seconds == 30
    assert cause(limiter.admit(demand(), MIDNIGHT)) is None


def test_places_are_free_again_once_calls_end() -> None:
    limiter = Limiter(Limits(concurrency=2))
    assert [cause(limiter.admit(demand(), 0.0)) for _ in range(3)] == [None, None, "concurrency"]
    limiter.release(demand(), 0.0)
    assert cause(limiter.admit(demand(), 0.0)) is None


def test_overload_counts_all_keys_and_families() -> None:
    limiter = Limiter(Limits(overload_above=2))
    calls = [demand(key="a"), demand(key="b", family="sim-birch"), demand(key="c")]
    assert [cause(limiter.admit(call, 0.0)) for call in calls] == [None, None, "overload"]


def test_an_allowance_is_the_keys_and_never_refills() -> None:
    limiter = Limiter(Limits(allowance_tokens=20))
    # 15 tokens a call: the second still begins under the allowance, the third does not.
    assert [cause(limiter.admit(demand(), 0.0)) for _ in range(3)] == [None, None, "allowance"]
    assert cause(limiter.admit(demand(family="sim-birch"), 1e9)) == "allowance"
    assert cause(limiter.admit(demand(key="other"), 0.0)) is None


def test_an_allowance_in_dollars_counts_cost() -> None:
    limiter = Limiter(Limits(allowance_usd=1.0))
    assert [cause(limiter.admit(demand(), 0.0)) for _ in range(3)] == [None, None, "allowance"]


def test_a_clock_that_steps_back_takes_nothing_away() -> None:
    limiter = Limiter(Limits(requests_per_minute=60))
    limiter.admit(demand(), 100.0)
    assert gauge(limiter.admit(demand(), 50.0), "requests").remaining == 58


def test_invented_keys_do_not_pile_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.providers.simulator.limits.MAX_BUCKETS", 10)
    limiter = Limiter(Limits(requests_per_minute=1, allowance_tokens=10))
    held = demand(key="held")
    limiter.admit(held, 0.0)
    for number in range(50):
        call = demand(key=str(number))
        limiter.admit(call, 0.0)
        limiter.release(call, 0.0)
    assert len(limiter._accounts) <= 10
    assert len(limiter._spent) <= 10
    # A key with a call in flight is not forgotten: its only request of the minute is still taken.
    assert limiter._accounts["held", "sim-alder"].running == 1


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"requests_per_minute": 0}, "requests_per_minute is 0; it must be at least 1"),
        (
            {"requests_per_minute": math.inf},
            "requests_per_minute is inf; it must be at least 1 and below 1e15",
        ),
        ({"concurrency": -1}, "concurrency is -1"),
        ({"burst_seconds": 0}, "burst_seconds is 0"),
        ({"allowance_usd": -0.01}, "allowance_usd is -0.01; it must be at least 0"),
        ({"input_tokens_per_minute": float("nan")}, "input_tokens_per_minute is nan"),
        ({"output_tokens_per_minute": float("inf")}, "output_tokens_per_minute is inf"),
    ],
)
def test_an_impossible_limit_is_refused_with_a_sentence(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Limits(**fields)


def test_unlimited_is_what_nobody_has_limited() -> None:
    assert not Limits().any_is_set
    assert not Limits(burst_seconds=1).any_is_set
    assert Limits(allowance_usd=0).any_is_set
