"""Builders that take what a test cares about and make the rest consistent."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from decimal import Decimal
from typing import Any

from workers.core.artefact import Span
from workers.core.budget import Price, Rates
from workers.core.claim import Claim
from workers.core.equipment import McpServer
from workers.core.finding import Evidence, Finding, Review, Severity
from workers.core.team import EquippedTeam
from workers.tools.toolbox import OpenTools

#: Ten numbered lines that findings can quote.
CODE = "".join(f"line_{number} = {number}\n" for number in range(1, 11))
FILES = {"a.py": CODE}


def make_finding(
    claim: str = "the sum overflows for large input",
    *,
    reviewer: str = "rigor",
    line: int = 3,
    severity: Severity = Severity.MEDIUM,
    number: int = 1,
    **changes: Any,
) -> Finding:
    """A finding that the artefact `FILES` bears out, unless `changes` say otherwise."""
    values: dict[str, Any] = {
        "finding_id": f"{reviewer}/1/{number}",
        "reviewer": reviewer,
        "pass_number": 1,
        "claim": claim,
        "category": "correctness",
        "severity": severity,
        "span": Span(path="a.py", start=line, end=line),
        "evidence": (Evidence(path="a.py", line=line, quote=f"line_{line} = {line}"),),
    }
    return Finding(**{**values, **changes})


def make_claim(claim_id: str = "C1", *, flagged_by: tuple[str, ...] = ("left",), **changes: Any) -> Claim:
    """A claim about line 3 of `FILES`, each flagger of a family of its own."""
    values: dict[str, Any] = {
        "text": "the sum overflows for large input",
        "category": "correctness",
        "severity": Severity.MEDIUM,
        "span": Span(path="a.py", start=3, end=3),
        "finding_ids": tuple(f"{name}/1/1" for name in flagged_by),
        "families": tuple(f"family-{name}" for name in flagged_by),
        "agreement": round(len(flagged_by) / 3, 3),
        "weighted_agreement": round(len(flagged_by) / 3, 3),
    }
    return Claim(claim_id=claim_id, flagged_by=flagged_by, **{**values, **changes})


def make_review(reviewer: str, *findings: Finding, family: str | None = None) -> Review:
    """A review; each reviewer is of a family of its own unless told otherwise."""
    family = family or f"family-{reviewer}"
    return Review(reviewer=reviewer, model=f"{family}/model", family=family, findings=findings)


def team_data(**changes: Any) -> dict[str, Any]:
    """A small valid team as plain data: two reviewers of two families."""

    def seat(model: str) -> dict[str, Any]:
        return {"models": [f"local/{model}"], "timeout_seconds": 5, "max_tokens": 256}

    data: dict[str, Any] = {
        "name": "small",
        "description": "a team for tests",
        "coder": seat("alder-1"),
        "reviewers": {"left": seat("birch-1"), "right": seat("cedar-1")},
        "consensus": seat("birch-2"),
        "lead": seat("cedar-2"),
        "policy": {
            "quorum": {"heads": 2, "families": 2},
            "retries": 1,
            # Tests that care about refuters and the gate turn them on.
            "refute": False,
            "gate": "off",
        },
    }
    return {**data, **changes}


def make_team(**changes: Any) -> EquippedTeam:
    return EquippedTeam.model_validate(team_data(**changes))


def make_price(input_usd: str, output_usd: str, **cache: str) -> Price:
    """US dollars per million tokens."""
    given = {"input_usd": input_usd, "output_usd": output_usd, **cache}
    return Price(rates=Rates(**{name: Decimal(value) for name, value in given.items()}))


class NoToolbox:
    """For teams without tool servers; opening it is a fault."""

    def open(self, servers: Sequence[McpServer]) -> AbstractContextManager[OpenTools]:
        raise AssertionError("no team here has tools")
