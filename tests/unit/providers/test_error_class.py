from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.providers.base import OverloadedError, ProviderError, RateLimitedError
from workers.providers.error_body import parse_error_body
from workers.providers.error_class import classify, classify_embedded, refused_field


def kind(status: int, body: Any = None, headers: dict[str, str] | None = None) -> str:
    raw = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
    error = classify(status, headers or {}, raw, now_epoch_seconds=0.0)
    assert error.status == status
    return error.kind


def openai(message: str = "no", code: Any = None, type_: str = "invalid_request_error") -> dict[str, Any]:
    return {"error": {"message": message, "type": type_, "param": None, "code": code}}


def gemini(message: str) -> list[dict[str, Any]]:
    return [{"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}]


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (301, "bad_request"),
        (400, "bad_request"),
        (401, "auth"),
        (402, "quota"),
        (403, "auth"),
        (404, "bad_request"),
        (405, "bad_request"),
        (408, "overload"),
        (413, "context"),
        (422, "bad_request"),
        (429, "rate"),
        (500, "overload"),
        (503, "overload"),
        (504, "overload"),
        (529, "overload"),
        (202, "malformed"),
        (204, "malformed"),
        (700, "malformed"),
    ],
)
def test_the_status_alone_gives_a_class(status: int, expected: str) -> None:
    assert kind(status) == expected


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (429, openai(code="insufficient_quota", type_="insufficient_quota"), "quota"),
        (429, openai("You exceeded your current quota, check your plan", code="rate_limit_exceeded"), "rate"),
        (400, openai("Your credit balance is too low to access the API"), "quota"),
        (400, openai("You have reached your specified API usage limits. Access returns on …"), "quota"),
        (400, openai("too long", code="context_length_exceeded"), "context"),
        (400, openai("This model's maximum context length is 8192 tokens"), "context"),
        (400, openai("prompt is too long: 250000 tokens > 200000 maximum"), "context"),
        (400, openai("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"), "context"),
        (400, openai("This model's maximum prompt length is 131072 but the request contains 140000"), "context"),
        (400, openai("Please reduce the length of the messages or completion."), "context"),
        (400, openai("it does not fit", type_="exceed_context_size_error"), "context"),
        (413, openai("Request too large: tokens per minute", code="rate_limit_exceeded"), "context"),
        (400, gemini("The input token count (9) exceeds the maximum number of tokens"), "context"),
        (400, gemini("API key not valid."), "auth"),
        (400, [{"error": {"code": 400, "message": "?", "details": [{"reason": "API_KEY_INVALID"}]}}], "auth"),
        (400, openai("filtered", code="content_filter"), "refusal"),
        (403, openai("Content violates usage guidelines."), "refusal"),
        (403, {"error": {"message": "Your input was flagged by moderation", "code": 403}}, "refusal"),
        (503, b"<html><title>Busy</title></html>", "overload"),
    ],
)  # fmt: skip
def test_the_body_refines_the_class(status: int, body: Any, expected: str) -> None:
    assert kind(status, body) == expected


@pytest.mark.parametrize(
    "body", [None, {"error": {"type": "billing_error", "message": "insufficient balance"}}]
)
def test_a_402_with_a_stated_wait_is_a_passing_shortage(body: Any) -> None:
    assert kind(402, body, headers={"Retry-After": "3"}) == "rate"


def test_a_429_carries_the_stated_wait() -> None:
    error = classify(429, {"Retry-After": "3"}, b"", now_epoch_seconds=0.0)
    assert isinstance(error, RateLimitedError)
    assert error.retry_after_seconds == 3.0


@pytest.mark.parametrize("status", [500, 503, 529])
def test_an_overload_carries_the_stated_wait_too(status: int) -> None:
    error = classify(status, {"Retry-After": "3"}, b"", now_epoch_seconds=0.0)
    assert isinstance(error, OverloadedError)
    assert error.retry_after_seconds == 3.0
    unstated = classify(status, {"x-ratelimit-reset-tokens": "6m0s"}, b"", now_epoch_seconds=0.0)
    assert isinstance(unstated, OverloadedError)
    assert unstated.retry_after_seconds is None


def test_an_embedded_overload_has_the_status_it_would_have_had() -> None:
    error = classify_embedded(
        {"type": "error", "error": {"type": "overloaded_error", "message": "retry in 2s"}}
    )
    assert isinstance(error, OverloadedError)
    assert (error.status, error.retry_after_seconds) == (529, 2.0)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "plain"}}', "plain"),
        (b'[{"error": {"message": "in a list", "code": 429}}]', "in a list"),
        (b'{"error": "just text"}', "just text"),
        (b'{"detail": [{"loc": ["body", "store"], "msg": "Extra inputs"}]}', "Extra inputs at body.store"),
        (b'{"detail": "Not Found"}', "Not Found"),
        (b'{"object": "error", "message": "vllm", "code": 400}', "vllm"),
        (b'{"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}', "Overloaded"),
        (b"<!doctype html><html><title>\n 502 &amp; more </title>", "an HTML page titled “502 & more”"),
        (b"<html>nothing", "an HTML page"),
        (b"upstream\n connect   error", "upstream connect error"),
        (b"", ""),
        (b"[]", "{}"),
        (b"7", "7"),
    ],
)  # fmt: skip
def test_every_grammar_gives_its_message(body: bytes, message: str) -> None:
    assert parse_error_body(body).message == message


def test_a_message_is_one_bounded_line_with_the_request_id() -> None:
    long = classify(500, {"X-Request-Id": "r-7"}, b"a\nb" * 5000, now_epoch_seconds=0.0)
    assert "\n" not in str(long)
    assert len(str(long)) < 350
    assert str(long).endswith("(request r-7)")
    assert str(classify(500, {}, b"", now_epoch_seconds=0.0)) == "HTTP 500: no explanation"


def test_a_redirect_says_where_to() -> None:
    error = classify(308, {"Location": "https://new.example/v1"}, b"", now_epoch_seconds=0.0)
    assert "redirected to https://new.example/v1; correct the base URL" in str(error)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"error": {"code": 429, "message": "slow"}}, "rate"),
        ({"error": {"code": "502", "message": "up"}}, "overload"),
        ({"error": {"code": "rate_limit_exceeded", "message": "m"}}, "rate"),
        ({"error": {"code": "insufficient_quota", "message": "m"}}, "quota"),
        ({"error": {"type": "overloaded_error", "message": "m"}}, "overload"),
        ({"error": {"type": "invalid_request_error", "message": "prompt is too long"}}, "context"),
        ({"error": {"type": "invalid_request_error", "message": "m"}}, "bad_request"),
        ({"error": {"code": 401, "message": "m"}}, "auth"),
        ({"error": "odd"}, "overload"),
        ({"error": {"code": 200, "message": "never met"}}, "overload"),
        ([{"error": {"code": 503, "status": "UNAVAILABLE"}}], "overload"),
        ({"error": {"status": "RESOURCE_EXHAUSTED", "message": "m"}}, "rate"),
    ],
)
def test_an_error_inside_a_200_has_the_class_of_its_status(document: Any, expected: str) -> None:
    assert classify_embedded(document).kind == expected


def test_an_embedded_429_reads_the_hint_in_its_body() -> None:
    error = classify_embedded({"error": {"code": 429, "message": "try again in 2.5s"}})
    assert isinstance(error, RateLimitedError)
    assert error.retry_after_seconds == 2.5


SENT = frozenset({"max_tokens", "temperature", "stream_options"})


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"error": {"message": "no", "param": "temperature"}}, "temperature"),
        ({"error": {"message": "no", "param": "stream_options.include_usage"}}, "stream_options"),
        ({"detail": [{"loc": ["body", "stream_options"], "msg": "Extra"}]}, "stream_options"),
        ({"error": {"message": "'max_tokens' is gone; use 'max_completion_tokens'."}}, "max_tokens"),
        ({"error": {"message": "use 'max_completion_tokens'"}}, None),
        ({"error": {"message": "temperatures differ"}}, None),
        ({"error": {"message": "no", "param": "messages[0].role"}}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_only_a_field_we_sent_can_be_dropped(body: Any, field: str | None) -> None:
    assert refused_field(json.dumps(body).encode(), SENT) == field


_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=10),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["error", "detail", "loc", "msg", "message", "code", "type", "param", "details", "reason"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.integers(100, 999), _json.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=60))
def test_any_answer_is_classified_without_raising(status: int, body: bytes) -> None:
    assert isinstance(classify(status, {}, body, now_epoch_seconds=0.0), ProviderError)
    refused_field(body, SENT)


@given(_json)
def test_any_embedded_error_is_classified_without_raising(document: Any) -> None:
    assert isinstance(classify_embedded(orjson.loads(json.dumps(document))), ProviderError)


def said(status: int, headers: dict[str, str], body: bytes = b"{}") -> str:
    return str(classify(status, headers, body, now_epoch_seconds=0.0))


@pytest.mark.parametrize("status", [300, 399])
def test_a_redirect_says_where_to_and_what_to_do(status: int) -> None:
    told = "correct the base URL"
    assert (
        said(status, {"Location": "https://other/v1"})
        == f"HTTP {status}: redirected to https://other/v1; {told}"
    )
    assert said(status, {}) == f"HTTP {status}: redirected to nowhere; {told}"
    assert "redirected" not in said(400, {"Location": "https://other/v1"})


@pytest.mark.parametrize("header", ["X-Request-Id", "request-id"])
def test_a_refusal_names_the_request_that_support_asks_for(header: str) -> None:
    body = json.dumps(openai("no such model")).encode()
    assert said(404, {header: "req_1"}, body) == "HTTP 404: no such model (request req_1)"


@pytest.mark.parametrize(
    ("code", "status"),
    [(400, 400), ("429", 429), (599, 599), (600, 500), ("5000", 500), (True, 500), (39, 500)],
)
def test_a_code_inside_an_answer_is_its_status_if_it_can_be_one_and_else_that_of_a_fault(
    code: Any, status: int
) -> None:
    assert classify_embedded({"code": code, "message": "no"}).status == status


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"msg": "told so"}}', "told so"),
        (b'{"error": "plainly", "type": "overloaded_error"}', "plainly"),
    ],
)
def test_an_explanation_is_found_under_its_other_names(body: bytes, message: str) -> None:
    assert said(503, {}, body) == f"HTTP 503: {message}"
