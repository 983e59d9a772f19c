"""A cohort's rows as text and back, to the last digit."""

from __future__ import annotations

import dataclasses
import json

from workers.agentlens.cohort import Row
from workers.agentlens.mechanisms import Mechanism
from workers.agentlens.tier import Tier


def row_text(row: Row) -> str:
    """A row as JSON; Python writes a number with as many digits as it takes to read the same one."""
    return json.dumps({field.name: getattr(row, field.name) for field in dataclasses.fields(row)})


def row_of(text: str) -> Row:
    """The row of a text."""
    values = json.loads(text)
    tiers = {name: None if tier is None else Tier(tier) for name, tier in values["tiers"].items()}
    mechanism = None if values["mechanism"] is None else Mechanism(values["mechanism"])
    return Row(**{**values, "tiers": tiers, "mechanism": mechanism})
