"""Request and response bodies. Pydantic stops here: routers hand plain values on."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from api.known_fields import KnownFields
from workers.governor.base import Limits, Snapshot
from workers.provenance.ledger import Event
from workers.provenance.repository.accounts import Published
from workers.provenance.repository.deliveries import DeliveryStatus
from workers.provenance.repository.runs import Run
from workers.provenance.repository.usage import RunUsage, orphan_data, usd_number


class SeatUsageOut(BaseModel):
    """One seat's calls to one model. `cost_usd` is null where no price is known."""

    stage: str
    seat: str
    provider: str
    model: str
    calls: int
    input_tokens: int
    output_tokens: int
    has_estimates: bool
    cost_usd: float | None
    seconds: float


class OrphanedCallOut(BaseModel):
    """A call whose worker died before a reply was on record; it is billed at its worst case."""

    call_id: str
    stage: str
    seat: str
    provider: str
    model: str
    sent_at: dt.datetime
    input_tokens: int
    output_tokens: int
    cost_usd: float | None


class UsageOut(BaseModel):
    """Tokens as billed, summed over the run's call rows, and what they cost.

    `cost_usd` leaves out the `unpriced_calls`; it is null when no call has a price. `reserved_…` is held back
    for calls under way. `has_estimates`: a provider did not say what a call used, or nobody heard it.
    """

    calls: int
    failed_calls: int
    unpriced_calls: int
    input_tokens: int
    output_tokens: int
    cached_input_tokens: int
    cache_write_input_tokens: int
    has_estimates: bool
    cost_usd: float | None
    reserved_usd: float | None
    reserved_tokens: int
    orphaned: list[OrphanedCallOut]
    seats: list[SeatUsageOut]

    @classmethod
    def of(cls, usage: RunUsage) -> UsageOut:
        return cls(
            calls=usage.calls,
            failed_calls=usage.failed_calls,
            unpriced_calls=usage.unpriced_calls,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_input_tokens=usage.cached_input_tokens,
            cache_write_input_tokens=usage.cache_write_input_tokens,
            has_estimates=usage.has_estimates,
            cost_usd=usd_number(usage.cost_usd),
            reserved_usd=usd_number(usage.reserved.usd),
            reserved_tokens=usage.reserved.tokens,
            orphaned=[OrphanedCallOut(**orphan_data(call)) for call in usage.orphaned],
            seats=[
                SeatUsageOut(**{**dataclasses.asdict(seat), "cost_usd": usd_number(seat.cost_usd)})
                for seat in usage.seats
            ],
        )


class FiguresOut(BaseModel):
    """What is likely, and the most that one call a seat can come to; money is null where no price is known."""

    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    worst_input_tokens: int
    worst_output_tokens: int
    worst_cost_usd: float | None


class SeatEstimateOut(FiguresOut):
    """One call of one seat to the first model of its chain."""

    stage: str
    seat: str
    provider: str
    model: str


class EstimateOut(BaseModel):
    """What a run will cost: one call a seat. Asking again is not in it, although a budget counts it.

    `simulated`: the models are the simulator's, and so are their prices. `fits_budget`: the worst case stays
    within the budget; null without one.
    """

    dry_run: Literal[True]
    team: str
    simulated: bool
    seats: list[SeatEstimateOut]
    total: FiguresOut
    unpriced: list[str] = Field(description="models whose price nobody knows, as provider/model")
    budget_usd: float | None
    budget_tokens: int | None
    fits_budget: bool | None


class RunSummary(BaseModel):
    """A run as lists show it. `simulated`: at least one reply came from the simulator and said so."""

    id: str
    batch: str | None = Field(description="the batch it belongs to")
    line: int | None = Field(description="its line in the batch, from 1")
    external_id: str | None
    team: str
    state: str
    outcome: str | None
    round: int
    priority: int
    simulated: bool
    budget_usd: float | None
    budget_tokens: int | None
    metadata: dict[str, Any]
    created_at: dt.datetime
    started_at: dt.datetime | None
    finished_at: dt.datetime | None

    @classmethod
    def values_of(cls, run: Run) -> dict[str, Any]:
        return {
            "id": run.run_id,
            "batch": run.batch_id,
            "line": run.position,
            "external_id": run.external_id,
            "team": run.team,
            "state": run.state,
            "outcome": run.outcome,
            "round": run.round,
            "priority": run.priority,
            "simulated": run.is_simulated,
            "budget_usd": usd_number(run.budget_usd),
            "budget_tokens": run.budget_tokens,
            "metadata": run.metadata,
            "created_at": run.created_at,
            "started_at": run.started_at,
            "finished_at": run.finished_at,
        }

    @classmethod
    def of(cls, run: Run) -> RunSummary:
        return cls(**cls.values_of(run))


class WebhookOut(BaseModel):
    """How far the telling of an event has come. The URL is not repeated: its path may be a secret."""

    event: str
    state: str = Field(description="pending, delivered or failed")
    attempts: int
    last_status: int | None = Field(description="HTTP status of the last answer; null where there was none")
    last_error: str | None
    next_at: dt.datetime | None = Field(description="when it is tried next; null once it has ended")
    ended_at: dt.datetime | None

    @classmethod
    def of(cls, status: DeliveryStatus) -> WebhookOut:
        return cls.model_validate(status, from_attributes=True)


class RunDetail(RunSummary):
    """A run with its verdict, once there is one."""

    verdict: dict[str, Any] | None
    usage: UsageOut
    webhook: WebhookOut | None = Field(
        description="null until there is something to tell, or without a webhook_url"
    )
    gone: str | None = Field(
        description="what `consensus prune` dropped of it, in a sentence; null where nothing is missing"
    )


class RunPage(BaseModel):
    runs: list[RunSummary]
    next_cursor: str | None = Field(description="give it as `cursor` for the next page; null on the last")


class EventOut(BaseModel):
    """One entry of the ledger. `payload` is null once redacted or pruned."""

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
    """A run's whole ledger, whether its chain holds, and the team it was submitted with (null once redacted)."""

    run_id: str
    team: dict[str, Any] | None
    head: str
    verified: bool
    problem: str | None
    signed_by: list[str] = Field(
        description="ids of the keys that signed its end; none: unsigned. The export can be verified against a key"
    )
    gone: str | None = Field(description="what `consensus prune` dropped of it, in a sentence")
    events: list[EventOut]


class TeamOut(BaseModel):
    """A team and where it was read from; `error` instead of `team` when its file is wrong."""

    name: str
    description: str
    path: str
    team: dict[str, Any] | None
    error: str | None = None


class ProviderStateOut(BaseModel):
    """How an account is doing, as its workers found out."""

    state: str = Field(description="good, low, or the kind of error that opened the breaker")
    reason: str
    since: dt.datetime
    until: dt.datetime | None = Field(description="when it is tried again by itself")

    @classmethod
    def of(cls, entry: Published) -> ProviderStateOut:
        return cls(state=entry.state.state, reason=entry.state.reason, since=entry.since, until=entry.until)


class ProviderOut(BaseModel):
    name: str
    on: bool = Field(description="whether its key or address is set where the API runs")
    wire: str
    address: str
    cheap_model: str | None = Field(description="asked first while quota is low, by everyone but the lead")
    account: ProviderStateOut | None = Field(description="null: no worker has noticed anything yet")


class LimitsIn(KnownFields):
    """Limits of one provider's family. Null or left out: no such limit."""

    # Strict: `true` is no request a minute.
    model_config = ConfigDict(extra="forbid", strict=True)

    requests_per_minute: float | None = Field(default=None, gt=0, le=1e9, allow_inf_nan=False)
    input_tokens_per_minute: float | None = Field(default=None, gt=0, le=1e12, allow_inf_nan=False)
    output_tokens_per_minute: float | None = Field(default=None, gt=0, le=1e12, allow_inf_nan=False)
    requests_per_day: int | None = Field(default=None, ge=1, le=2**31 - 1)
    concurrency: int | None = Field(default=None, ge=1, le=100_000)


class LiveOut(BaseModel):
    """What is going on in one bucket at this moment."""

    running: int
    waiting_interactive: int
    waiting_batch: int
    blocked_seconds: float
    adaptive_concurrency: float | None = Field(description="below `concurrency` after refusals; grows back")
    requests_today: int


class LimitsOut(LimitsIn):
    provider: str
    family: str = Field(description="* stands for every family without limits of its own")
    is_set: bool = Field(description="an operator set them; otherwise they are the defaults")
    live: LiveOut | None

    @classmethod
    def of(
        cls, provider: str, family: str, limits: Limits, *, is_set: bool, live: Snapshot | None
    ) -> LimitsOut:
        return cls(
            provider=provider,
            family=family,
            is_set=is_set,
            requests_per_minute=limits.requests_per_minute,
            input_tokens_per_minute=limits.input_tokens_per_minute,
            output_tokens_per_minute=limits.output_tokens_per_minute,
            requests_per_day=limits.requests_per_day,
            concurrency=limits.concurrency,
            live=None if live is None else LiveOut.model_validate(live, from_attributes=True),
        )
