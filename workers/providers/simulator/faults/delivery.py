"""Faults in how an answer travels: torn, cut, reset, silent, slow, or broken off by an error in a 200."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from itertools import pairwise

import orjson

from workers.providers.simulator.faults.exchange import Exchange
from workers.providers.simulator.faults.kind import Fault
from workers.providers.simulator.faults.refusal import overloaded, rate_limited, statement, with_wait
from workers.providers.simulator.plan import Ending, Plan, Step, plan_body
from workers.providers.simulator.wire_error import RequestError

_NOT_JSON = b"upstream connect error or disconnect before headers (simulated)"
#: What a server sends while its model thinks: a comment in a stream, white space before a document.
KEEP_ALIVE_COMMENT = b": keep-alive (simulated)\n\n"
_KEEP_ALIVE_SPACE = b"\n"


def plan_delivery(fault: Fault, exchange: Exchange) -> Plan:
    """The answer of a fault of the group `delivery`."""
    return _DELIVERIES[fault.kind](fault, exchange)


def _break_off(fault: Fault, exchange: Exchange, ending: Ending) -> Plan:
    """After so many pieces of a stream, or half of a document."""
    plan = exchange.plan()
    count = fault.after_pieces or 0
    if count == 0:
        return dataclasses.replace(plan, status=0, steps=(), ending=ending)
    if exchange.call.is_streamed:
        steps = _after_pieces(plan, count)[0]
    else:
        (whole,) = plan.steps
        steps = (dataclasses.replace(whole, data=whole.data[: len(whole.data) // 2]),)
    return dataclasses.replace(plan, steps=steps, ending=ending)


def _after_pieces(plan: Plan, count: int) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
    """A stream's opening and its first `count` pieces, and the rest; what closes it is always in the rest."""
    cut = min(1 + count, len(plan.steps) - 1)
    return plan.steps[:cut], plan.steps[cut:]


def _torn_event(fault: Fault, exchange: Exchange) -> Plan:
    """The last event stops in its middle, and the body then ends as if all were well."""
    plan = exchange.plan()
    if not exchange.call.is_streamed:
        (whole,) = plan.steps
        half = whole.data[: len(whole.data) // 2]
        return plan_body(half, wait_seconds=plan.head_wait_seconds)
    kept, rest = _after_pieces(plan, fault.after_pieces or 0)
    torn = dataclasses.replace(rest[0], data=rest[0].data[: len(rest[0].data) // 2])
    return dataclasses.replace(plan, steps=(*kept, torn))


def _error_in_200(fault: Fault, exchange: Exchange, error: RequestError) -> Plan:
    wire = exchange.wire
    stated = with_wait(error, statement(fault, wire.name, exchange.now_epoch_seconds))
    plan = exchange.plan()
    if not exchange.call.is_streamed:
        body = orjson.dumps(wire.error(stated))
        return plan_body(body, wait_seconds=plan.head_wait_seconds)
    kept, rest = _after_pieces(plan, fault.after_pieces or 0)
    part = wire.error_part(exchange.call, exchange.reply, stated)
    return dataclasses.replace(plan, steps=(*kept, dataclasses.replace(rest[0], data=part)))


def _rate_limit_in_200(fault: Fault, exchange: Exchange) -> Plan:
    error = rate_limited()
    # Inside a 200 OpenRouter writes the status as the code.
    error.code = 429
    return _error_in_200(fault, exchange, error)


def _overloaded_in_200(fault: Fault, exchange: Exchange) -> Plan:
    error = overloaded(exchange.wire)
    error.code = error.status
    return _error_in_200(fault, exchange, error)


def _not_json(_fault: Fault, exchange: Exchange) -> Plan:
    plan = exchange.plan()
    if not exchange.call.is_streamed:
        return plan_body(_NOT_JSON, wait_seconds=plan.head_wait_seconds)
    opening, *_ = plan.steps
    return dataclasses.replace(plan, steps=(opening, Step(data=b"data: " + _NOT_JSON + b"\n\n")))


def _split_utf8(fault: Fault, exchange: Exchange) -> Plan:
    """Every character of several bytes arrives in two pieces."""
    plan = exchange.plan()
    gap_seconds = fault.gap_seconds or 0.0
    steps = []
    for step in plan.steps:
        first, *others = split_inside_characters(step.data)
        steps.append(dataclasses.replace(step, data=first))
        steps.extend(Step(wait_seconds=gap_seconds, data=piece) for piece in others)
    return dataclasses.replace(plan, steps=tuple(steps))


def split_inside_characters(data: bytes) -> list[bytes]:
    """Cut before the last byte of every character that has more than one; together they are `data`."""
    cuts = [
        position
        for position in range(1, len(data))
        if _continues(data[position]) and not (position + 1 < len(data) and _continues(data[position + 1]))
    ]
    edges = [0, *cuts, len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


def _continues(byte: int) -> bool:
    return 0x80 <= byte < 0xC0


def _silence(fault: Fault, exchange: Exchange) -> Plan:
    """So long nothing but what keeps the connection alive, if anything; then the rest as it should be."""
    plan = exchange.plan()
    seconds, every = fault.seconds or 0.0, fault.keep_alive_seconds
    is_streamed = exchange.call.is_streamed
    count = 0 if every is None else max(0, min(10_000, int(seconds / every)))
    rest_seconds = seconds - count * (every or 0.0)
    life = KEEP_ALIVE_COMMENT if is_streamed else _KEEP_ALIVE_SPACE
    signs = [Step(wait_seconds=every or 0.0, data=life) for _ in range(count)]
    signs.append(Step(wait_seconds=rest_seconds, data=b""))
    if is_streamed:
        kept, rest = _after_pieces(plan, fault.after_pieces or 0)
        return dataclasses.replace(plan, steps=(*kept, *signs, *rest))
    if every is None:
        return dataclasses.replace(plan, head_wait_seconds=plan.head_wait_seconds + seconds)
    # The head must be out before white space can follow, so the length is no longer known.
    return dataclasses.replace(plan, steps=(*signs, *plan.steps), body_bytes=None)


def _slow_drip(fault: Fault, exchange: Exchange) -> Plan:
    plan = exchange.plan()
    size, gap_seconds = fault.piece_bytes or 1, fault.gap_seconds or 0.0
    data = b"".join(step.data for step in plan.steps)
    drops = [data[start : start + size] for start in range(0, len(data), size)]
    return dataclasses.replace(plan, steps=tuple(Step(wait_seconds=gap_seconds, data=drop) for drop in drops))


_DELIVERIES: Mapping[str, Callable[[Fault, Exchange], Plan]] = {
    "rate-limit-in-200": _rate_limit_in_200,
    "overloaded-in-200": _overloaded_in_200,
    "reset": lambda fault, exchange: _break_off(fault, exchange, Ending.RESET),
    "cut": lambda fault, exchange: _break_off(fault, exchange, Ending.CUT),
    "not-json": _not_json,
    "torn-event": _torn_event,
    "split-utf8": _split_utf8,
    "silence": _silence,
    "slow-drip": _slow_drip,
}
