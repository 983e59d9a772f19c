from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.core.reply import Completion, CompletionRequest, FinishReason, Message, Role, Usage
from workers.providers.anthropic_messages import MessageStream, decode, encode, headers
from workers.providers.base import (
    EmptyReplyError,
    MalformedResponseError,
    OverloadedError,
    ProviderError,
    RefusedError,
    TransportError,
)
from workers.providers.compat import Compat
from workers.providers.sse import SseEvent

COMPAT = Compat(max_temperature=1.0)


def ask(*messages: tuple[Role, str], **fields: Any) -> CompletionRequest:
    turns = tuple(Message(role=role, content=content) for role, content in messages)
    return CompletionRequest(model="m", messages=turns, max_tokens=50, **fields)


REQUEST = ask(("user", "12345678"))


def read(content: Any, stop: str | None = "end_turn", **extra: Any) -> Completion:
    return decode(json.dumps({"content": content, "stop_reason": stop, **extra}).encode(), REQUEST)


def streamed(*events: dict[str, Any] | str) -> Completion:
    stream = MessageStream()
    for event in events:
        stream.feed(SseEvent(name="", data=event if isinstance(event, str) else json.dumps(event)))
    return stream.draft.streamed_completion(REQUEST)


def text(piece: str) -> dict[str, Any]:
    return {"type": "content_block_delta", "delta": {"type": "text_delta", "text": piece}}


def stop(reason: str = "end_turn", **usage: int) -> dict[str, Any]:
    return {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}


def start(**usage: int) -> dict[str, Any]:
    return {"type": "message_start", "message": {"id": "msg", "model": "served", "usage": usage}}


def test_instructions_leave_the_conversation_and_neighbours_share_a_turn() -> None:
    request = ask(
        ("system", "s1"),
        ("user", "u1"),
        ("user", "u2"),
        ("assistant", "a"),
        ("system", "s2"),
        ("user", "u3"),
        temperature=1.7,
        stream=True,
        json_mode=True,
    )
    assert encode(request, COMPAT) == {
        "model": "m",
        "max_tokens": 50,
        "system": [{"type": "text", "text": "s1\n\n"}, {"type": "text", "text": "s2"}],
        "messages": [
            {
                "role": "user",
                "content": [{"type": "text", "text": "u1\n\n"}, {"type": "text", "text": "u2"}],
            },
            {"role": "assistant", "content": "a"},
            {"role": "user", "content": "u3"},
        ],
        "temperature": 1.0,
        "stream": True,
    }


MARK = {"cache_control": {"type": "ephemeral"}}


def test_a_shared_prefix_is_marked_where_it_ends() -> None:
    messages = (
        Message(role="system", content="s", is_shared_prefix=True),
        Message(role="user", content="artefact", is_shared_prefix=True),
        Message(role="user", content=""),
        Message(role="user", content="persona"),
    )
    body = encode(CompletionRequest(model="m", messages=messages, max_tokens=50), COMPAT)
    assert body["system"] == [{"type": "text", "text": "s", **MARK}]
    blocks = [{"type": "text", "text": "artefact\n\n", **MARK}, {"type": "text", "text": "persona"}]
    assert body["messages"] == [{"role": "user", "content": blocks}]


def test_of_five_marks_the_four_longest_prefixes_keep_theirs() -> None:
    messages = tuple(Message(role="user", content=str(i), is_shared_prefix=True) for i in range(5))
    body = encode(CompletionRequest(model="m", messages=messages, max_tokens=50), COMPAT)
    (turn,) = body["messages"]
    assert ["cache_control" in block for block in turn["content"]] == [False, True, True, True, True]


def test_instructions_alone_become_the_question() -> None:
    body = encode(ask(("system", "do it")), COMPAT)
    assert body["messages"] == [{"role": "user", "content": "do it"}]
    assert "system" not in body


def test_the_output_limit_is_required_and_stays() -> None:
    compat = COMPAT.without("max_tokens").without("temperature")
    body = encode(ask(("user", "x"), temperature=0.1), compat)
    assert body["max_tokens"] == 50
    assert "temperature" not in body


def test_the_version_is_always_sent_and_the_key_if_there_is_one() -> None:
    assert headers("k") == {"anthropic-version": "2023-06-01", "x-api-key": "k"}
    assert headers("") == {"anthropic-version": "2023-06-01"}


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("end_turn", FinishReason.STOP),
        ("stop_sequence", FinishReason.STOP),
        ("max_tokens", FinishReason.LENGTH),
        ("model_context_window_exceeded", FinishReason.LENGTH),
        ("tool_use", FinishReason.TOOL_CALLS),
        ("pause_turn", FinishReason.UNKNOWN),
        (None, FinishReason.UNKNOWN),
    ],
)
def test_stop_reasons_are_mapped(word: str | None, reason: FinishReason) -> None:
    assert read([{"type": "text", "text": "x"}], word).finish_reason is reason


def test_blocks_are_sorted_into_text_and_thinking() -> None:
    got = read(
        [
            {"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "text", "text": "a"},
            {"type": "later", "x": 1},
            {"type": "text", "text": "b"},
        ]
    )
    assert (got.text, got.reasoning) == ("ab", "hm")


def test_input_is_the_sum_with_cache_and_output_replaces() -> None:
    """4 fresh + 2 written + 5 read = 11; output 3, then 7, is 7, not 10; the placeholder 1 is nothing."""
    got = streamed(
        start(input_tokens=4, cache_creation_input_tokens=2, cache_read_input_tokens=5, output_tokens=1),
        text("x"),
        {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 3}},
        stop(output_tokens=7, input_tokens=4),
        {"type": "message_stop"},
    )
    assert got.usage == Usage(
        input_tokens=11, output_tokens=7, cached_input_tokens=5, cache_write_input_tokens=2
    )
    assert got.model_served == "served"
    assert got.request_id == "msg"


def test_missing_usage_is_estimated() -> None:
    """8 characters in, 5 out: 2 tokens and 2 (rounded up)."""
    assert read([{"type": "text", "text": "abcde"}]).usage == Usage(
        input_tokens=2, output_tokens=2, is_estimated=True
    )
    got = streamed(start(input_tokens=9, output_tokens=1), text("abcde"), stop())
    assert got.usage == Usage(input_tokens=9, output_tokens=2, is_estimated=True)


@pytest.mark.parametrize(
    ("content", "stop_reason", "is_reasoning_only"),
    [
        ([{"type": "thinking", "thinking": "hm"}], "end_turn", True),
        ([{"type": "redacted_thinking", "data": "…"}], "end_turn", True),
        ([], "max_tokens", True),
        ([], "end_turn", False),
        ([{"type": "tool_use", "id": "t", "name": "n", "input": {}}], "tool_use", False),
    ],
)
def test_an_empty_reply_is_triaged(content: Any, stop_reason: str, is_reasoning_only: bool) -> None:
    with pytest.raises(EmptyReplyError) as caught:
        read(content, stop_reason)
    assert caught.value.reasoning_only is is_reasoning_only


def test_a_refusal_is_its_own_error() -> None:
    with pytest.raises(RefusedError):
        read([], "refusal")
    with pytest.raises(RefusedError):
        streamed(start(), text("I"), stop("refusal"))


def test_an_error_event_after_half_the_text_is_an_error() -> None:
    event = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    with pytest.raises(OverloadedError):
        streamed(start(), text("half"), event)
    with pytest.raises(OverloadedError):
        decode(json.dumps(event).encode(), REQUEST)


def test_unknown_events_pings_and_a_foreign_end_mark_are_passed_over() -> None:
    noise = ({"type": "ping"}, {"type": "new_thing", "x": 1}, {"type": "content_block_stop", "index": 0})
    opening = {"type": "content_block_start", "content_block": {"type": "text", "text": ""}}
    got = streamed(start(), *noise, opening, text("x"), stop(), "[DONE]")
    assert got.text == "x"


def test_a_tool_streamed_beside_text_is_noticed() -> None:
    tool = {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": "{"}}
    with pytest.raises(EmptyReplyError, match="called a tool"):
        streamed(start(), tool, stop("tool_use"))


def test_the_marker_counts_in_any_event() -> None:
    assert streamed(start(), {**text("x"), "simulated": True}, stop()).is_simulated
    assert not streamed(start(), text("x"), stop()).is_simulated
    assert read([{"type": "text", "text": "x"}], simulated=True).is_simulated


def test_a_stream_without_a_stop_reason_was_cut() -> None:
    with pytest.raises(TransportError, match="after 2 characters"):
        streamed(start(), text("ab"))


@pytest.mark.parametrize("body", [b"", b"[]", b"{}", b'{"content": "text"}', b"null"])
def test_a_body_that_is_not_a_message_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedResponseError):
        decode(body, REQUEST)


@pytest.mark.parametrize("data", ["", "7", "[]", "{"])
def test_an_event_that_is_no_object_is_malformed(data: str) -> None:
    with pytest.raises(MalformedResponseError):
        MessageStream().feed(SseEvent(name="", data=data))


TYPES = ["message_start", "content_block_delta", "message_delta", "error", "text"]
FIELDS = ["type", "message", "delta", "content", "usage", "input_tokens", "stop_reason", "text", "error"]
_json = st.recursive(
    st.none() | st.integers(-5, 5) | st.sampled_from(TYPES),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(FIELDS),
            inner,
            max_size=4,
        )
    ),
    max_leaves=15,
)


@given(_json)
def test_any_json_is_a_completion_or_a_provider_error(document: Any) -> None:
    raw = json.dumps(document)
    with contextlib.suppress(ProviderError):
        assert isinstance(decode(raw.encode(), REQUEST), Completion)
    with contextlib.suppress(ProviderError):
        assert isinstance(streamed(raw), Completion)
