"""Traces as a collector receives them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from celery.worker import state
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.trace import SpanKind
from structlog.testing import capture_logs

from tests.integration.conftest import Bench, pause
from tests.integration.model_server import GOOD, ModelServer, error_500
from tests.integration.otlp_receiver import Receiver, receiver
from tests.integration.test_pipeline import MODEL_OF
from workers import tracing
from workers.queues import TaskName

SPEC = "Add the two numbers of the parable of the zebra."
CODE = "def add(zebra_one, zebra_two):\n    return zebra_one + zebra_two\n"


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    """A collector, and this process sends its spans there."""
    with receiver() as received:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", received.url)
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "api-key=sk-header-0001")
        assert tracing.configure({"OTEL_EXPORTER_OTLP_ENDPOINT": received.url}, instance="llm1@here")
        try:
            yield received
        finally:
            tracing.close()


def writes_code(role: str, _: dict[str, Any], __: int) -> str:
    return json.dumps({**GOOD[role], **({"files": {"a.py": CODE}} if role in ("coder", "lead") else {})})


def ended(bench: Bench, run_id: str) -> None:
    """The run has ended, and its last span has been sent."""
    bench.ended(run_id)
    # The task that ended the run tells of it after its commit.
    while any(request.name == TaskName.FINISH for request in tuple(state.active_requests)):
        pause()
    tracing.close()


def test_a_run_is_one_trace_of_seats_and_their_calls(
    bench: Bench, models: ModelServer, traced: Receiver
) -> None:
    run_id = bench.submit(spec=SPEC)
    ended(bench, run_id)

    assert set(traced.paths) == {"/v1/traces"}
    assert len({span.trace_id for span in traced.spans}) == 1
    (run,) = traced.named("invoke_workflow")
    seats, calls = traced.named("invoke_agent"), traced.named("chat")
    # Coder, two reviewers, consensus and lead; each asks once.
    assert sorted(span.name for span in seats) == [
        "invoke_agent coder",
        "invoke_agent consensus",
        "invoke_agent lead",
        "invoke_agent left",
        "invoke_agent right",
    ]
    assert run.parent_id == ""
    assert {seat.parent_id for seat in seats} == {run.span_id}
    assert sorted(call.parent_id for call in calls) == sorted(seat.span_id for seat in seats)
    assert all(call.kind == _wire(SpanKind.CLIENT) for call in calls)
    assert run.seconds >= max(seat.seconds for seat in seats)


def _wire(kind: SpanKind) -> int:
    """OTLP counts from 1 where the library counts from 0."""
    return kind.value + 1


def test_attributes_have_the_names_of_the_conventions_and_the_numbers_of_the_call(
    bench: Bench, models: ModelServer, traced: Receiver
) -> None:
    run_id = bench.submit(spec=SPEC)
    ended(bench, run_id)

    (call,) = traced.named(f"chat {MODEL_OF['left']}")
    assert call.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "local",
        "gen_ai.request.model": "birch-1",
        "gen_ai.request.max_tokens": call.attributes["gen_ai.request.max_tokens"],
        "gen_ai.conversation.id": run_id,
        "gen_ai.response.model": "birch-1",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 0,
        "consensus.simulated": False,
        **(
            {"gen_ai.request.temperature": t}
            if (t := call.attributes.get("gen_ai.request.temperature"))
            else {}
        ),
    }
    (seat,) = traced.named("invoke_agent left")
    assert seat.attributes["consensus.stage"] == "panel"
    assert seat.attributes["consensus.seat.end"] == "done"
    known = {value for name, value in vars(gen_ai_attributes).items() if name.startswith("GEN_AI_")}
    used = {name for span in traced.spans for name in span.attributes if name.startswith("gen_ai.")}
    assert used - known == set()
    operations = {kind.value for kind in gen_ai_attributes.GenAiOperationNameValues}
    assert {span.attributes["gen_ai.operation.name"] for span in traced.spans} <= operations
    assert traced.resources[0]["service.name"] == "consensus"
    assert traced.resources[0]["service.instance.id"] == "llm1@here"


def test_a_call_that_fails_is_an_error_with_its_kind_and_without_its_words(
    bench: Bench, models: ModelServer, traced: Receiver
) -> None:
    models.behave[MODEL_OF["left"]] = error_500
    run_id = bench.submit(spec=SPEC)
    ended(bench, run_id)

    failed = traced.named(f"chat {MODEL_OF['left']}")
    assert failed
    assert all(call.is_error and call.attributes["error.type"] == "overload" for call in failed)
    assert all(call.events == 0 for call in failed)
    (seat,) = traced.named("invoke_agent left")
    assert seat.attributes["consensus.seat.end"] == "gave_up"
    assert b"boom" not in b"".join(traced.bodies)


def test_no_prompt_code_or_key_is_in_a_span(bench: Bench, models: ModelServer, traced: Receiver) -> None:
    models.behave = dict.fromkeys(MODEL_OF.values(), writes_code)
    ended(bench, bench.submit(spec=SPEC))

    sent = b"".join(traced.bodies)
    assert b"invoke_agent coder" in sent
    assert b"zebra" not in sent
    assert b"sk-header-0001" not in sent


def test_a_run_that_is_not_sampled_sends_nothing_from_any_process(
    bench: Bench, models: ModelServer, traced: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    tracing.close()
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", "0")
    tracing.configure({"OTEL_EXPORTER_OTLP_ENDPOINT": traced.url}, instance="llm1@here")

    ended(bench, bench.submit(spec=SPEC))

    assert traced.spans == []


def test_without_an_endpoint_nothing_is_traced() -> None:
    assert not tracing.configure({}, instance="llm1@here")
    assert not tracing.is_on()
    with tracing.seat("run_1", round_=1, stage="panel", name="left"):
        tracing.note(gen_ai__usage__input_tokens=1)


def test_an_endpoint_without_the_extra_is_told_and_stops_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracing, "find_spec", lambda _: None)

    with capture_logs() as said:
        assert not tracing.configure({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, instance="x")

    assert [(line["event"], "consensus[otel]" in line["why"]) for line in said] == [("tracing.off", True)]


def test_a_collector_that_is_away_does_not_hold_up_the_end(
    bench: Bench, models: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    monkeypatch.setattr(tracing, "CLOSE_SECONDS", 0.01)
    tracing.configure({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}, instance="llm1@here")
    bench.ended(bench.submit(spec=SPEC))

    began = time.monotonic()
    tracing.close()

    assert time.monotonic() - began < 1
    assert not tracing.is_on()
