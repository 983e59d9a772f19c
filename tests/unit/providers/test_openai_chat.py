from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.core.reply import Completion, CompletionRequest, FinishReason, Message, Usage
from workers.providers.base import (
    BadRequestError,
    EmptyReplyError,
    MalformedResponseError,
    OverloadedError,
    ProviderError,
    RefusedError,
    TransportError,
)
from workers.providers.compat import Compat
from workers.providers.openai_chat import ChatStream, decode, encode, headers
from workers.providers.sse import SseEvent

REQUEST = CompletionRequest(
    model="m",
    messages=(Message(role="system", content="12345"), Message(role="user", content="678")),
    max_tokens=50,
    temperature=1.5,
    json_mode=True,
    stream=True,
)


def read(message: dict[str, Any], finish: str | None = "stop", **extra: Any) -> Completion:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return decode(json.dumps({"choices": [choice], **extra}).encode(), REQUEST)


def streamed(*chunks: Any) -> Completion:
    stream = ChatStream()
    for chunk in chunks:
        stream.feed(SseEvent(name="", data=chunk if isinstance(chunk, str) else json.dumps(chunk)))
    return stream.draft.streamed_completion(REQUEST)


def delta(finish: str | None = None, **parts: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": parts, "finish_reason": finish}]}


def test_a_plain_server_is_sent_plain_fields() -> None:
    assert encode(REQUEST, Compat()) == {
        "model": "m",
        "messages": [{"role": "system", "content": "12345"}, {"role": "user", "content": "678"}],
        "max_tokens": 50,
        "temperature": 1.5,
        "response_format": {"type": "json_object"},
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_compat_shapes_what_is_sent() -> None:
    compat = Compat(
        max_tokens_fields=("max_completion_tokens",),
        max_temperature=1.0,
        system_role="developer",
        has_stream_usage_option=False,
        has_json_mode=False,
    )
    body = encode(REQUEST, compat)
    assert body["messages"][0]["role"] == "developer"
    assert body["max_completion_tokens"] == 50
    assert body["temperature"] == 1.0
    assert body.keys() == {"model", "messages", "max_completion_tokens", "temperature", "stream"}


def test_neighbouring_user_messages_are_one_turn_without_marks() -> None:
    messages = (
        Message(role="system", content="s1"),
        Message(role="system", content="s2"),
        Message(role="user", content="artefact", is_shared_prefix=True),
        Message(role="user", content="persona"),
        Message(role="assistant", content="a"),
        Message(role="user", content="u"),
    )
    body = encode(CompletionRequest(model="m", messages=messages, max_tokens=50), Compat())
    assert body["messages"] == [
        {"role": "system", "content": "s1"},
        {"role": "system", "content": "s2"},
        {"role": "user", "content": "artefact\n\npersona"},
        {"role": "assistant", "content": "a"},
        {"role": "user", "content": "u"},
    ]


def test_what_was_refused_is_replaced_or_left_away() -> None:
    compat = Compat()
    assert "max_completion_tokens" in encode(REQUEST, compat.without("max_tokens"))
    for field in ("max_tokens", "max_completion_tokens", "temperature", "response_format", "stream_options"):
        compat = compat.without(field)
    assert encode(REQUEST, compat).keys() == {"model", "messages", "stream"}
    assert compat.without("temperature") == compat == compat.without("never sent")


def test_a_key_is_sent_only_where_there_is_one() -> None:
    assert headers("k") == {"authorization": "Bearer k"}
    assert headers("") == {}


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("stop", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("tool_calls", FinishReason.TOOL_CALLS),
        ("model_length", FinishReason.LENGTH),
        ("function_call", FinishReason.TOOL_CALLS),
        ("sunset", FinishReason.UNKNOWN),
        (None, FinishReason.UNKNOWN),
    ],
)
def test_finish_reasons_are_mapped(word: str | None, reason: FinishReason) -> None:
    assert read({"content": "x"}, word).finish_reason is reason


@pytest.mark.parametrize(("word", "status"), [("error", 502), ("insufficient_system_resource", 503)])
def test_a_provider_that_gave_up_is_overloaded(word: str, status: int) -> None:
    with pytest.raises(OverloadedError) as caught:
        read({"content": "half"}, word)
    assert caught.value.status == status


@pytest.mark.parametrize("word", ["content_filter", "content_filter: SAFETY", "refusal", "SAFETY"])
def test_a_filtered_reply_is_a_refusal(word: str) -> None:
    with pytest.raises(RefusedError):
        read({"content": "half"}, word)


def tool_call(arguments: str, **extra: Any) -> dict[str, Any]:
    return {"function": {"name": "f", "arguments": arguments}, **extra}


@pytest.mark.parametrize(
    ("arguments", "tokens", "reason"),
    [
        ('{"a": 1', 50, FinishReason.LENGTH),  # REQUEST allows 50 tokens
        ('{"a": 1', 49, FinishReason.TOOL_CALLS),
        ('{"a": 1}', 50, FinishReason.TOOL_CALLS),
        ("", 50, FinishReason.TOOL_CALLS),
    ],
)
def test_a_tool_call_cut_at_the_limit_is_a_truncation_whatever_it_says(
    arguments: str, tokens: int, reason: FinishReason
) -> None:
    usage = {"prompt_tokens": 2, "completion_tokens": tokens}
    message = {"content": "x", "tool_calls": [tool_call(arguments, id="1")]}
    assert read(message, "tool_calls", usage=usage).finish_reason is reason
    pieces = [delta(content="x", tool_calls=[tool_call(piece, index=0)]) for piece in arguments or [""]]
    assert streamed(*pieces, {**delta("tool_calls"), "usage": usage}).finish_reason is reason


def test_a_cut_tool_call_without_text_says_that_it_was_cut() -> None:
    usage = {"prompt_tokens": 2, "completion_tokens": 50}
    with pytest.raises(EmptyReplyError, match="cut off while calling a tool"):
        read({"content": None, "tool_calls": [tool_call("{")]}, "tool_calls", usage=usage)


def test_an_upstream_error_inside_a_choice_keeps_its_class() -> None:
    choice = {"index": 0, "delta": {}, "finish_reason": "error", "error": {"code": 400, "message": "bad"}}
    with pytest.raises(BadRequestError):
        streamed({"choices": [choice]})


def test_content_may_be_a_list_of_chunks() -> None:
    thinking = {
        "type": "thinking",
        "thinking": [{"type": "text", "text": "hm "}, {"type": "text", "text": "so"}],
    }
    got = read({"content": [thinking, {"type": "text", "text": "a"}, "b", {"type": "reference", "ids": [1]}]})
    assert (got.text, got.reasoning) == ("ab", "hm so")
    got = streamed(delta(content=[thinking]), delta(content=[{"type": "text", "text": "c"}]), delta("stop"))
    assert (got.text, got.reasoning) == ("c", "hm so")


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_reasoning_goes_by_two_names_and_is_taken_once(name: str) -> None:
    assert read({"content": "x", name: "hm"}).reasoning == "hm"
    assert read({"content": "x", "reasoning": "hm", "reasoning_content": "hm"}).reasoning == "hm"


TWO_FOUR = {"prompt_tokens": 2, "completion_tokens": 4}


@pytest.mark.parametrize(
    ("message", "finish", "extra", "is_reasoning_only"),
    [
        ({"content": None, "reasoning_content": "hm"}, "stop", {}, True),
        ({"content": ""}, "length", {}, True),
        ({"content": ""}, "stop", {}, False),
        ({}, "stop", {}, False),
        ({"content": None, "tool_calls": [{"id": "1"}]}, "tool_calls", {}, False),
        (
            {"content": ""},
            "stop",
            {"usage": {**TWO_FOUR, "completion_tokens_details": {"reasoning_tokens": 4}}},
            True,
        ),
    ],
)  # fmt: skip
def test_an_empty_reply_is_triaged(
    message: dict[str, Any], finish: str, extra: dict[str, Any], is_reasoning_only: bool
) -> None:
    with pytest.raises(EmptyReplyError) as caught:
        read(message, finish, **extra)
    assert caught.value.reasoning_only is is_reasoning_only
    assert caught.value.usage is not None


def test_a_refusal_is_its_own_error_with_its_cost() -> None:
    with pytest.raises(RefusedError, match="I will not") as caught:
        read({"content": None, "refusal": "I will not"}, usage={"prompt_tokens": 2, "completion_tokens": 3})
    assert caught.value.usage == Usage(input_tokens=2, output_tokens=3)
    with pytest.raises(RefusedError):
        read({"content": ""}, "content_filter")
    with pytest.raises(RefusedError, match="No way"):
        streamed(delta(refusal="No "), delta(refusal="way"), delta("stop"))


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        # 8 characters in ("12345" + "678"), 5 out: 8/4 = 2 and 5/4 rounded up = 2.
        (None, Usage(input_tokens=2, output_tokens=2, is_estimated=True)),
        (
            {"prompt_tokens": 0, "completion_tokens": 0},
            Usage(input_tokens=2, output_tokens=2, is_estimated=True),
        ),
        (
            {"prompt_tokens": "9", "completion_tokens": -1},
            Usage(input_tokens=2, output_tokens=2, is_estimated=True),
        ),
        ({"prompt_tokens": 9, "completion_tokens": 4}, Usage(input_tokens=9, output_tokens=4)),
        (
            {"prompt_tokens": 9, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 6}},
            Usage(input_tokens=9, output_tokens=4, cached_input_tokens=6),
        ),
        (
            {"prompt_tokens": 9, "completion_tokens": 4, "prompt_cache_hit_tokens": 5},
            Usage(input_tokens=9, output_tokens=4, cached_input_tokens=5),
        ),
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "prompt_tokens_details": {"cached_tokens": 6, "cache_write_tokens": 2},
            },
            Usage(input_tokens=9, output_tokens=4, cached_input_tokens=6, cache_write_input_tokens=2),
        ),
        # Never more than the prompt: 9 − 6 read leave 3 to write.
        (
            {
                "prompt_tokens": 9,
                "completion_tokens": 4,
                "prompt_tokens_details": {"cached_tokens": 6},
                "cache_creation_input_tokens": 7,
            },
            Usage(input_tokens=9, output_tokens=4, cached_input_tokens=6, cache_write_input_tokens=3),
        ),
        # Thinking that only the total knows of: 30 − 9 = 21.
        (
            {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 30},
            Usage(input_tokens=9, output_tokens=21),
        ),
    ],
)
def test_usage_is_what_is_billed_or_an_estimate_marked_as_such(usage: Any, expected: Usage) -> None:
    assert read({"content": "abcde"}, usage=usage).usage == expected


def test_running_totals_in_a_stream_replace_each_other() -> None:
    got = streamed(
        {**delta(content="x"), "usage": {"prompt_tokens": 5, "completion_tokens": 1}},
        {**delta("stop"), "x_groq": {"usage": {"prompt_tokens": 5, "completion_tokens": 2}}},
    )
    assert got.usage == Usage(input_tokens=5, output_tokens=2)


def test_other_choices_and_blank_events_are_passed_over() -> None:
    other = {"choices": [{"index": 1, "delta": {"content": "no"}}]}
    assert (
        streamed(delta(content="yes"), other, " ", {"choices": []}, {}, delta("stop"), "[DONE]").text == "yes"
    )


def test_a_stop_after_a_tool_call_is_a_tool_call() -> None:
    got = streamed(delta(content="calling"), delta(tool_calls=[{"id": "1"}]), delta("stop"))
    assert got.finish_reason is FinishReason.TOOL_CALLS


def test_the_marker_counts_in_any_chunk_and_only_at_the_top() -> None:
    assert streamed({**delta(content="x"), "simulated": True}, delta("stop")).is_simulated
    assert not streamed(delta(content="x", simulated=True), delta("stop")).is_simulated
    assert read({"content": "x"}, simulated=True).is_simulated


@pytest.mark.parametrize(
    "event", [SseEvent(name="error", data='{"message": "down"}'), SseEvent(name="", data='{"error": "down"}')]
)
def test_an_error_event_is_an_error_whatever_its_form(event: SseEvent) -> None:
    with pytest.raises(OverloadedError, match="down"):
        ChatStream().feed(event)


def test_a_stream_without_a_finish_reason_was_cut() -> None:
    with pytest.raises(TransportError, match="after 2 characters"):
        streamed(delta(content="ab"), "[DONE]")


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"{}", b'{"choices": []}', b'{"choices": [7]}', b"[" * 100_000]
)
def test_a_body_that_is_not_a_reply_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedResponseError):
        decode(body, REQUEST)


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "message",
                    "delta",
                    "content",
                    "usage",
                    "prompt_tokens",
                    "finish_reason",
                    "text",
                    "error",
                    "tool_calls",
                    "function",
                    "arguments",
                    "index",
                    "prompt_tokens_details",
                ]
            ),
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
