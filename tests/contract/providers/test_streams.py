"""What only a stream can do."""

from __future__ import annotations

import dataclasses

from tests.contract.providers.fault_server import stream
from tests.contract.providers.world import World
from workers.core.reply import Usage
from workers.providers.attempts import AttemptCounter
from workers.providers.base import (
    MalformedResponseError,
    TransportError,
)
from workers.providers.http import HttpClient


async def test_characters_split_across_chunks_stay_whole(streaming: World) -> None:
    raw = b"".join(streaming.mode.dialect.events("naïve ", "日本", "🦊"))
    completion, _ = await streaming.ask(stream(*(raw[i : i + 1] for i in range(len(raw)))))
    assert completion.text == "naïve 日本🦊"


async def test_a_missing_end_mark_is_forgiven(streaming: World) -> None:
    events = streaming.mode.dialect.events("done")[:-1]
    completion, script = await streaming.ask(stream(*events))
    assert completion.text == "done"
    assert completion.usage == Usage(
        input_tokens=11, output_tokens=7, cached_input_tokens=5, cache_write_input_tokens=2
    )
    assert len(script.seen) == 1


async def test_comments_and_blank_lines_keep_a_stream_alive(streaming: World) -> None:
    pieces = [b": keep-alive\n\n", b"\n", *streaming.mode.dialect.events("ok")[:2], b": PROCESSING\r\n\r\n"]
    pieces += streaming.mode.dialect.events("ok")[2:]
    completion, _ = await streaming.ask(stream(*pieces))
    assert completion.text == "ok"


async def test_a_stream_that_ends_without_finish_is_a_broken_connection(streaming: World) -> None:
    error, script = await streaming.fail(
        stream(*streaming.mode.dialect.events("12345678", finish=None)), limit=2
    )
    assert isinstance(error, TransportError)
    assert "after 8 characters without a finish reason" in str(error)
    assert len(script.seen) == 2


async def test_a_cut_stream_is_paid_for_by_estimate(streaming: World) -> None:
    """Two cut streams of 8 characters (2 tokens each), then a whole one with 11 in and 7 out. The OpenAI
    format never said its input, so "be brief" + "why?" (12 characters, 3 tokens) stands in for it."""
    cut = stream(*streaming.mode.dialect.events("12345678", finish=None), ending="reset")
    completion, _ = await streaming.ask(cut, cut, streaming.mode.good("ok"))
    stated_input = streaming.mode.dialect.wire == "anthropic"
    assert completion.usage == Usage(
        input_tokens=11 + 2 * (11 if stated_input else 3),
        output_tokens=7 + 2 * 2,
        cached_input_tokens=15 if stated_input else 5,
        cache_write_input_tokens=6 if stated_input else 2,
        is_estimated=True,
    )


async def test_a_stream_cut_before_its_first_word_is_paid_for_too(streaming: World) -> None:
    """The model was at work on the prompt: 11 (stated by one format) or 3 tokens (by estimate), none out. An error
    in its place is an answer, and costs nothing."""
    begun = stream(*streaming.mode.dialect.events(finish=None), ending="reset")
    completion, _ = await streaming.ask(begun, streaming.mode.good("ok"))
    stated_input = streaming.mode.dialect.wire == "anthropic"
    assert completion.usage.input_tokens == 11 + (11 if stated_input else 3)
    assert completion.usage.output_tokens == 7
    assert completion.usage.is_estimated
    error, _ = await streaming.fail(streaming.mode.error_inside_200("overloaded_error", "busy"))
    assert error.usage is None


async def test_a_stream_that_breaks_after_its_finish_reason_is_complete(streaming: World) -> None:
    events = streaming.mode.dialect.events("all of it")
    completion, script = await streaming.ask(stream(*events[:-1], ending="reset"))
    assert completion.text == "all of it"
    assert len(script.seen) == 1


async def test_a_server_that_does_not_stream_is_read_whole(streaming: World) -> None:
    completion, _ = await streaming.ask(dataclasses.replace(streaming.mode, is_stream=False).good("whole"))
    assert completion.text == "whole"


async def test_a_silent_stream_is_a_broken_connection(streaming: World) -> None:
    async with HttpClient(idle_seconds=0.05) as http:
        quiet = dataclasses.replace(streaming, http=http)
        half = stream(*streaming.mode.dialect.events("half", finish=None), ending="hang")
        error, _ = await quiet.fail(half)
    assert isinstance(error, TransportError)
    assert "silent for 0.05 s" in str(error)


async def test_a_chunk_that_is_not_json_is_malformed(streaming: World) -> None:
    error, _ = await streaming.fail(stream(b'data: {"choices": [\n\n'))
    assert isinstance(error, MalformedResponseError)


async def test_a_finished_stream_leaves_its_connection_for_the_next_call(streaming: World) -> None:
    """Were the body left unread, each call would pay for a new connection (and TLS handshake)."""
    script = streaming.server.script(stream(*streaming.mode.dialect.events("ok"), ending="late end"))
    provider = streaming.provider(script)
    for _ in range(3):
        await provider.complete(streaming.request(), AttemptCounter(1))
    assert len({seen.connection for seen in script.seen}) == 1
