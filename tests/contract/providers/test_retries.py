"""Which layer sends again, how often, and after how long."""

from __future__ import annotations

import pytest

from tests.contract.providers.fault_server import Act, Script, reply, reset
from tests.contract.providers.world import RETRIES, World
from workers.providers.attempts import AttemptCounter
from workers.providers.base import (
    AttemptsExhaustedError,
    OverloadedError,
    ProviderError,
    QuotaError,
    RateLimitedError,
)


async def ask_like_the_semantic_layer(world: World, script: Script, counter: AttemptCounter) -> ProviderError:
    """Up to N retries of its own for what is repeatable, on the counter it shares with the HTTP layer."""
    provider = world.provider(script)
    last: ProviderError | None = None
    for _ in range(RETRIES + 1):
        try:
            await provider.complete(world.request(), counter)
        except AttemptsExhaustedError:
            break
        except ProviderError as error:
            last = error
            if not error.is_repeatable:
                break
    assert last is not None
    return last


def refusals(world: World) -> dict[str, Act]:
    return {
        "429": world.mode.refusal(429, "rate_limit_error"),
        "500": world.mode.refusal(500, "api_error"),
        "reset": reset,
        "torn": world.mode.torn("half"),
        "empty": world.mode.good(""),
        "200/429": world.mode.error_inside_200("rate_limit_error", "later"),
        "200/500": world.mode.error_inside_200("overloaded_error", "busy"),
    }


@pytest.mark.parametrize(
    ("pattern", "last_kind"),
    [
        (("429",), "rate"),
        (("500",), "overload"),
        (("429", "500"), "rate"),
        (("500", "429"), "overload"),
        (("reset",), "transport"),
        (("torn",), "transport"),
        (("empty",), "empty"),
        (("reset", "429", "500"), "overload"),
        (("500", "torn", "empty"), "empty"),
        (("200/429", "200/500"), "rate"),
    ],
)
async def test_both_retry_layers_together_send_n_plus_1_requests(
    world: World, pattern: tuple[str, ...], last_kind: str
) -> None:
    script = world.server.script(*(refusals(world)[name] for name in pattern), cycle=True)
    counter = AttemptCounter(RETRIES + 1)
    error = await ask_like_the_semantic_layer(world, script, counter)
    assert len(script.seen) == 3
    assert counter.remaining == 0
    assert error.kind == last_kind


async def test_a_counter_per_try_would_send_more(world: World) -> None:
    """The trap itself: the same two layers, each try with a counter of its own. Every try sees 429 then 500,
    so three tries send six requests; with 429, 429, 500 it would be the full nine."""
    acts = refusals(world)
    script = world.server.script(acts["429"], acts["429"], acts["500"], cycle=True)
    for _ in range(RETRIES + 1):
        with pytest.raises(OverloadedError):
            await world.provider(script).complete(world.request(), AttemptCounter(RETRIES + 1))
    assert len(script.seen) == (RETRIES + 1) ** 2


async def test_a_count_used_by_an_earlier_process_is_not_sent_again(world: World) -> None:
    script = world.server.script(world.mode.refusal(429, "rate_limit_error"))
    with pytest.raises(RateLimitedError):
        await world.provider(script).complete(world.request(), AttemptCounter(3, used=2))
    assert len(script.seen) == 1
    with pytest.raises(AttemptsExhaustedError):
        await world.provider(script).complete(world.request(), AttemptCounter(3, used=3))
    assert len(script.seen) == 1


@pytest.mark.parametrize("fault", ["500", "empty", "200/500"])
async def test_only_the_semantic_layer_retries_what_is_not_http(world: World, fault: str) -> None:
    error, script = await world.fail(refusals(world)[fault], limit=3)
    assert error.is_repeatable
    assert len(script.seen) == 1
    assert world.sleeps == []


@pytest.mark.parametrize("fault", ["429", "reset", "torn", "200/429"])
async def test_only_the_http_layer_retries_429_and_broken_connections(world: World, fault: str) -> None:
    completion, script = await world.ask(refusals(world)[fault], world.mode.good("ok"))
    assert completion.text == "ok"
    assert len(script.seen) == 2
    error, _ = await world.fail(refusals(world)[fault])
    assert not error.is_repeatable


WAITS: list[tuple[dict[str, str], str, float]] = [
    ({"retry-after-ms": "1500", "retry-after": "9"}, "", 1.5),
    ({"retry-after": "3"}, "", 3.0),
    ({"Retry-After": "2.5"}, "", 2.5),
    ({"retry-after": "Wed, 18 May 2033 03:33:20 GMT"}, "", 7.0),
    ({"retry-after": "Wednesday, 18-May-33 03:33:20 GMT"}, "", 7.0),
    ({"retry-after": "Wed May 18 03:33:20 2033"}, "", 7.0),
    ({"retry-after": "Wed, 18 May 1994 03:33:20 GMT"}, "", 0.0),
    ({}, "Rate limit reached. Please try again in 5.289s. Visit us.", 5.289),
    ({}, 'quota {"retryDelay": "19s"}', 19.0),
    ({"anthropic-ratelimit-requests-reset": "2033-05-18T03:33:20Z"}, "", 7.0),
    ({"x-ratelimit-reset-requests": "1m0s", "x-ratelimit-reset-tokens": "12ms"}, "", 0.012),
    ({"x-ratelimit-reset": "2000000000"}, "", 7.0),
    ({"x-ratelimit-reset": "2000000000000"}, "", 7.0),
    # Nothing readable: the client's own schedule, which starts with half of one second at jitter 0.
    ({"retry-after": "soon"}, "", 0.5),
]


@pytest.mark.parametrize(("headers", "hint", "seconds"), WAITS)
async def test_every_grammar_of_retry_after_is_waited_for(
    world: World, headers: dict[str, str], hint: str, seconds: float
) -> None:
    refusal = world.mode.refusal(429, "rate_limit_error", hint.replace('"', "'"), headers)
    if "retryDelay" in hint:
        refusal = reply(429, hint.encode(), content_type="text/plain", headers=headers)
    completion, script = await world.ask(refusal, world.mode.good("ok"))
    assert completion.text == "ok"
    assert len(script.seen) == 2
    assert world.sleeps == [pytest.approx(seconds)]
    assert world.blocks == [pytest.approx(seconds)]


async def test_a_stated_wait_above_the_limit_gives_the_worker_back_at_once(world: World) -> None:
    error, script = await world.fail(
        world.mode.refusal(429, "rate_limit_error", headers={"retry-after": "21"}),
        limit=3,
        timeout_seconds=60.0,
    )
    assert isinstance(error, RateLimitedError)
    assert error.retry_after_seconds == 21.0
    assert len(script.seen) == 1
    assert world.sleeps == []
    assert world.blocks == [21.0]


async def test_a_wait_beyond_the_deadline_is_a_rate_limit_not_a_timeout(world: World) -> None:
    error, script = await world.fail(
        world.mode.refusal(429, "rate_limit_error", headers={"retry-after": "6"}),
        limit=3,
        timeout_seconds=5.0,
    )
    assert isinstance(error, RateLimitedError)
    assert len(script.seen) == 1


async def test_nothing_is_waited_for_when_no_request_is_left(world: World) -> None:
    error, _ = await world.fail(
        world.mode.refusal(429, "rate_limit_error", headers={"retry-after": "9"}), limit=1
    )
    assert isinstance(error, RateLimitedError)
    assert world.sleeps == []


async def test_an_empty_account_is_never_retried(world: World) -> None:
    error, script = await world.fail(world.mode.refusal(429, "insufficient_quota"), limit=3)
    assert isinstance(error, QuotaError)
    assert len(script.seen) == 1
    assert world.blocks == []
