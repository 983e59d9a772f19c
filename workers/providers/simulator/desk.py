"""Decides what becomes of a request, before anything is sent: read, faulted, limited, answered.

Refusing faults come first, as a gateway before the provider would; then the limits; then the answer, with
what its fault makes of it. All decisions are made without waiting; the time is passed in."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import orjson

from workers.providers.simulator.arrivals import Arrival
from workers.providers.simulator.catalogue import Catalogue, load_catalogue
from workers.providers.simulator.faults.content import changed
from workers.providers.simulator.faults.delivery import plan_delivery
from workers.providers.simulator.faults.exchange import Exchange
from workers.providers.simulator.faults.kind import KINDS, Fault, Group
from workers.providers.simulator.faults.refusal import refuse
from workers.providers.simulator.faults.rule import Asked, Faults
from workers.providers.simulator.latency import Timing
from workers.providers.simulator.limit_refusal import refuse_for_limit
from workers.providers.simulator.limits import Admission, Demand, Limiter
from workers.providers.simulator.plan import Plan, plan_error
from workers.providers.simulator.problem import family
from workers.providers.simulator.roles import answer
from workers.providers.simulator.stand_in import Resolve, cost_usd
from workers.providers.simulator.wire import Call, Reply, Wire, reply_to
from workers.providers.simulator.wire_error import RequestError

_MODEL_CHARACTERS = 100


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Letter:
    """A request as it came. `digest` (hex) is of its body and the seed."""

    wire: Wire
    body: bytes
    digest: str
    key_digest: str
    arrived_seconds: float
    is_too_long: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What is sent and what is remembered. `demand`: what the limiter holds until the exchange has ended."""

    plan: Plan
    arrival: Arrival
    demand: Demand | None = None


@dataclasses.dataclass(slots=True, kw_only=True)
class Desk:
    """Has the simulator's state: its limiter (None: no limits) and what its faults have counted."""

    seed: int
    timing: Timing
    limiter: Limiter | None
    faults: Faults
    resolve: Resolve
    started_seconds: float
    catalogue: Catalogue = dataclasses.field(default_factory=load_catalogue)
    running: int = 0

    def decide(self, letter: Letter, now_epoch_seconds: float) -> Decision:
        """The answer to a letter. Every decision must be ended with `end`."""
        decision = self._decide(letter, now_epoch_seconds)
        self.running += 1
        return decision

    def end(self, decision: Decision, now_epoch_seconds: float) -> None:
        self.running -= 1
        if decision.demand is not None and self.limiter is not None:
            self.limiter.release(decision.demand, now_epoch_seconds)

    def _decide(self, letter: Letter, now_epoch_seconds: float) -> Decision:
        wire = letter.wire
        try:
            body = _object(letter)
            call = wire.read(body, self.resolve)
        except RequestError as error:
            return _refused(letter, plan_error(wire, error), model="")
        fault = self._fault(letter, body, call)
        if fault is not None and KINDS[fault.kind].group is Group.REFUSAL:
            plan = refuse(fault, wire, now_epoch_seconds=now_epoch_seconds)
            return _refused(letter, plan, model=call.asked_model, fault=fault)
        text = answer(call.system, call.user, model=call.model, seed=self.seed, catalogue=self.catalogue)
        reply = reply_to(call, text, digest=letter.digest)
        pace = self.timing.pace(letter.digest)
        exchange = Exchange(wire=wire, call=call, reply=reply, pace=pace, now_epoch_seconds=now_epoch_seconds)
        if self.limiter is None:
            return _answered(letter, exchange, fault)
        demand = _demand(letter, call, reply)
        admission = self.limiter.admit(demand, now_epoch_seconds)
        return _limited(letter, exchange, fault, demand, admission)

    def _fault(self, letter: Letter, body: Mapping[str, Any], call: Call) -> Fault | None:
        if not self.faults.rules:
            return None
        return self.faults.decide(
            Asked(
                call=call,
                wire=letter.wire.name,
                digest=letter.digest,
                fields=body.keys(),
                elapsed_seconds=letter.arrived_seconds - self.started_seconds,
            )
        )


def _limited(
    letter: Letter, exchange: Exchange, fault: Fault | None, demand: Demand, admission: Admission
) -> Decision:
    wire, now_epoch_seconds = exchange.wire, exchange.now_epoch_seconds
    headers = wire.limit_headers(admission.gauges, now_epoch_seconds)
    if admission.refusal is not None:
        plan = refuse_for_limit(admission.refusal, wire, exchange.call)
        decision = _refused(letter, plan, model=exchange.call.asked_model)
    else:
        decision = dataclasses.replace(_answered(letter, exchange, fault), demand=demand)
    plan = dataclasses.replace(decision.plan, headers={**headers, **decision.plan.headers})
    return dataclasses.replace(decision, plan=plan)


def _answered(letter: Letter, exchange: Exchange, fault: Fault | None) -> Decision:
    if fault is not None:
        # The record tells what the caller is told.
        exchange = changed(fault, exchange)
    if fault is None or KINDS[fault.kind].group is Group.CONTENT:
        plan = exchange.plan()
    else:
        plan = plan_delivery(fault, exchange)
    arrival = Arrival(
        arrived_seconds=letter.arrived_seconds,
        model=exchange.call.asked_model[:_MODEL_CHARACTERS],
        key_digest=letter.key_digest,
        status=plan.status,
        fault=fault.kind if fault is not None else None,
        input_tokens=exchange.reply.input_tokens,
        output_tokens=exchange.reply.output_tokens,
    )
    return Decision(plan=plan, arrival=arrival)


def _refused(letter: Letter, plan: Plan, *, model: str, fault: Fault | None = None) -> Decision:
    arrival = Arrival(
        arrived_seconds=letter.arrived_seconds,
        model=model[:_MODEL_CHARACTERS],
        key_digest=letter.key_digest,
        status=plan.status,
        fault=fault.kind if fault is not None else None,
    )
    return Decision(plan=plan, arrival=arrival)


def _demand(letter: Letter, call: Call, reply: Reply) -> Demand:
    return Demand(
        key=letter.key_digest,
        family=family(call.model),
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
        reserved_output_tokens=max(call.max_tokens or 0, reply.output_tokens),
        cost_usd=cost_usd(call.model, input_tokens=reply.input_tokens, output_tokens=reply.output_tokens),
    )


def _object(letter: Letter) -> dict[str, Any]:
    if letter.is_too_long:
        raise RequestError(
            "The body is longer than the simulator takes, 4 MiB.",
            status=413,
            kind="request_too_large",
            code="request_too_large",
        )
    try:
        value = orjson.loads(letter.body)
    except orjson.JSONDecodeError as error:
        raise RequestError(f"The body is not JSON: {error}.") from None
    if not isinstance(value, dict):
        raise RequestError("The body must be a JSON object.")
    return value
