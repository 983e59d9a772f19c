"""What `POST /v1/batches` takes besides lines, and what is said of batches."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from api.known_fields import KnownFields
from api.schemas import WebhookOut
from workers.address_guard import MAX_URL_CHARACTERS
from workers.core.batch import runs_per_minute, seconds_left
from workers.core.budget import MOST_BUDGET_TOKENS, MOST_USD, Budget
from workers.provenance.repository.batches import Batch, Count, Failure, Spending
from workers.provenance.repository.deliveries import DeliveryStatus
from workers.provenance.repository.usage import usd_number


class BatchOptions(KnownFields):
    """How the lines of a batch are to be run."""

    model_config = ConfigDict(extra="forbid")

    team: str | None = Field(
        default=None, max_length=100, description="for lines that name none; left out: consensus"
    )
    name: str | None = Field(default=None, min_length=1, max_length=200, description="to find it again")
    priority: int = Field(default=0, ge=0, le=9, description="batches with a lower number go first")
    budget_usd: Decimal | None = Field(
        default=None,
        gt=0,
        le=MOST_USD,
        decimal_places=6,
        description="all its runs together spend no more US dollars than this",
    )
    budget_tokens: int | None = Field(
        default=None,
        gt=0,
        le=MOST_BUDGET_TOKENS,
        description="all its runs together use no more tokens than this",
    )
    concurrency: int | None = Field(
        default=None, ge=1, le=100_000, description="the most of its runs under way at once"
    )
    skip_bad: bool = Field(
        default=False, description="leave out lines that cannot be used, instead of refusing the batch"
    )
    webhook_url: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_URL_CHARACTERS,
        description="told by a signed POST when the batch was paused or has ended",
    )

    @field_validator("name")
    @classmethod
    def _name_is_printable(cls, value: str | None) -> str | None:
        if value is not None and not value.isprintable():
            raise ValueError("holds control characters; use printable ones")
        return value

    @property
    def budget(self) -> Budget:
        return Budget(usd=self.budget_usd, tokens=self.budget_tokens)


class BatchRequest(BatchOptions):
    """A batch as one JSON object. Each of `specs` is what `POST /v1/runs` takes, without `dry_run`."""

    specs: list[Any] = Field(description="one object a run", json_schema_extra={"minItems": 1})


class BatchSummary(BaseModel):
    """A batch as lists show it. `runs`: how many it has; `duplicates`: lines that said the same as an earlier one and
    run once; `skipped`: lines that were left out because they cannot be used."""

    id: str
    name: str | None
    state: str
    pause_cause: str | None = Field(description="of a paused one: user, or budget when that is used up")
    priority: int
    concurrency: int | None
    budget_usd: float | None
    budget_tokens: int | None
    runs: int
    duplicates: int
    skipped: int
    created_at: dt.datetime
    started_at: dt.datetime | None
    finished_at: dt.datetime | None

    @classmethod
    def values_of(cls, batch: Batch) -> dict[str, Any]:
        return {
            "id": batch.batch_id,
            "name": batch.name,
            "state": batch.state,
            "pause_cause": batch.pause_cause,
            "priority": batch.priority,
            "concurrency": batch.concurrency,
            "budget_usd": usd_number(batch.budget_usd),
            "budget_tokens": batch.budget_tokens,
            "runs": batch.run_count,
            "duplicates": batch.duplicate_count,
            "skipped": batch.skipped_count,
            "created_at": batch.created_at,
            "started_at": batch.started_at,
            "finished_at": batch.finished_at,
        }

    @classmethod
    def of(cls, batch: Batch) -> BatchSummary:
        return cls(**cls.values_of(batch))


class ProgressOut(BaseModel):
    """Where the runs are. `waiting`: not sent yet; `running`: sent and not ended."""

    waiting: int
    running: int
    accepted: int
    rejected: int
    degraded: int
    cancelled: int


class FailureOut(BaseModel):
    """In how many degraded runs a seat of this stage gave up for this cause."""

    stage: str
    cause: str
    runs: int


class BatchUsageOut(BaseModel):
    """What the calls of all its runs have used. `cost_usd` leaves out the `unpriced_calls`; it is null when no call
    has a price."""

    calls: int
    unpriced_calls: int
    input_tokens: int
    output_tokens: int
    has_estimates: bool
    cost_usd: float | None


class SkippedLineOut(BaseModel):
    line: int
    problem: str


class BatchDetail(BatchSummary):
    """A batch and how far it has come, counted at this moment. `simulated`: at least one reply came from the simulator
    and said so."""

    simulated: bool
    progress: ProgressOut
    failures: list[FailureOut] = Field(description="the most frequent causes first")
    usage: BatchUsageOut
    runs_per_minute: float | None = Field(
        description="over the last five minutes; of an ended batch, over all"
    )
    seconds_left: float | None = Field(description="at that rate; null where there is no telling")
    waiting: str | None = Field(
        description="`providers` while no model provider answers and nothing is sent; it goes on by itself"
    )
    skipped_lines: list[SkippedLineOut] = Field(description="the first thousand of the lines left out")
    webhooks: list[WebhookOut] = Field(
        description="what its webhook_url was or is told of it; each run has its own"
    )

    @classmethod
    def of_parts(
        cls,
        batch: Batch,
        count: Count,
        *,
        failures: list[Failure],
        spending: Spending,
        skipped_lines: list[dict[str, Any]],
        waiting: str | None,
        told: list[DeliveryStatus],
    ) -> BatchDetail:
        rate = runs_per_minute(
            finished=count.progress.finished,
            finished_lately=count.finished_lately,
            started_at=batch.started_at,
            finished_at=batch.finished_at,
            now=count.at,
        )
        return cls(
            **cls.values_of(batch),
            simulated=count.is_simulated,
            progress=ProgressOut.model_validate(count.progress, from_attributes=True),
            failures=[FailureOut.model_validate(failure, from_attributes=True) for failure in failures],
            usage=BatchUsageOut(
                calls=spending.calls,
                unpriced_calls=spending.unpriced_calls,
                input_tokens=spending.input_tokens,
                output_tokens=spending.output_tokens,
                has_estimates=spending.has_estimates,
                cost_usd=usd_number(spending.cost_usd),
            ),
            runs_per_minute=None if rate is None else round(rate, 2),
            seconds_left=_left(batch, count, rate),
            waiting=waiting,
            skipped_lines=[SkippedLineOut(**line) for line in skipped_lines],
            webhooks=[WebhookOut.of(status) for status in told],
        )


def _left(batch: Batch, count: Count, rate: float | None) -> float | None:
    """A paused batch stands still, however fast it was."""
    left = seconds_left(count.progress.left, rate)
    if left is None or (left and batch.state != "running"):
        return None
    return round(left, 1)


class BatchPage(BaseModel):
    batches: list[BatchSummary]
    next_cursor: str | None = Field(description="give it as `cursor` for the next page; null on the last")
