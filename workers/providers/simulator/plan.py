"""An answer before it is sent: its bytes, the waits between them and how it ends, as a value.

What a fault does to how an answer travels is a change of this value; `performance.py` alone sends one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import Enum, auto

import orjson

from workers.providers.simulator.latency import Pace
from workers.providers.simulator.wire import Call, Reply, Wire
from workers.providers.simulator.wire_error import RequestError

JSON_MEDIA_TYPE = "application/json"
STREAM_MEDIA_TYPE = "text/event-stream; charset=utf-8"


class Ending(Enum):
    """As it should be; with a closed connection and the body incomplete; with a reset connection."""

    WHOLE = auto()
    CUT = auto()
    RESET = auto()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """Wait, then send; an empty `data` is a wait alone."""

    wait_seconds: float = 0.0
    data: bytes


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """`status` 0: the connection ends without an answer. `body_bytes`: the length that a body which does not
    stream claims to have; None: it is sent in chunks."""

    status: int
    media_type: str
    steps: tuple[Step, ...]
    headers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    head_wait_seconds: float = 0.0
    body_bytes: int | None = None
    ending: Ending = Ending.WHOLE

    @property
    def waits(self) -> bool:
        return self.head_wait_seconds > 0 or any(step.wait_seconds > 0 for step in self.steps)


def plan_reply(wire: Wire, call: Call, reply: Reply, pace: Pace) -> Plan:
    """A reply at its pace: a document when its latency is over, a stream from its first piece to its end."""
    if not call.is_streamed:
        return plan_body(orjson.dumps(wire.document(call, reply)), wait_seconds=pace.total_seconds)
    parts = wire.parts(call, reply)
    # The opening and the first piece come together; the rest of the time lies before each later part.
    gap_seconds = (pace.total_seconds - pace.first_seconds) / max(1, len(parts) - 2)
    waits = (pace.first_seconds, 0.0, *[gap_seconds] * (len(parts) - 2))
    return Plan(
        status=200,
        media_type=STREAM_MEDIA_TYPE,
        steps=tuple(Step(wait_seconds=wait, data=part) for wait, part in zip(waits, parts, strict=True)),
    )


def plan_error(wire: Wire, error: RequestError, headers: Mapping[str, str] | None = None) -> Plan:
    body = orjson.dumps(wire.error(error))
    return plan_body(body, status=error.status, headers=headers)


def plan_body(
    body: bytes,
    *,
    status: int = 200,
    media_type: str = JSON_MEDIA_TYPE,
    headers: Mapping[str, str] | None = None,
    wait_seconds: float = 0.0,
) -> Plan:
    """A body in one piece."""
    return Plan(
        status=status,
        media_type=media_type,
        steps=(Step(data=body),),
        headers=headers or {},
        head_wait_seconds=wait_seconds,
        body_bytes=len(body),
    )
