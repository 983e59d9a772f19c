"""Request and response bodies. Pydantic stops here: routers hand plain values on."""

from __future__ import annotations

import datetime as dt
import difflib
import math
import re
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from workers.provenance.ledger import Event
from workers.provenance.repository.runs import Run
from workers.provenance.repository.usage import RunUsage

#: Metadata nested deeper than this is an accident, and would be one for whoever reads it.
MAX_METADATA_DEPTH = 32


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

    @model_validator(mode="before")
    @classmethod
    def _fields_are_known(cls, value: object) -> object:
        unknown = [name for name in value if name not in cls.model_fields] if isinstance(value, dict) else []
        if unknown:
            close = difflib.get_close_matches(str(unknown[0]), cls.model_fields, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ";"
            raise ValueError(
                f"there is no field {str(unknown[0])[:80]!r}{hint} allowed are {', '.join(cls.model_fields)}"
            )
        return value

    @field_validator("id")
    @classmethod
    def _id_is_printable(cls, value: str | None) -> str | None:
        if value is not None and not value.isprintable():
            raise ValueError("holds control characters; use printable ones")
        return value

    @field_validator("files", "tests", "metadata")
    @classmethod
    def _can_be_kept(cls, value: dict[str, Any]) -> dict[str, Any]:
        problem = _keeping_problem(value)
        if problem:
            raise ValueError(problem)
        return value


#: NUL, which PostgreSQL's text and JSON refuse, and lone surrogates, which UTF-8 does not have.
_UNKEEPABLE = re.compile("[\x00\ud800-\udfff]")


def _keeping_problem(given: dict[str, Any]) -> str | None:
    """Why the database could not give this JSON back as it came, or None."""
    waiting: list[tuple[Any, int]] = [(given, 1)]
    while waiting:
        value, depth = waiting.pop()
        if depth > MAX_METADATA_DEPTH:
            return f"nests deeper than {MAX_METADATA_DEPTH} levels"
        if isinstance(value, dict):
            waiting += [(part, depth + 1) for pair in value.items() for part in pair]
        elif isinstance(value, list):
            waiting += [(part, depth + 1) for part in value]
        elif isinstance(value, float) and not math.isfinite(value):
            return "holds NaN or an infinite number, which JSON does not have"
        elif isinstance(value, str) and _UNKEEPABLE.search(value):
            return "holds NUL or a lone surrogate, which no text may"
    return None


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
    team: dict[str, Any] | None
    error: str | None = None
