"""A collector: takes OTLP over HTTP on 127.0.0.1 and decodes what it is sent."""

from __future__ import annotations

import dataclasses
import gzip
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A span as it arrived. Ids in hex, '' for no parent; `is_error`: its status."""

    name: str
    trace_id: str
    span_id: str
    parent_id: str
    kind: int
    is_error: bool
    attributes: dict[str, Any]
    events: int
    seconds: float


@dataclasses.dataclass(slots=True)
class Receiver:
    url: str = ""
    spans: list[Seen] = dataclasses.field(default_factory=list)
    resources: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    #: Everything as it came, unpacked, for those who look for what must not be there.
    bodies: list[bytes] = dataclasses.field(default_factory=list)
    paths: list[str] = dataclasses.field(default_factory=list)

    def take(self, path: str, body: bytes) -> None:
        self.paths.append(path)
        self.bodies.append(body)
        request = ExportTraceServiceRequest.FromString(body)
        for of_resource in request.resource_spans:
            self.resources.append(_plain(of_resource.resource.attributes))
            for of_scope in of_resource.scope_spans:
                self.spans.extend(map(_seen, of_scope.spans))

    def named(self, start: str) -> list[Seen]:
        return [span for span in self.spans if span.name.startswith(start)]


def _seen(span: Any) -> Seen:
    return Seen(
        name=span.name,
        trace_id=span.trace_id.hex(),
        span_id=span.span_id.hex(),
        parent_id=span.parent_span_id.hex(),
        kind=span.kind,
        is_error=span.status.code == span.status.STATUS_CODE_ERROR,
        attributes=_plain(span.attributes),
        events=len(span.events),
        seconds=(span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
    )


def _plain(attributes: Any) -> dict[str, Any]:
    return {entry.key: _value(entry.value) for entry in attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_value(entry) for entry in value.array_value.values]
    return getattr(value, kind)


@contextmanager
def receiver() -> Iterator[Receiver]:
    received = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            if self.headers.get("content-encoding") == "gzip":
                body = gzip.decompress(body)
            received.take(self.path, body)
            answer = ExportTraceServiceResponse().SerializeToString()
            self.send_response(200)
            self.send_header("content-type", "application/x-protobuf")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    received.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield received
    finally:
        server.shutdown()
        server.server_close()
        thread.join(timeout=5)
