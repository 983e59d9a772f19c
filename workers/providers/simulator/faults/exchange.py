"""One call and the answer that it would get, for a fault to change."""

from __future__ import annotations

import dataclasses

from workers.providers.simulator.latency import Pace
from workers.providers.simulator.plan import Plan, plan_reply
from workers.providers.simulator.wire import Call, Reply, Wire


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    wire: Wire
    call: Call
    reply: Reply
    pace: Pace
    now_epoch_seconds: float

    def plan(self) -> Plan:
        return plan_reply(self.wire, self.call, self.reply, self.pace)

    def saying(self, reply: Reply) -> Exchange:
        return dataclasses.replace(self, reply=reply)
