"""Request and response bodies. Pydantic stops here: routers hand plain values on."""

from __future__ import annotations

import datetime as dt
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from workers.provenance.ledger import Event
from workers.provenance.repository.calls import RunUsage
from workers.provenance.repository.runs import Run


class RunRequest(BaseModel):
    """A spec line (DESIGN §7); only `spec` is required."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"spec": "Write slugify(text): lower case, words joined by '-'.", "team": "consensus"}
            ]
        },
    )

    spec: str = Field(description="what the code should do, in words; at most 1 MiB")
    id: str | None = Field(default=None, min_length=1, max_length=200, description="your own name for it")
    team: str = Field(default="consensus", max_length=100)
    files: dict[str, str] = Field(default_factory=dict, description="existing code, by relative path")
    tests: dict[str, str] = Field(default_factory=dict, description="existing tests, by relative path")
    priority: int = Field(default=0, ge=0, le=9, description="0 is served first")
    metadata: dict[str, Any] = Field(default_factory=dict, description="kept and given back, never read")


class UsageOut(BaseModel):
    """Tokens as billed, summed over the run's call rows."""

    calls: int
    failed_calls: int
    input_tokens: int
    output_tokens: int
    has_estimates: bool
    seats: list[dict[str, Any]]

    @classmethod
    def of(cls, usage: RunUsage) -> UsageOut:
        return cls(
            calls=usage.calls,
            failed_calls=usage.failed_calls,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            has_estimates=usage.has_estimates,
            seats=[
                {
                    "stage": seat.stage,
                    "seat": seat.seat,
                    "provider": seat.provider,
                    "model": seat.model,
                    "calls": seat.calls,
                    "input_tokens": seat.input_tokens,
                    "output_tokens": seat.output_tokens,
                    "seconds": seat.seconds,
                }
                for seat in usage.seats
            ],
        )


class RunSummary(BaseModel):
    """A run as lists show it. `simulated`: at least one reply came from the simulator and said so."""

    id: str
    external_id: str | None
    team: str
    state: str
    outcome: str | None
    round: int
    priority: int
    simulated: bool
    metadata: dict[str, Any]
    created_at: dt.datetime
    started_at: dt.datetime | None
    finished_at: dt.datetime | None

    @classmethod
    def values_of(cls, run: Run) -> dict[str, Any]:
        return {
            "id": run.run_id,
            "external_id": run.external_id,
            "team": run.team,
            "state": run.state,
            "outcome": run.outcome,
            "round": run.round,
            "priority": run.priority,
            "simulated": run.is_simulated,
            "metadata": run.metadata,
            "created_at": run.created_at,
            "started_at": run.started_at,
            "finished_at": run.finished_at,
        }

    @classmethod
    def of(cls, run: Run) -> RunSummary:
        return cls(**cls.values_of(run))


class RunDetail(RunSummary):
    """A run with its verdict, once there is one."""

    verdict: dict[str, Any] | None
    usage: UsageOut


class RunPage(BaseModel):
    runs: list[RunSummary]
    next_cursor: str | None = Field(description="give it as `cursor` for the next page; null on the last")


class EventOut(BaseModel):
    """One entry of the ledger. `payload` is null once redacted."""

    seq: int
    kind: str
    at: dt.datetime
    payload: Any
    payload_digest: str
    previous_hash: str
    hash: str

    @classmethod
    def of(cls, event: Event) -> EventOut:
        return cls(
            seq=event.seq,
            kind=event.kind,
            at=event.at,
            payload=event.payload,
            payload_digest=event.payload_digest,
            previous_hash=event.previous_hash,
            hash=event.hash,
        )


class ProvenanceOut(BaseModel):
    """A run's whole ledger and whether its chain holds."""

    run_id: str
    head: str
    verified: bool
    problem: str | None
    events: list[EventOut]


class TeamOut(BaseModel):
    """A team and where it was read from; `error` instead of `team` when its file is wrong."""

    name: str
    description: str
    path: str
    team: dict[str, Any]
