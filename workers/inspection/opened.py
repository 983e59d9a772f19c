"""A run with all its texts, what the scorer said of it, and the reference that it was held against."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from workers.agentlens.assess import Run, pool
from workers.agentlens.reference import Reference
from workers.agentlens.settings import ScoringSettings
from workers.inspection.address import RunAddress


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """A step's likeness to a node of the reference. is_on_way: the walk through the tree goes by this node here."""

    node: int
    confidence: float
    is_on_way: bool


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Against:
    """A reference, and by state index the node that each step is most like, where it is like any."""

    tree: Reference
    held: Mapping[int, Held]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OpenedRun:
    """run: labelled, with observations as long as the scorer sees them. observations: whole. document: its assessment
    as in reports, None for a run that no scoring holds. scoring_id, profile: of that scoring. note: why something is
    not shown."""

    address: RunAddress
    file_id: str | None
    run: Run
    observations: Sequence[str]
    document: Mapping[str, Any] | None = None
    scoring_id: str | None = None
    against: Against | None = None
    note: str | None = None

    @property
    def weight(self) -> int:
        """Characters of its texts, about what it takes in memory."""
        states = self.run.trajectory.states
        texts = sum(map(len, self.observations)) + sum(len(state.thought) for state in states)
        edits = sum(len(edit.old) + len(edit.new) for state in states for edit in state.edits)
        return texts + edits + 4096 * (1 + len(states))


def hold_against(
    run: Run, donors: Sequence[Run], settings: ScoringSettings, document: Mapping[str, Any]
) -> Against | None:
    """The tree of draw 0 for a run, as it was scored, with the confidence of each step; None where it cannot be built,
    or is not the one that the assessment speaks of (other rules made that)."""
    used = document["reference"]
    references = pool(donors, settings)
    forest = references.forest(run.trace)
    if used is None or forest is None:
        return None
    tree = forest.trees[0]
    if len(tree.reference) != used["nodes"]:
        return None
    compared = references.compare([run.trace])
    table = compared.table.take(compared.rows[0], axis=0).take(tree.columns, axis=1)
    way = {pair["step"]: pair["node"] for pair in document["matched"]}
    held: dict[int, Held] = {}
    for position, step in enumerate(run.trace.acting):
        node = way.get(step, int(np.argmax(table[position])) if table.shape[1] else 0)
        sure = float(table[position, node])
        if sure > 0:
            held[step] = Held(node=node, confidence=round(sure, 4), is_on_way=step in way)
    return Against(tree=tree.reference, held=held)
