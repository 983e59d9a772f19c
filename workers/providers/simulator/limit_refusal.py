"""What the simulator's limits answer to a call that they do not let in: the statuses and headers of a real
provider of either wire format."""

from __future__ import annotations

import math

from workers.providers.simulator.faults.refusal import out_of_quota, overloaded
from workers.providers.simulator.limits import Cause, Refusal
from workers.providers.simulator.plan import Plan, plan_error
from workers.providers.simulator.problem import family
from workers.providers.simulator.retry_statement import go_duration
from workers.providers.simulator.wire import Call, Wire
from workers.providers.simulator.wire_error import RequestError

_NAMES: dict[Cause, str] = {
    "requests": "requests per minute",
    "input-tokens": "input tokens per minute",
    "output-tokens": "output tokens per minute",
    "requests-per-day": "requests per day",
    "concurrency": "concurrent requests",
}


def refuse_for_limit(refusal: Refusal, wire: Wire, call: Call) -> Plan:
    """429 for a rate, 503 or 529 for overload, 402 or `insufficient_quota` for an allowance used up."""
    if refusal.cause == "allowance" or refusal.wait_seconds is None:
        return plan_error(wire, out_of_quota(wire))
    # Whole seconds are rounded up; who can read milliseconds gets to know the wait exactly.
    headers = {"retry-after": str(max(1, math.ceil(refusal.wait_seconds)))}
    if refusal.cause == "overload":
        return plan_error(wire, overloaded(wire), headers)
    if wire.name == "openai":
        headers["retry-after-ms"] = str(max(1, math.ceil(refusal.wait_seconds * 1000)))
    error = RequestError(
        f"Simulated: rate limit reached for {family(call.model)} on {_NAMES[refusal.cause]}, "
        f"limit {refusal.limit:g}. Please try again in {go_duration(refusal.wait_seconds)}.",
        status=429,
        kind="rate_limit_error",
        openai_type="tokens" if "tokens" in refusal.cause else "requests",
        code="rate_limit_exceeded",
    )
    return plan_error(wire, error, headers)
