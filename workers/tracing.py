"""Traces over OTLP, when an endpoint is set: a run is a trace, a seat's work a span in it, a model call one in that.

Messages carry ids only, and a run passes through many processes: so its trace and first span have ids that are computed
from the run's id, and every process finds them by itself. Names follow OpenTelemetry's GenAI conventions. Attributes
hold names and numbers; no prompt, no reply, no code, no message of an error."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import structlog
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, StatusCode, TraceFlags

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")

#: How long the last spans may take.
CLOSE_SECONDS = 2.0

#: What the conventions call providers that we call otherwise.
_PROVIDER_NAMES = {"mistral": "mistral_ai", "gemini": "gcp.gemini", "xai": "x_ai"}

log = structlog.get_logger(__name__)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Ids:
    """Of a run's trace and of its first span."""

    trace: int
    span: int

    @classmethod
    def of(cls, run_id: str) -> _Ids:
        digest = hashlib.sha256(f"trace of {run_id}".encode()).digest()
        return cls(trace=int.from_bytes(digest[:16]), span=int.from_bytes(digest[16:24]))


_provider: TracerProvider | None = None
#: The ids of the span that is about to be made, where they are not to be random.
_given: ContextVar[_Ids | None] = ContextVar("given_ids", default=None)


def configure(environment: Mapping[str, str], *, instance: str) -> bool:
    """Begin to trace, if the environment names an endpoint. `instance`: which process of the service this is.

    The provider is not made OpenTelemetry's global one: libraries that trace by themselves would join in, with
    attributes of their own.
    """
    global _provider  # noqa: PLW0603 - one a process
    if not any(environment.get(name) for name in ENDPOINTS):
        return False
    if find_spec("opentelemetry.exporter") is None or find_spec("opentelemetry.sdk") is None:
        log.warning("tracing.off", why="an endpoint is set, but pip install 'consensus[otel]' is missing")
        return False
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

    class Generator(RandomIdGenerator):
        def generate_trace_id(self) -> int:
            given = _given.get()
            return super().generate_trace_id() if given is None else given.trace

        def generate_span_id(self) -> int:
            given = _given.get()
            return super().generate_span_id() if given is None else given.span

    named = {} if environment.get("OTEL_SERVICE_NAME") else {"service.name": "consensus"}
    _provider = TracerProvider(
        resource=Resource.create({**named, "service.instance.id": instance}),
        id_generator=Generator(),
        shutdown_on_exit=False,
    )
    _provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return True


def close() -> None:
    """Send what is left, for as long as a worker that is told to stop may take for it; afterwards nothing is traced.
    Safe to repeat."""
    global _provider  # noqa: PLW0603
    if _provider is not None:
        # A collector that is away would be tried again and again.
        sending = threading.Thread(target=_provider.shutdown, name="last-spans", daemon=True)
        _provider = None
        sending.start()
        sending.join(CLOSE_SECONDS)


def is_on() -> bool:
    return _provider is not None


@contextmanager
def seat(run_id: str, *, round_: int, stage: str, name: str) -> Iterator[None]:
    """A seat's work."""
    if _provider is None:
        yield
        return
    attributes = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": name,
        "gen_ai.conversation.id": run_id,
        "consensus.stage": stage,
        "consensus.round": round_,
    }
    with _span(f"invoke_agent {name}", attributes, within=_run(_provider, run_id)):
        yield


@contextmanager
def model_call(
    provider: str, *, model: str, max_tokens: int, temperature: float | None, run_id: str
) -> Iterator[None]:
    """A call of a model, the wait for the governor included."""
    if _provider is None:
        yield
        return
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": _PROVIDER_NAMES.get(provider, provider),
        "gen_ai.request.model": model,
        "gen_ai.request.max_tokens": max_tokens,
        **({} if temperature is None else {"gen_ai.request.temperature": temperature}),
        "gen_ai.conversation.id": run_id,
    }
    with _span(f"chat {model}", attributes, kind=SpanKind.CLIENT):
        yield


def run_ended(run_id: str, *, team: str, state: str, began_at: dt.datetime, ended_at: dt.datetime) -> None:
    """The first span of the run's trace, told last. `state`: the outcome, or cancelled."""
    if _provider is None:
        return
    token = _given.set(_Ids.of(run_id))
    try:
        span = _provider.get_tracer("consensus").start_span(
            f"invoke_workflow {team}",
            context=Context(),
            attributes={
                "gen_ai.operation.name": "invoke_workflow",
                "gen_ai.workflow.name": team,
                "gen_ai.conversation.id": run_id,
                "consensus.outcome": state,
            },
            start_time=_nanoseconds(began_at),
        )
    finally:
        _given.reset(token)
    span.end(_nanoseconds(ended_at))


def note(**attributes: str | int | float | bool | list[str]) -> None:
    """Add to the span at work, if there is one; `a__b` is written `a.b`."""
    if _provider is not None:
        trace.get_current_span().set_attributes(
            {name.replace("__", "."): value for name, value in attributes.items()}
        )


@contextmanager
def _span(
    name: str,
    attributes: Mapping[str, Any],
    *,
    kind: SpanKind = SpanKind.INTERNAL,
    within: Context | None = None,
) -> Iterator[None]:
    if _provider is None:
        yield
        return
    with _provider.get_tracer("consensus").start_as_current_span(
        name,
        context=within,
        kind=kind,
        attributes=attributes,
        # What an error says may quote what a model wrote.
        record_exception=False,
        set_status_on_exception=False,
    ) as span:
        try:
            yield
        except BaseException as error:
            _mark(span, error)
            raise


def _mark(span: Span, error: BaseException) -> None:
    span.set_attribute("error.type", str(getattr(error, "kind", type(error).__name__)))
    span.set_status(StatusCode.ERROR)


def _run(provider: TracerProvider, run_id: str) -> Context:
    """The run's first span, which is told only when it ends. Whether the trace is sampled follows from its id alone,
    so that all processes say the same."""
    ids = _Ids.of(run_id)
    decision = provider.sampler.should_sample(None, ids.trace, "run").decision
    is_sampled = decision.is_sampled()  # type: ignore[no-untyped-call]
    flags = TraceFlags(TraceFlags.SAMPLED if is_sampled else TraceFlags.DEFAULT)
    first = SpanContext(ids.trace, ids.span, is_remote=True, trace_flags=flags)
    return trace.set_span_in_context(NonRecordingSpan(first), Context())


def _nanoseconds(at: dt.datetime) -> int:
    return int(at.timestamp() * 1e9)
