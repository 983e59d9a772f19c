"""Why a passing run is Lucky: five mechanisms, first hit wins (AGENTLENS §8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import TypeVar

from workers.agentlens.settings import ScoringSettings
from workers.agentlens.trace import Trace
from workers.agentlens.trajectory import Intent
from workers.agentlens.waste import Waste

_Item = TypeVar("_Item")


class Mechanism(StrEnum):
    """The published classes."""

    MINIMAL_UNVERIFIED = "C1"
    BRUTE_FORCE = "C2"
    INCOMPLETE = "C3"
    EXCESSIVE_EXPLORATION = "C4"
    DIVERGENT_BUT_VALID = "C5"


MEANING = {
    Mechanism.MINIMAL_UNVERIFIED: "minimal and unverified: a short run without waste and without any check",
    Mechanism.BRUTE_FORCE: "brute-force convergence: much of the run is waste",
    Mechanism.INCOMPLETE: "incomplete implementation: places that the other solutions change are untouched",
    Mechanism.EXCESSIVE_EXPLORATION: "excessive exploration: a long, unfocused run",
    Mechanism.DIVERGENT_BUT_VALID: "divergent but valid: another route that the references do not know",
}


def mechanism(
    trace: Trace, waste: Waste, donors: Sequence[Trace], settings: ScoringSettings
) -> Mechanism | None:
    """The mechanism of a Lucky run, in the order C1, C2, C4, C3, C5. `donors` are those of draw 0; without
    any, C3 and C5 cannot be told apart and the answer is None."""
    if len(trace.states) <= settings.minimal_steps and not waste.steps and Intent.V not in trace.intents:
        return Mechanism.MINIMAL_UNVERIFIED
    if waste.severity >= settings.brute_force_severity:
        return Mechanism.BRUTE_FORCE
    if len(trace.states) >= settings.excessive_steps:
        return Mechanism.EXCESSIVE_EXPLORATION
    if not donors:
        return None
    if is_incomplete(trace, donors, settings.consensus_share):
        return Mechanism.INCOMPLETE
    return Mechanism.DIVERGENT_BUT_VALID


def is_incomplete(trace: Trace, donors: Sequence[Trace], share: float) -> bool:
    """Whether a consensus file is untouched, or less than half of the consensus scopes are touched. Consensus
    is what at least `share` of the donors edited."""
    files = _consensus([donor.edited_files for donor in donors], share)
    if files - trace.edited_files:
        return True
    scopes = _consensus([frozenset(e for e in donor.edited if e[1]) for donor in donors], share)
    return len(scopes & trace.edited) < len(scopes) / 2


def _consensus(edited: Sequence[frozenset[_Item]], share: float) -> frozenset[_Item]:
    counts = Counter(item for items in edited for item in items)
    return frozenset(item for item, count in counts.items() if count >= share * len(edited))
