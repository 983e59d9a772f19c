"""Every kind of fault, in both wire formats, streamed and not, over a real server: as bytes on a socket, and as
the error class of `reference/panel.md` §5.4 that our own providers make of it."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from tests.contract.simulator_client import CLIENTS, WHOLE_ANSWER, Client, events
from tests.contract.simulator_stage import NOW_EPOCH_SECONDS, Stage, chunks, raised_stage, raw_answer
from tests.contract.test_simulator_with_providers import question
from workers.core.reply import Completion, FinishReason
from workers.providers.attempts import AttemptCounter
from workers.providers.base import (
    AuthenticationError,
    BadRequestError,
    ContextTooLongError,
    EmptyReplyError,
    MalformedResponseError,
    OverloadedError,
    ProviderError,
    QuotaError,
    RateLimitedError,
    RefusedError,
    TransportError,
)
from workers.providers.compat import Compat
from workers.providers.http import HttpClient
from workers.providers.registry import ProviderConfig, WireName
from workers.providers.retry_after import retry_after_seconds
from workers.providers.simulator.app import Clocks
from workers.providers.simulator.faults.content import WIDE_CHARACTERS
from workers.providers.simulator.faults.kind import KINDS, Group
from workers.providers.simulator.retry_statement import GRAMMARS
from workers.providers.wire_provider import WireProvider


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with raised_stage() as raised:
        yield raised


@pytest.fixture(params=CLIENTS, ids=lambda client: client.name)
def client(request: pytest.FixtureRequest) -> Client:
    wire: Client = request.param
    return wire


@pytest.fixture
async def http() -> AsyncIterator[HttpClient]:
    async def no_wait(_seconds: float) -> None:
        return None

    async with HttpClient(sleep=no_wait, clock=lambda: NOW_EPOCH_SECONDS) as connected:
        yield connected


async def ask(
    http: HttpClient, stage: Stage, wire: WireName, *, stream: bool, requests: int = 1
) -> Completion:
    config = ProviderConfig(
        name="simulator", wire=wire, base_url=f"{stage.origin}/v1", compat=Compat(has_json_mode=False)
    )
    asked = dataclasses.replace(question(stream=stream), temperature=0.5)
    return await WireProvider(config, http).complete(asked, AttemptCounter(requests))


def post(stage: Stage, client: Client, *, stream: bool, **fields: Any) -> httpx.Response:
    return stage.http.post(client.path, json=client.body(stream=stream, **fields))


#: From the kind to the error of a whole reply and of a stream, or to what is read all the same.
ERRORS: dict[str, tuple[type[ProviderError], type[ProviderError]]] = {
    "rate-limit": (RateLimitedError, RateLimitedError),
    "rate-limit-in-200": (RateLimitedError, RateLimitedError),
    "payment-required": (QuotaError, QuotaError),
    "insufficient-quota": (QuotaError, QuotaError),
    "spend-limit": (QuotaError, QuotaError),
    "overloaded": (OverloadedError, OverloadedError),
    "overloaded-in-200": (OverloadedError, OverloadedError),
    "server-error": (OverloadedError, OverloadedError),
    "reset": (TransportError, TransportError),
    "cut": (TransportError, TransportError),
    "bad-request": (BadRequestError, BadRequestError),
    "unauthorized": (AuthenticationError, AuthenticationError),
    "forbidden": (AuthenticationError, AuthenticationError),
    "context-too-long": (ContextTooLongError, ContextTooLongError),
    "html-page": (OverloadedError, OverloadedError),
    "not-json": (MalformedResponseError, MalformedResponseError),
    "empty": (EmptyReplyError, EmptyReplyError),
    "reasoning-only": (EmptyReplyError, EmptyReplyError),
    "truncated-tool-json": (EmptyReplyError, EmptyReplyError),
    "refusal": (RefusedError, RefusedError),
    "torn-event": (MalformedResponseError, TransportError),
}
FINISHES = {
    "length": FinishReason.LENGTH,
    "invalid-json": FinishReason.STOP,
    "no-usage": FinishReason.STOP,
    "wrong-finish": FinishReason.TOOL_CALLS,
    "no-end-mark": FinishReason.STOP,
    "split-utf8": FinishReason.STOP,
    "silence": FinishReason.STOP,
    "slow-drip": FinishReason.STOP,
}
#: `no-choices` differs by format, `refused-field` has a second request; both are tested by themselves.
APART = {"no-choices", "refused-field", "refuse-connections"}


def test_every_kind_of_fault_is_tested() -> None:
    assert set(ERRORS) | set(FINISHES) | APART == set(KINDS)
    assert {name for name, kind in KINDS.items() if kind.group is Group.LISTENER} == {"refuse-connections"}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
@pytest.mark.parametrize("kind", ERRORS)
async def test_a_fault_arrives_as_its_error_class(
    http: HttpClient, stage: Stage, kind: str, wire: WireName, stream: bool
) -> None:
    stage.play(f"- fault: {kind}")
    with pytest.raises(ERRORS[kind][stream]) as raised:
        await ask(http, stage, wire, stream=stream)
    assert type(raised.value) is ERRORS[kind][stream]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
@pytest.mark.parametrize("kind", FINISHES)
async def test_a_fault_that_leaves_a_reply_is_read_as_what_it_is(
    http: HttpClient, stage: Stage, kind: str, wire: WireName, stream: bool
) -> None:
    stage.play(f"- fault: {kind}")
    completion = await ask(http, stage, wire, stream=stream)
    assert completion.finish_reason is FINISHES[kind]
    assert completion.is_simulated
    assert completion.usage.is_estimated == (kind == "no-usage")
    if kind in {"length", "invalid-json"}:
        assert completion.text == WHOLE_ANSWER[: len(WHOLE_ANSWER) // 2]
    elif kind == "split-utf8":
        assert WIDE_CHARACTERS in json.loads(completion.text)["notes"]
    else:
        assert completion.text == WHOLE_ANSWER


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("wire", ["openai", "anthropic"])
@pytest.mark.parametrize("status", [400, 422])
async def test_a_refused_field_is_dropped_once_and_the_call_then_passes(
    http: HttpClient, stage: Stage, wire: WireName, stream: bool, status: int
) -> None:
    stage.play(f"- {{fault: refused-field, field: temperature, status: {status}}}")
    completion = await ask(http, stage, wire, stream=stream, requests=2)
    assert completion.text == WHOLE_ANSWER
    counted = stage.http.get("/simulator/stats").json()
    assert counted["by_status"] == {"200": 1, str(status): 1}
    assert counted["by_fault"] == {"refused-field": 1}


def test_openais_422_names_the_field_as_mistral_does(stage: Stage) -> None:
    stage.play("- {fault: refused-field, field: temperature, status: 422}")
    document = post(stage, CLIENTS[0], stream=False, temperature=0.5).json()
    assert set(document) == {"object", "detail", "simulated"}
    (place,) = document["detail"]
    assert (place["type"], place["loc"]) == ("extra_forbidden", ["body", "temperature"])


@pytest.mark.parametrize(
    ("wire", "stream", "error"),
    [
        ("openai", False, MalformedResponseError),
        ("openai", True, TransportError),
        ("anthropic", False, MalformedResponseError),
        ("anthropic", True, EmptyReplyError),
    ],
)
async def test_a_reply_without_choices_is_no_reply(
    http: HttpClient, stage: Stage, wire: WireName, stream: bool, error: type[ProviderError]
) -> None:
    stage.play("- fault: no-choices")
    with pytest.raises(error):
        await ask(http, stage, wire, stream=stream)


@pytest.mark.parametrize("wire", ["openai", "anthropic"])
@pytest.mark.parametrize("kind", ["rate-limit", "rate-limit-in-200", "reset", "cut"])
async def test_what_fails_on_the_first_attempt_passes_on_the_second(
    http: HttpClient, stage: Stage, wire: WireName, kind: str
) -> None:
    stage.play(f"- {{fault: {kind}, when: {{attempt: 1}}}}")
    completion = await ask(http, stage, wire, stream=True, requests=2)
    assert completion.text == WHOLE_ANSWER
    assert stage.http.get("/simulator/stats").json()["by_fault"] == {kind: 1}


STATUSES = {
    # kind: OpenAI's status and code, Anthropic's status and type.
    "rate-limit": (429, "rate_limit_exceeded", 429, "rate_limit_error"),
    "payment-required": (402, 402, 402, "billing_error"),
    "insufficient-quota": (429, "insufficient_quota", 402, "billing_error"),
    "spend-limit": (400, "billing_hard_limit_reached", 400, "invalid_request_error"),
    "overloaded": (503, "service_unavailable", 529, "overloaded_error"),
    "server-error": (500, "server_error", 500, "api_error"),
    "bad-request": (400, "invalid_request_error", 400, "invalid_request_error"),
    "unauthorized": (401, "invalid_api_key", 401, "authentication_error"),
    "forbidden": (403, "permission_denied", 403, "permission_error"),
    "context-too-long": (400, "context_length_exceeded", 400, "invalid_request_error"),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("kind", STATUSES)
def test_a_refusal_has_the_status_and_the_body_of_its_format(
    stage: Stage, client: Client, kind: str, stream: bool
) -> None:
    stage.play(f"- fault: {kind}")
    response = post(stage, client, stream=stream)
    document = response.json()
    word, message = client.fault(document)
    expected = STATUSES[kind][:2] if client.name == "openai" else STATUSES[kind][2:]
    assert (response.status_code, word) == expected
    assert "imulated" in message
    assert document["simulated"] is True
    assert response.headers["content-type"] == "application/json"


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        *(("overloaded", status) for status in (503, 529)),
        *(("server-error", status) for status in (500, 502, 503, 504)),
        *(("bad-request", status) for status in (400, 404, 405, 422)),
        *(("context-too-long", status) for status in (400, 413)),
        *(("html-page", status) for status in (200, 403, 404, 500, 502, 503, 504)),
    ],
)
def test_a_status_may_be_chosen(stage: Stage, client: Client, kind: str, status: int) -> None:
    stage.play(f"- {{fault: {kind}, status: {status}}}")
    response = post(stage, client, stream=False)
    assert response.status_code == status
    assert ("<html>" in response.text) == (kind == "html-page")
    assert response.headers["content-type"].startswith("text/html") == (kind == "html-page")


@pytest.mark.parametrize("grammar", GRAMMARS)
def test_every_grammar_of_a_wait_is_read_as_the_wait_it_states(
    stage: Stage, client: Client, grammar: str
) -> None:
    stage.play(f"- {{fault: rate-limit, retry_after_seconds: 34, retry_after_as: {grammar}}}")
    response = post(stage, client, stream=False)
    wait_seconds = retry_after_seconds(
        response.headers, response.content, now_epoch_seconds=NOW_EPOCH_SECONDS
    )
    assert wait_seconds == (None if grammar == "none" else 34)


def test_a_reset_is_told_in_the_headers_of_the_format(stage: Stage, client: Client) -> None:
    stage.play("- {fault: rate-limit, retry_after_seconds: 34, retry_after_as: reset-rfc3339}")
    name = {"openai": "x-ratelimit-reset-requests", "anthropic": "anthropic-ratelimit-requests-reset"}
    assert post(stage, client, stream=False).headers[name[client.name]] == "2025-06-30T12:00:34Z"


def test_a_rules_seconds_count_from_the_simulators_start(stage: Stage, client: Client) -> None:
    # Read when the simulator is made, and when each request arrives.
    monotonic = iter([1000.0, 1004.0, 1005.0])
    stage.play(
        "- {fault: forbidden, when: {until_seconds: 5}}", clocks=Clocks(monotonic=lambda: next(monotonic))
    )
    assert [post(stage, client, stream=False).status_code for _ in range(2)] == [403, 200]


@pytest.mark.parametrize("kind", ["rate-limit-in-200", "overloaded", "server-error", "payment-required"])
def test_other_refusals_may_state_a_wait_as_well(stage: Stage, client: Client, kind: str) -> None:
    stage.play(f"- {{fault: {kind}, retry_after_seconds: 2.5, retry_after_as: sentence}}")
    assert "Please try again in 2.5s." in post(stage, client, stream=False).text


def test_a_reset_before_the_answer_leaves_no_byte(stage: Stage, client: Client) -> None:
    stage.play("- fault: reset")
    for stream in (False, True):
        assert raw_answer(stage, client, stream=stream) == (b"", b"", True)


def test_a_connection_may_close_before_the_answer_without_a_reset(stage: Stage, client: Client) -> None:
    stage.play("- {fault: cut, after_pieces: 0}")
    for stream in (False, True):
        assert raw_answer(stage, client, stream=stream) == (b"", b"", False)


def test_a_cut_stream_ends_between_events_and_without_its_last_chunk(stage: Stage, client: Client) -> None:
    stage.play()
    _, whole, _ = raw_answer(stage, client, stream=True)
    complete, ended = chunks(whole)
    assert ended
    stage.play("- {fault: cut, after_pieces: 3}")
    _, body, was_reset = raw_answer(stage, client, stream=True)
    # The opening and three pieces.
    assert chunks(body) == (complete[:4], False)
    assert not was_reset


def test_a_cut_document_is_shorter_than_it_claims(stage: Stage, client: Client) -> None:
    stage.play("- fault: cut")
    head, body, _ = raw_answer(stage, client, stream=False)
    assert f"content-length: {2 * len(body)}".encode() in head or (
        f"content-length: {2 * len(body) + 1}".encode() in head
    )


def test_a_torn_event_stops_in_the_middle_of_a_body_that_ends_well(stage: Stage, client: Client) -> None:
    stage.play("- {fault: torn-event, after_pieces: 1}")
    _, body, _ = raw_answer(stage, client, stream=True)
    found, ended = chunks(body)
    assert ended
    assert len(found) == 3
    assert found[1].endswith(b"\n\n")
    assert not found[2].endswith(b"\n")


def test_a_stream_may_end_without_its_end_mark(stage: Stage, client: Client) -> None:
    mark = "data: [DONE]" if client.name == "openai" else "message_stop"
    stage.play()
    assert mark in post(stage, client, stream=True).text
    stage.play("- fault: no-end-mark")
    response = post(stage, client, stream=True)
    assert mark not in response.text
    assert client.stop in response.text


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_usage_may_be_missing(stage: Stage, client: Client, stream: bool) -> None:
    stage.play("- fault: no-usage")
    response = post(stage, client, stream=stream)
    documents = events(response) if stream else [response.json()]
    assert all(not document.get("usage") for document in documents)
    assert all("usage" not in document.get("message", {}) for document in documents)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_every_wide_character_arrives_in_two_pieces(stage: Stage, client: Client, stream: bool) -> None:
    stage.play("- {fault: split-utf8, gap_seconds: 0.02}")
    _, body, _ = raw_answer(stage, client, stream=stream)
    # ï has two bytes, 日本語 three each, the smile four: five characters, five waits.
    assert stage.slept == [0.02] * 5
    found = chunks(body)[0] if stream else [body]
    assert WIDE_CHARACTERS in b"".join(found).decode()
    if stream:
        assert sum(_is_broken(piece) for piece in found) >= 5


def _is_broken(piece: bytes) -> bool:
    try:
        piece.decode()
    except UnicodeDecodeError:
        return True
    return False


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_silence_is_silent_for_its_seconds(stage: Stage, client: Client, stream: bool) -> None:
    stage.play("- fault: silence")
    response = post(stage, client, stream=stream)
    assert stage.slept == [75]
    assert ": keep-alive" not in response.text
    heard = client.hear_stream(events(response)) if stream else client.hear(response.json())
    assert heard.text == WHOLE_ANSWER


def test_a_stream_may_be_kept_alive_by_comments(stage: Stage, client: Client) -> None:
    stage.play("- {fault: silence, seconds: 75, keep_alive_seconds: 10, after_pieces: 2}")
    response = post(stage, client, stream=True)
    # Seven comments, one every ten seconds, and the five seconds that are left.
    assert stage.slept == [10] * 7 + [5]
    assert response.text.count(": keep-alive (simulated)\n\n") == 7
    before, _, _ = response.text.partition(": keep-alive")
    assert before.count("data: ") == (3 if client.name == "openai" else 5)


def test_a_document_may_be_kept_alive_by_blank_lines(stage: Stage, client: Client) -> None:
    stage.play("- {fault: silence, seconds: 30, keep_alive_seconds: 10}")
    head, body, _ = raw_answer(stage, client, stream=False)
    assert chunks(body)[0][:3] == [b"\n"] * 3
    assert b"transfer-encoding: chunked" in head.lower()
    assert client.hear(json.loads(b"".join(chunks(body)[0]))).text == WHOLE_ANSWER


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_slow_drip_gives_so_many_bytes_at_a_time(stage: Stage, client: Client, stream: bool) -> None:
    stage.play("- {fault: slow-drip, piece_bytes: 10, gap_seconds: 0.5}")
    _, body, _ = raw_answer(stage, client, stream=stream)
    found = chunks(body)[0] if stream else [body]
    assert stage.slept == [0.5] * -(-len(b"".join(found)) // 10)
    if stream:
        assert {len(piece) for piece in found[:-1]} == {10}


def test_a_truncated_tool_call_is_half_a_json_text_that_claims_to_be_whole(
    stage: Stage, client: Client
) -> None:
    stage.play("- fault: truncated-tool-json")
    documents = events(post(stage, client, stream=True))
    if client.name == "openai":
        choices = [choice for document in documents for choice in document["choices"]]
        (call,) = [call for choice in choices for call in choice["delta"].get("tool_calls", [])]
        arguments, finish = call["function"]["arguments"], choices[-1]["finish_reason"]
    else:
        deltas = [document["delta"] for document in documents if "delta" in document]
        arguments = "".join(delta.get("partial_json", "") for delta in deltas)
        finish = deltas[-1]["stop_reason"]
    assert arguments == WHOLE_ANSWER[: len(WHOLE_ANSWER) // 2]
    assert finish == ("tool_calls" if client.name == "openai" else "tool_use")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("kind", [name for name in KINDS if name not in {"html-page", "not-json"}])
def test_whatever_json_a_fault_leaves_carries_the_mark(
    stage: Stage, client: Client, kind: str, stream: bool
) -> None:
    stage.play(f"- fault: {kind}")
    head, body, _ = raw_answer(stage, client, stream=stream, temperature=0.5)
    is_chunked = b"transfer-encoding: chunked" in head.lower()
    text = b"".join(chunks(body)[0] if is_chunked else [body]).decode(errors="replace")
    whole_events = [block for block in text.split("\n\n")[:-1] if "data: {" in block] if is_chunked else []
    whole_bodies = [] if is_chunked or kind in {"reset", "cut", "torn-event"} else [text]
    assert all('"simulated":true' in document for document in (*whole_events, *whole_bodies))


async def test_the_first_rule_that_fits_decides(http: HttpClient, stage: Stage) -> None:
    stage.play(
        "- {fault: unauthorized, when: {role: reviewer}}\n"
        "- {fault: forbidden, when: {model: sim-birch-*}}\n"
        "- {fault: rate-limit, when: {wire: openai, role: coder}}\n"
        "- {fault: overloaded, when: {family: sim-alder}}\n"
    )
    with pytest.raises(RateLimitedError):
        await ask(http, stage, "openai", stream=False)
    with pytest.raises(OverloadedError):
        await ask(http, stage, "anthropic", stream=False)


def test_the_server_survives_every_fault_in_a_row(stage: Stage, client: Client) -> None:
    for kind in set(KINDS) - {"refuse-connections"}:
        stage.play(f"- {{fault: {kind}, when: {{attempt: 1}}}}")
        for attempt in (1, 2):
            _, body, _ = raw_answer(stage, client, stream=False, temperature=0.5)
            if attempt == 2:
                assert client.hear(json.loads(body)).text == WHOLE_ANSWER
        counted = stage.http.get("/simulator/stats").json()
        assert counted["in_flight"] == 0
        assert counted["by_fault"] == {kind: 1}
