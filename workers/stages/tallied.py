"""A tally as the consensus stage leaves it in the ledger, and back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from workers.core.artefact import Span
from workers.core.claim import Claim
from workers.core.consensus import Tally, Unsupported
from workers.core.finding import Severity
from workers.core.weights import Record


def tally_data(counted: Tally) -> dict[str, Any]:
    """A tally as plain data. Of new reviewers there are no records to tell."""
    records = {name: dataclasses.asdict(record) for name, record in sorted(counted.records.items())}
    return {
        "claims": [
            {**dataclasses.asdict(claim), "severity": claim.severity.word} for claim in counted.claims
        ],
        "unsupported": [dataclasses.asdict(item) for item in counted.unsupported],
        "reviewers": list(counted.reviewers),
        "weights": dict(counted.weights),
        **({"records": records} if records else {}),
    }


def tally_of(result: Mapping[str, Any]) -> Tally:
    """The tally back from the stage's result."""
    return Tally(
        claims=tuple(
            Claim(
                **{
                    **item,
                    "severity": Severity[item["severity"].upper()],
                    "span": Span(**item["span"]),
                    "finding_ids": tuple(item["finding_ids"]),
                    "flagged_by": tuple(item["flagged_by"]),
                    "families": tuple(item["families"]),
                }
            )
            for item in result["claims"]
        ),
        unsupported=tuple(Unsupported(**item) for item in result["unsupported"]),
        reviewers=tuple(result["reviewers"]),
        weights=result["weights"],
        records={name: Record(**item) for name, item in result.get("records", {}).items()},
    )
