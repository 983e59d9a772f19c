"""What is sent to a model, and what it is billed as."""

from __future__ import annotations

from workers.core.reply import CompletionRequest, Message, ToolCall, ToolSpec, Usage


def test_everything_that_a_model_reads_is_among_the_texts() -> None:
    calls = (
        ToolCall(call_id="1", name="find", arguments='{"q": 1}'),
        ToolCall(call_id="2", name="read", arguments="{}"),
    )
    request = CompletionRequest(
        model="m",
        messages=(
            Message(role="user", content="look"),
            Message(role="assistant", content="I look", tool_calls=calls),
        ),
        max_tokens=64,
        tools=(ToolSpec(name="find", description="finds", parameters={"type": "object"}),),
    )
    assert list(request.texts()) == [
        "look",
        'I look\nfind {"q": 1}\nread {}',
        'find finds {"type": "object"}',
    ]


def test_usage_adds_up_field_by_field() -> None:
    one = Usage(input_tokens=1, output_tokens=20, cached_input_tokens=300, cache_write_input_tokens=4000)
    other = Usage(
        input_tokens=5,
        output_tokens=60,
        cached_input_tokens=700,
        cache_write_input_tokens=8000,
        is_estimated=True,
    )
    total = Usage(
        input_tokens=6,
        output_tokens=80,
        cached_input_tokens=1000,
        cache_write_input_tokens=12000,
        is_estimated=True,
    )
    assert (one + other, other + one) == (total, total)
    assert not (one + one).is_estimated
