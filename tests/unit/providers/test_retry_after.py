"""The clock stands at 2_000_000_000, which is 2033-05-18T03:33:20Z."""

from __future__ import annotations

import time

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.providers.retry_after import retry_after_seconds

NOW = 2_000_000_000.0


def wait(headers: dict[str, str], body: bytes = b"", *, cap_seconds: float = 86_400.0) -> float | None:
    return retry_after_seconds(headers, body, now_epoch_seconds=NOW, cap_seconds=cap_seconds)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0.0),
        ("12", 12.0),
        ("1.25", 1.25),
        (" 3 ", 3.0),
        ("-4", 0.0),
        ("9" * 400, 86_400.0),
        ("Wed, 18 May 2033 03:34:20 GMT", 60.0),
        ("Wednesday, 18-May-33 03:34:20 GMT", 60.0),
        ("Wed May 18 03:34:20 2033", 60.0),
        ("Wed, 18 May 2033 03:32:20 GMT", 0.0),
        ("30s", 30.0),
        ("1m30s", 90.0),
        ("2033-05-18T03:34:20Z", 60.0),
        ("Fri, 31 Dec 9999 23:59:59 GMT", 86_400.0),
        ("nan", None),
        ("inf", None),
        ("1_000", None),
        ("١٢", None),
        ("1e3", None),
        ("", None),
        ("in a moment", None),
    ],
)
def test_retry_after_is_a_number_or_an_http_date(value: str, seconds: float | None) -> None:
    assert wait({"Retry-After": value}) == seconds


def test_a_date_without_a_zone_is_gmt_wherever_this_machine_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "America/New_York")
        time.tzset()
        assert wait({"retry-after": "Wed May 18 03:34:20 2033"}) == 60.0
        assert wait({"x-ratelimit-reset": "2033-05-18T03:34:20"}) == 60.0
    time.tzset()


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ("Please try again in 5.289s. Visit", 5.289),
        ("try again in 1m2.5s", 62.5),
        ("Try again in 350ms", 0.35),
        ("Please retry after 26 seconds.", 26.0),
        ("please retry in 1 hour 2 minutes", 3720.0),
        ('"retryDelay": "34s"', 34.0),
        ('"retryDelay":"34.074824224s"', 34.074824224),
        ("try again in 5 more turns", None),
        ("try again later", None),
        ('"retryDelay": "..s"', None),
        ('{"retry_after": 5}', 5.0),
        ('{"error": {"retry_after_seconds":"5.5" }}', 5.5),
        ('{"retry_after": "soon"}', None),
        ('{"retry_after": null}', None),
        # 2_000_000_007_500 ms is 7.5 s from now; OpenRouter's own spelling, inside `error.metadata`.
        ('{"metadata": {"headers": {"X-RateLimit-Reset": "2000000007500"}}}', 7.5),
        ('{"metadata": {"headers": {"X-RateLimit-Reset": "never"}}}', None),
    ],
)
def test_a_body_may_hint(body: str, seconds: float | None) -> None:
    assert wait({}, body.encode()) == (None if seconds is None else pytest.approx(seconds))


def test_the_most_precise_statement_wins() -> None:
    reset = {"x-ratelimit-reset": "90"}
    assert wait({**reset, "retry-after": "5", "retry-after-ms": "1200"}, b"try again in 7s") == 1.2
    assert wait({**reset, "retry-after": "5"}, b"try again in 7s") == 5.0
    assert wait({**reset, "retry-after": "?"}, b"try again in 7s") == 7.0
    assert wait(reset) == 90.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("2033-05-18T03:33:50Z", 30.0),
        ("2033-05-18T05:33:50+02:00", 30.0),
        ("2033-05-18T03:33:50", 30.0),
        ("1s", 1.0),
        ("6m0s", 360.0),
        ("12ms", 0.012),
        ("1h2m3.5s", 3723.5),
        ("500us", 0.0005),
        ("2000000030", 30.0),
        ("2000000030000", 30.0),
        ("45", 45.0),
        ("tomorrow", None),
    ],
)
def test_resets_are_moments_durations_or_epochs(value: str, seconds: float | None) -> None:
    got = wait({"X-RateLimit-Reset": value})
    assert got == (None if seconds is None else pytest.approx(seconds))


def test_without_a_time_only_waits_are_read_and_no_moments() -> None:
    def timeless(headers: dict[str, str], body: bytes = b"") -> float | None:
        return retry_after_seconds(headers, body, now_epoch_seconds=None)

    assert timeless({"retry-after": "3"}) == 3.0
    assert timeless({}, b"try again in 2s") == 2.0
    assert timeless({"retry-after": "Wed, 18 May 2033 03:34:20 GMT", "x-ratelimit-reset": "9"}) is None
    assert timeless({}, b'{"X-RateLimit-Reset": "2000000007500"}') is None


def test_exhausted_limits_are_all_waited_for_and_others_not() -> None:
    headers = {
        "x-ratelimit-remaining-requests": "0",
        "x-ratelimit-reset-requests": "8s",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "20s",
        "x-ratelimit-remaining-images": "3",
        "x-ratelimit-reset-images": "2h",
    }
    assert wait(headers) == 20.0
    assert wait({**headers, "x-ratelimit-remaining-tokens": "150"}) == 8.0
    unknown = {name: value for name, value in headers.items() if "reset" in name}
    assert wait(unknown) == 8.0


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [b"retry-after", b"retry-after-ms", b"x-ratelimit-reset", b"anthropic-ratelimit-tokens-reset"]
            ),
            st.binary(max_size=40) | st.from_regex(rb"[0-9A-Za-z:,+. -]{0,40}", fullmatch=True),
        ),
        max_size=4,
    ),
    st.binary(max_size=80),
    st.floats(min_value=0, max_value=1e12) | st.none(),
    st.floats(min_value=0, max_value=1e6),
)
def test_any_bytes_give_a_wait_within_bounds_or_none(
    headers: list[tuple[bytes, bytes]], body: bytes, now: float | None, cap: float
) -> None:
    got = retry_after_seconds(httpx.Headers(headers), body, now_epoch_seconds=now, cap_seconds=cap)
    assert got is None or 0.0 <= got <= cap


@given(
    st.from_regex(
        r"(Mon|Monday|Xyz)?,? ?[0-9]{1,3}[ -](Jan|May|Foo)[ -][0-9]{1,6} "
        r"[0-9]{1,3}:[0-9]{1,3}(:[0-9]{1,3})? ?(GMT|[+-][0-9]{1,9}|)",
        fullmatch=True,
    )
)
def test_anything_like_a_date_is_read_or_ignored(text: str) -> None:
    got = wait({"retry-after": text})
    assert got is None or 0.0 <= got <= 86_400.0
