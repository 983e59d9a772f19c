"""What `POST /v1/runs` takes: a spec line, checked field by field."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

from pydantic import ConfigDict, Field, field_validator

from api.known_fields import KnownFields
from workers.address_guard import MAX_URL_CHARACTERS
from workers.core.budget import MOST_BUDGET_TOKENS, MOST_USD

#: Metadata nested deeper than this is an accident, and would be one for whoever reads it.
MAX_METADATA_DEPTH = 32


class LeftOutIn(KnownFields):
    """A file that was not sent, and why."""

    model_config = ConfigDict(extra="forbid")

    path: str = Field(min_length=1, max_length=255)
    reason: str = Field(min_length=1, max_length=200)


class RunRequest(KnownFields):
    """A spec line (DESIGN §7); only `spec` is required."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {"spec": "Write slugify(text): lower case, words joined by '-'.", "team": "consensus"}
            ]
        },
    )

    spec: str = Field(
        description="what the code should do, in words; at most 1 MiB",
        json_schema_extra={"minLength": 1, "pattern": r"\S"},
    )
    id: str | None = Field(default=None, min_length=1, max_length=200, description="your own name for it")
    team: str = Field(default="consensus", max_length=100)
    files: dict[str, str] = Field(default_factory=dict, description="existing code, by relative path")
    tests: dict[str, str] = Field(default_factory=dict, description="existing tests, by relative path")
    review: bool = Field(
        default=False, description="judge `files` as they are: no coder is asked, the panel reviews them"
    )
    diff: str | None = Field(
        default=None, description="a unified diff to judge instead of `files`; implies `review`"
    )
    left_out: list[LeftOutIn] = Field(
        default_factory=list, description="with `review`: files that were not sent, for the coverage receipt"
    )
    sarif: dict[str, Any] | None = Field(
        default=None, description="alarms of a scanner about the code to judge, SARIF 2.1.0; implies `review`"
    )
    priority: int = Field(default=0, ge=0, le=9, description="0 is served first")
    metadata: dict[str, Any] = Field(default_factory=dict, description="kept and given back, never read")
    budget_usd: Decimal | None = Field(
        default=None,
        gt=0,
        le=MOST_USD,
        decimal_places=6,
        description="the run spends no more US dollars than this, retries included",
    )
    budget_tokens: int | None = Field(
        default=None,
        gt=0,
        le=MOST_BUDGET_TOKENS,
        description="the run uses no more tokens than this, in and out together",
    )
    webhook_url: str | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_URL_CHARACTERS,
        description="told by a signed POST when the run has ended",
    )
    dry_run: bool = Field(default=False, description="only say what it will cost; nothing is sent or stored")

    @field_validator("id")
    @classmethod
    def _id_is_printable(cls, value: str | None) -> str | None:
        if value is not None and not value.isprintable():
            raise ValueError("holds control characters; use printable ones")
        return value

    @field_validator("left_out")
    @classmethod
    def _left_out_is_printable(cls, value: list[LeftOutIn]) -> list[LeftOutIn]:
        if not all(item.path.isprintable() and item.reason.isprintable() for item in value):
            raise ValueError("holds control characters; use printable ones")
        return value

    @field_validator("diff")
    @classmethod
    def _diff_can_be_kept(cls, value: str | None) -> str | None:
        problem = None if value is None else _keeping_problem({"diff": value})
        if problem:
            raise ValueError(problem)
        return value

    @field_validator("files", "tests", "metadata")
    @classmethod
    def _can_be_kept(cls, value: dict[str, Any]) -> dict[str, Any]:
        problem = _keeping_problem(value)
        if problem:
            raise ValueError(problem)
        return value

    @property
    def is_review(self) -> bool:
        """Whether the code is judged as it is."""
        return self.review or self.diff is not None or self.sarif is not None


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
