"""What a provider tells everybody: waits, load, and what is left of its limits."""

from __future__ import annotations

import pytest

from tests.contract.providers.fault_server import reply, reset
from tests.contract.providers.world import World
from workers.governor.base import Headroom
from workers.providers.base import OverloadedError

LEFT = {"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "2s"}
SAID = Headroom(requests_remaining=3, requests_reset_seconds=2.0)


async def test_headers_of_any_answer_are_told(world: World) -> None:
    """A 429, a 500 and a good answer each say what is left."""
    slow = world.mode.refusal(429, "rate_limit_error", headers={**LEFT, "retry-after": "1"})
    await world.ask(slow, world.mode.good("ok"))
    assert world.headrooms == [SAID]
    await world.fail(world.mode.refusal(500, "api_error", headers=LEFT))
    assert world.headrooms == [SAID] * 2
    await world.ask(world.mode.good("ok", headers=LEFT))
    assert world.headrooms == [SAID] * 3


@pytest.mark.parametrize("status", [503, 529])
async def test_load_is_told_as_load(world: World, status: int) -> None:
    await world.fail(world.mode.refusal(status, "overloaded_error"))
    assert (world.overloads, world.blocks) == (["asked-1"], [])


async def test_load_inside_a_200_is_told_too(world: World) -> None:
    await world.fail(world.mode.error_inside_200("overloaded_error", "busy", after=["half"]))
    assert (world.overloads, world.blocks) == (["asked-1"], [])


async def test_an_overload_with_a_stated_wait_is_kept_by_everybody(world: World) -> None:
    error, script = await world.fail(
        world.mode.refusal(503, "overloaded_error", headers={"retry-after": "9"}), limit=3
    )
    assert isinstance(error, OverloadedError)
    assert error.retry_after_seconds == 9.0
    assert (world.overloads, world.blocks) == ([], [9.0])
    assert (len(script.seen), world.sleeps) == (1, [])


async def test_other_failures_say_nothing_about_load(world: World) -> None:
    for act in (
        world.mode.refusal(500, "api_error"),
        world.mode.refusal(400, "invalid_request_error"),
        world.mode.refusal(429, "insufficient_quota"),
        reply(202, b"{}"),
        reset,
        world.mode.good(""),
    ):
        await world.fail(act)
    assert (world.overloads, world.blocks, world.headrooms) == ([], [], [])


async def test_a_list_of_models_is_no_call_to_a_model(world: World) -> None:
    listing = reply(200, b'{"data": [{"id": "a"}]}', headers=LEFT)
    script = world.server.script(world.mode.refusal(429, "rate_limit_error"), listing)
    assert await world.provider(script).list_models() == ("a",)
    assert (world.blocks, world.headrooms) == ([], [])
