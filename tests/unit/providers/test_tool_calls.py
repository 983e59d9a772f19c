"""Tools in both wire formats: offered, called, answered; whole and streamed."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from workers.core.reply import Completion, CompletionRequest, FinishReason, Message, ToolCall, ToolSpec
from workers.providers import anthropic_messages, openai_chat
from workers.providers.base import EmptyReplyError
from workers.providers.compat import Compat
from workers.providers.registry import PROVIDERS
from workers.providers.sse import SseEvent

SCHEMA = {"type": "object", "properties": {"term": {"type": "string"}}}
CALLS = (
    ToolCall(call_id="c1", name="lookup", arguments='{"term": "a"}'),
    ToolCall(call_id="c2", name="lookup", arguments="not JSON"),
)
REQUEST = CompletionRequest(
    model="m",
    messages=(Message(role="user", content="task", is_shared_prefix=True),),
    max_tokens=50,
    json_mode=True,
    tools=(ToolSpec(name="lookup", description="What it means.", parameters=SCHEMA),),
)
#: The model called twice, and both calls were answered.
TALK = dataclasses.replace(
    REQUEST,
    messages=(
        *REQUEST.messages,
        Message(role="assistant", content="Let me see.", reasoning="hm", tool_calls=CALLS),
        Message(role="tool", content="meaning", call_id="c1"),
        Message(role="tool", content="", call_id="c2", is_error=True),
        Message(role="user", content="go on"),
    ),
    may_call_tools=False,
)


def openai(body: dict[str, Any], request: CompletionRequest = REQUEST) -> Completion:
    return openai_chat.decode(json.dumps(body).encode(), request)


def anthropic(content: list[dict[str, Any]], request: CompletionRequest = REQUEST) -> Completion:
    body = {"content": content, "stop_reason": "tool_use"}
    return anthropic_messages.decode(json.dumps(body).encode(), request)


def test_openai_offers_tools_instead_of_a_format() -> None:
    body = openai_chat.encode(REQUEST, Compat())
    function = {"name": "lookup", "description": "What it means.", "parameters": SCHEMA}
    assert body["tools"] == [{"type": "function", "function": function}]
    assert not {"response_format", "tool_choice"} & body.keys()


def test_openai_shows_a_call_and_its_answers() -> None:
    body = openai_chat.encode(TALK, Compat())
    assert body["tool_choice"] == "none"
    called = [
        {"id": "c1", "type": "function", "function": {"name": "lookup", "arguments": '{"term": "a"}'}},
        {"id": "c2", "type": "function", "function": {"name": "lookup", "arguments": "not JSON"}},
    ]
    assert body["messages"] == [
        {"role": "user", "content": "task"},
        {"role": "assistant", "content": "Let me see.", "tool_calls": called},
        {"role": "tool", "content": "meaning", "tool_call_id": "c1"},
        {"role": "tool", "content": "", "tool_call_id": "c2"},
        {"role": "user", "content": "go on"},
    ]


def test_deepseek_gets_its_thoughts_back_with_a_call() -> None:
    turn = openai_chat.encode(TALK, PROVIDERS["deepseek"].compat)["messages"][1]
    assert turn["reasoning_content"] == "hm"


def test_a_provider_that_refuses_tools_is_not_offered_them_again() -> None:
    for compat in (Compat().without("tools"), Compat().without("tool_choice")):
        assert not {"tools", "tool_choice"} & openai_chat.encode(TALK, compat).keys()
        assert not {"tools", "tool_choice"} & anthropic_messages.encode(TALK, compat).keys()
    assert openai_chat.encode(REQUEST, Compat().without("tools"))["response_format"] == {
        "type": "json_object"
    }


def test_anthropic_offers_tools() -> None:
    body = anthropic_messages.encode(REQUEST, Compat())
    assert body["tools"] == [{"name": "lookup", "description": "What it means.", "input_schema": SCHEMA}]
    assert "tool_choice" not in body


def test_anthropic_shows_a_call_and_its_answers_before_what_the_user_says_next() -> None:
    body = anthropic_messages.encode(TALK, Compat())
    assert body["tool_choice"] == {"type": "none"}
    _, asked, answered = body["messages"]
    assert asked == {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "Let me see."},
            {"type": "tool_use", "id": "c1", "name": "lookup", "input": {"term": "a"}},
            {"type": "tool_use", "id": "c2", "name": "lookup", "input": {}},
        ],
    }
    assert answered == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "c1", "content": "meaning"},
            {"type": "tool_result", "tool_use_id": "c2", "content": "", "is_error": True},
            {"type": "text", "text": "go on"},
        ],
    }


def test_anthropic_leaves_an_empty_text_out_of_a_turn_that_calls() -> None:
    silent = Message(role="assistant", content="", tool_calls=CALLS[:1])
    talk = dataclasses.replace(TALK, messages=(*REQUEST.messages, silent, *TALK.messages[2:]))
    content = anthropic_messages.encode(talk, Compat())["messages"][1]["content"]
    assert [block["type"] for block in content] == ["tool_use"]


def openai_call(number: int, **function: Any) -> dict[str, Any]:
    return {"index": number, "id": f"c{number}", "function": function}


def test_openai_s_calls_are_read_without_a_word_of_text() -> None:
    calls = [
        openai_call(0, name="lookup", arguments='{"term": "a"}'),
        {"function": {"name": "other", "arguments": ""}},
    ]
    choice = {"message": {"content": None, "tool_calls": calls}, "finish_reason": "tool_calls"}
    got = openai({"choices": [choice]})
    assert got.finish_reason is FinishReason.TOOL_CALLS
    assert got.tool_calls == (
        ToolCall(call_id="c0", name="lookup", arguments='{"term": "a"}'),
        ToolCall(call_id="call_1", name="other", arguments=""),
    )


def test_gemini_s_signature_goes_back_with_the_call() -> None:
    signed = {**openai_call(0, name="lookup", arguments="{}"), "extra_content": {"google": {"thought": "x"}}}
    choice = {"message": {"content": None, "tool_calls": [signed]}, "finish_reason": "stop"}
    got = openai({"choices": [choice]})
    assert got.finish_reason is FinishReason.TOOL_CALLS
    talk = dataclasses.replace(
        REQUEST,
        messages=(*REQUEST.messages, Message(role="assistant", content="", tool_calls=got.tool_calls)),
    )
    turn = openai_chat.encode(talk, Compat())["messages"][-1]
    assert turn["content"] is None
    assert turn["tool_calls"][0]["extra_content"] == {"google": {"thought": "x"}}


def test_a_call_without_an_id_gets_one() -> None:
    choice = {"message": {"tool_calls": [{"function": {"name": "lookup"}}]}, "finish_reason": "tool_calls"}
    (call,) = openai({"choices": [choice]}).tool_calls
    assert call == ToolCall(call_id="call_0", name="lookup", arguments="")


def test_openai_s_calls_are_read_in_pieces() -> None:
    stream = openai_chat.ChatStream()
    deltas = [
        [openai_call(0, name="lookup", arguments="")],
        [{"index": 0, "function": {"arguments": '{"term":'}}],
        [openai_call(1, name="other", arguments="{}")],
        [{"index": 0, "function": {"arguments": ' "a"}'}}],
    ]
    for calls in deltas:
        chunk = {"choices": [{"delta": {"tool_calls": calls}, "finish_reason": None}]}
        stream.feed(SseEvent(name="", data=json.dumps(chunk)))
    stream.feed(SseEvent(name="", data=json.dumps({"choices": [{"delta": {}, "finish_reason": "stop"}]})))
    got = stream.draft.streamed_completion(REQUEST)
    assert [(call.call_id, call.name, call.arguments) for call in got.tool_calls] == [
        ("c0", "lookup", '{"term": "a"}'),
        ("c1", "other", "{}"),
    ]


def test_anthropic_s_calls_are_read_whole() -> None:
    got = anthropic(
        [
            {"type": "text", "text": "Let me see."},
            {"type": "tool_use", "id": "c1", "name": "lookup", "input": {"term": "a"}},
            {"type": "tool_use", "id": "c2", "name": "nothing", "input": {}},
        ]
    )
    assert (got.text, got.finish_reason) == ("Let me see.", FinishReason.TOOL_CALLS)
    assert [(call.call_id, call.name, json.loads(call.arguments or "{}")) for call in got.tool_calls] == [
        ("c1", "lookup", {"term": "a"}),
        ("c2", "nothing", {}),
    ]


def test_anthropic_s_calls_are_read_in_pieces() -> None:
    stream = anthropic_messages.MessageStream()
    events: list[dict[str, Any]] = []
    for number, pieces in enumerate((['{"te', 'rm": "a"}'], [])):
        block = {"type": "tool_use", "id": f"c{number}", "name": "lookup", "input": {}}
        events.append({"type": "content_block_start", "index": number, "content_block": block})
        events += [
            {"type": "content_block_delta", "delta": {"type": "input_json_delta", "partial_json": piece}}
            for piece in pieces
        ]
    events.append({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}})
    for event in events:
        stream.feed(SseEvent(name="", data=json.dumps(event)))
    got = stream.draft.streamed_completion(REQUEST)
    assert [(call.call_id, call.arguments) for call in got.tool_calls] == [
        ("c0", '{"term": "a"}'),
        ("c1", ""),
    ]


def test_a_call_of_a_tool_that_nobody_offered_is_no_reply() -> None:
    bare = dataclasses.replace(REQUEST, tools=())
    with pytest.raises(EmptyReplyError, match="none was offered"):
        anthropic([{"type": "tool_use", "id": "c1", "name": "lookup", "input": {}}], bare)


def test_a_call_that_was_cut_off_is_not_made() -> None:
    choice = {
        "message": {"content": "half", "tool_calls": [openai_call(0, name="lookup", arguments='{"te')]},
        "finish_reason": "tool_calls",
    }
    got = openai({"choices": [choice], "usage": {"prompt_tokens": 1, "completion_tokens": 50}})
    assert (got.finish_reason, got.tool_calls) == (FinishReason.LENGTH, ())


def test_tools_and_calls_are_part_of_what_a_request_costs() -> None:
    shared, asked, meaning, nothing, more, tool = TALK.texts()
    assert asked == 'Let me see.\nlookup {"term": "a"}\nlookup not JSON'
    assert (shared, meaning, nothing, more) == ("task", "meaning", "", "go on")
    assert tool.startswith("lookup What it means. {")
