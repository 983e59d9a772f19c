"""What is kept of scored runs, as texts and back: entries, rows to the last digit, and assessments."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

from workers.agentlens.assess import Assessment, ProfileScore
from workers.agentlens.cohort import Row
from workers.agentlens.duplicates import Original
from workers.agentlens.mechanisms import Mechanism
from workers.agentlens.tier import Tier
from workers.agentlens.waste import Waste
from workers.scoring.spool import Entry, Place


def row_text(row: Row) -> str:
    """A row as JSON; Python writes a number with as many digits as it takes to read the same one."""
    return json.dumps({field.name: getattr(row, field.name) for field in dataclasses.fields(row)})


def row_of(text: str) -> Row:
    """The row of a text."""
    values = json.loads(text)
    tiers = {name: None if tier is None else Tier(tier) for name, tier in values["tiers"].items()}
    mechanism = None if values["mechanism"] is None else Mechanism(values["mechanism"])
    return Row(**{**values, "tiers": tiers, "mechanism": mechanism})


def entry_document(entry: Entry, reading_id: str) -> dict[str, Any]:
    """An entry as it is kept with its scoring."""
    document = {
        name: getattr(entry, name)
        for name in (
            "number",
            "position",
            "path",
            "trajectory_id",
            "problem",
            "model",
            "outcome",
            "sequence",
            "acts",
        )
    }
    return document | {
        "content": entry.content.hex(),
        "reading": reading_id,
        "original": None if entry.original is None else dataclasses.asdict(entry.original),
    }


def entry_of(document: Mapping[str, Any], place: Place) -> Entry:
    """The entry of a document."""
    values = {name: value for name, value in document.items() if name != "reading"}
    original = values["original"]
    values |= {
        "content": bytes.fromhex(values["content"]),
        "original": None if original is None else Original(**original),
        "is_labelled": False,
        "place": place,
    }
    return Entry(**values)


def assessment_of(document: Mapping[str, Any]) -> Assessment:
    """As much of an assessment as training data is made of: scores, tiers and wasted steps."""
    waste = document["waste"]
    scores = {
        name: ProfileScore(
            score=found["score"],
            tier=None if found["tier"] is None else Tier(found["tier"]),
            signals={},
            spread=found["spread"],
        )
        for name, found in document["scores"].items()
    }
    same = ("trajectory_id", "path", "problem", "model", "outcome", "steps", "profile", "tokens", "cost_usd")
    return Assessment(
        **{name: document[name] for name in same},
        scores=scores,
        mechanism=None,
        divergence=None,
        matched=(),
        waste=Waste(
            steps=tuple(waste["steps"]), severity=waste["severity"], tokens=waste["tokens"], findings=()
        ),
        disorder=(),
        intents=(),
        rules=(),
        evidence={},
        reference=None,
        warnings=(),
    )
