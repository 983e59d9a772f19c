"""What a reply can be, in both formats, whole and streamed."""

from __future__ import annotations

import pytest

from tests.contract.providers.fault_server import Script, hang, reply
from tests.contract.providers.world import KEY, World
from workers.core.reply import FinishReason, Usage
from workers.providers.attempts import AttemptCounter
from workers.providers.base import (
    AuthenticationError,
    BadRequestError,
    CallTimeoutError,
    EmptyReplyError,
    MalformedResponseError,
    OverloadedError,
    RefusedError,
    TransportError,
)
from workers.providers.usage import usage_scope


async def test_a_good_reply_is_read_with_its_text_model_and_usage(world: World) -> None:
    completion, script = await world.ask(world.mode.good("be", "cause", reasoning="hm"))
    assert completion.text == "because"
    assert completion.reasoning == "hm"
    assert completion.model_served == "served-1"
    assert completion.finish_reason is FinishReason.STOP
    assert completion.usage == Usage(
        input_tokens=11, output_tokens=7, cached_input_tokens=5, cache_write_input_tokens=2
    )
    assert not completion.is_simulated
    assert completion.request_id in ("chat-1", "msg-1")
    assert len(script.seen) == 1
    sent = script.seen[0]
    assert sent.path.endswith("/chat/completions" if world.mode.dialect.wire == "openai" else "/messages")
    assert sent.body["model"] == "asked-1"
    assert sent.body["max_tokens"] == 100
    assert sent.body.get("stream", False) is world.mode.is_stream
    assert KEY in (sent.headers.get("authorization", "") + sent.headers.get("x-api-key", ""))


async def test_the_simulated_marker_is_read_from_the_reply(world: World) -> None:
    assert (await world.ask(world.mode.good("x", simulated=True)))[0].is_simulated
    assert not (await world.ask(world.mode.good("x", simulated="yes")))[0].is_simulated


async def test_an_error_page_of_a_proxy_is_an_overload(world: World) -> None:
    page = b"<html><head><title>502 Bad&nbsp;Gateway</title></head></html>"
    error, _ = await world.fail(reply(502, page, content_type="text/html"))
    assert isinstance(error, OverloadedError)
    assert "HTTP 502: an HTML page titled" in str(error)


async def test_a_page_of_html_in_a_200_is_malformed(world: World) -> None:
    error, _ = await world.fail(
        reply(200, b"<!DOCTYPE html><title>Sign in</title>", content_type="text/html")
    )
    assert isinstance(error, MalformedResponseError)
    assert "HTML" in str(error)


async def test_an_empty_body_and_a_stub_are_malformed(world: World) -> None:
    for body in (b"", b"{}", b"[]", b"null", b'{"choices": [], "content": 3}', b"\xff\xfe{"):
        error, _ = await world.fail(reply(200, body))
        assert isinstance(error, MalformedResponseError), body


async def test_an_error_inside_a_200_keeps_its_class(world: World) -> None:
    error, script = await world.fail(
        world.mode.error_inside_200("overloaded_error", "busy", after=["half"]), limit=3
    )
    assert isinstance(error, OverloadedError)
    assert "busy" in str(error)
    assert len(script.seen) == 1
    error, _ = await world.fail(world.mode.error_inside_200("authentication_error", "bad key"))
    assert isinstance(error, AuthenticationError)


async def test_a_truncated_reply_is_returned_and_says_so(world: World) -> None:
    completion, script = await world.ask(world.mode.good('{"a": [1, ', finish="length"))
    assert completion.finish_reason is FinishReason.LENGTH
    assert completion.text == '{"a": [1, '
    assert len(script.seen) == 1


async def test_a_reply_of_thoughts_only_says_that_thinking_ate_the_budget(world: World) -> None:
    error, _ = await world.fail(world.mode.good(finish="length", reasoning="let me think"))
    assert isinstance(error, EmptyReplyError)
    assert error.reasoning_only
    assert error.usage == Usage(
        input_tokens=11, output_tokens=7, cached_input_tokens=5, cache_write_input_tokens=2
    )


async def test_a_reply_without_a_word_is_empty(world: World) -> None:
    error, _ = await world.fail(world.mode.good(" \n"))
    assert isinstance(error, EmptyReplyError)
    assert not error.reasoning_only


async def test_a_refusal_is_not_an_empty_reply(world: World) -> None:
    error, _ = await world.fail(world.mode.good("I cannot", finish="refusal"))
    assert isinstance(error, RefusedError)
    assert "I cannot" in str(error)
    assert not error.is_repeatable


async def test_a_hang_ends_at_the_deadline(world: World) -> None:
    error, script = await world.fail(hang, limit=3, timeout_seconds=0.1)
    assert isinstance(error, CallTimeoutError)
    assert "0.1 s" in str(error)
    assert len(script.seen) == 1


async def test_a_refused_optional_field_is_dropped_once_and_for_all(world: World) -> None:
    script = world.server.script(
        world.mode.refusal(400, "invalid_request_error", "`temperature` is not supported with this model"),
        world.mode.good("one"),
    )
    provider = world.provider(script)
    assert (await provider.complete(world.request(), AttemptCounter(2))).text == "one"
    assert (await provider.complete(world.request(), AttemptCounter(1))).text == "one"
    assert ["temperature" in seen.body for seen in script.seen] == [True, False, False]
    other_model = world.request(model="asked-2")
    assert (await provider.complete(other_model, AttemptCounter(1))).text == "one"
    assert "temperature" in script.seen[-1].body


async def test_a_field_drop_does_not_cost_the_last_request(world: World) -> None:
    refusal = world.mode.refusal(422, "invalid_request_error", "unknown field 'temperature'")
    completion, script = await world.ask(refusal, world.mode.good("ok"), limit=1)
    assert completion.text == "ok"
    assert len(script.seen) == 2


async def test_what_follows_a_field_drop_is_counted(world: World) -> None:
    """With N+1 = 2 requests: one is refused for the field (free the second time), then a 429 is answered once
    more and no oftener."""
    refusal = world.mode.refusal(422, "invalid_request_error", "unknown field 'temperature'")
    slow = world.mode.refusal(429, "rate_limit_error")
    error, script = await world.fail(refusal, slow, limit=2)
    assert error.kind == "rate"
    assert len(script.seen) == 3


async def test_a_field_that_was_dropped_and_is_named_again_ends_it(world: World) -> None:
    refusal = world.mode.refusal(422, "invalid_request_error", "unknown field 'temperature'")
    error, script = await world.fail(refusal, limit=3)
    assert isinstance(error, BadRequestError)
    assert len(script.seen) == 2


async def test_a_bad_request_that_names_none_of_our_fields_is_final(world: World) -> None:
    error, script = await world.fail(
        world.mode.refusal(400, "invalid_request_error", "no such model"), limit=3
    )
    assert isinstance(error, BadRequestError)
    assert len(script.seen) == 1


async def test_a_key_quoted_by_the_provider_is_cut_out(world: World) -> None:
    error, _ = await world.fail(world.mode.refusal(401, "authentication_error", f"wrong key {KEY}!"))
    assert isinstance(error, AuthenticationError)
    assert "wrong key [key]!" in str(error)


async def test_models_are_listed_in_the_providers_order(world: World) -> None:
    listing = reply(200, b'{"data": [{"id": "b"}, {"id": "a"}, {"id": "b"}, {"name": "?"}]}')
    script = world.server.script(world.mode.refusal(429, "rate_limit_error"), listing)
    assert await world.provider(script).list_models() == ("b", "a")
    assert [seen.path.rpartition("/")[2] for seen in script.seen] == ["models", "models"]
    with pytest.raises(AuthenticationError):
        await world.provider(world.server.script(world.mode.refusal(401, "x"))).list_models()


async def test_a_refused_connection_is_retried_and_then_a_transport_error(world: World) -> None:
    script = Script("http://127.0.0.1:1/v1", (), is_cycle=False)
    counter = AttemptCounter(3)
    with pytest.raises(TransportError):
        await world.provider(script).complete(world.request(), counter)
    assert counter.used == 3


async def test_a_torn_reply_is_paid_for_by_estimate(world: World) -> None:
    """Torn, then whole with 11 in: the torn one is counted besides, its input at least."""
    completion, script = await world.ask(world.mode.torn("12345678"), world.mode.good("ok"))
    assert len(script.seen) == 2
    assert completion.usage.is_estimated
    assert completion.usage.input_tokens >= 11 + 3  # "be brief" + "why?" are 12 characters, 3 tokens


async def test_a_page_that_says_to_come_back_later_is_malformed(world: World) -> None:
    """202: a reply that is not ready. Nobody asked for one to be fetched later."""
    error, script = await world.fail(reply(202, b'{"request_id": "later"}'), limit=3)
    assert isinstance(error, MalformedResponseError)
    assert error.status == 202
    assert len(script.seen) == 1


async def test_usage_of_every_call_lands_in_the_open_scope(world: World) -> None:
    with usage_scope() as scope:
        await world.ask(world.mode.good("x"))
        await world.fail(world.mode.good(finish="length", reasoning="hm"))
        await world.fail(world.mode.refusal(400, "x"))
    assert scope.calls == 2
    assert scope.by_model["tested", "asked-1"].usage == Usage(
        input_tokens=22, output_tokens=14, cached_input_tokens=10, cache_write_input_tokens=4
    )
