"""A claim: findings that say the same thing, and the states it passes through (PANEL §1, §3)."""

from __future__ import annotations

import dataclasses
from enum import StrEnum

from workers.core.artefact import Span
from workers.core.finding import Severity

#: From this severity on a claim goes to the refuter and needs a reproduction (PANEL §3, §4).
GATED_SEVERITY = Severity.HIGH


class ClaimState(StrEnum):
    """Where a claim is. `docs/states.md` draws `CLAIM_TRANSITIONS`."""

    PROPOSED = "proposed"
    CANDIDATE = "candidate"
    CONTESTED = "contested"
    KILLED = "killed"
    PROMOTED = "promoted"
    REPRODUCED = "reproduced"
    NOT_REPRODUCED = "not_reproduced"
    UNPROVABLE = "unprovable"
    UPHELD = "upheld"
    FIXED = "fixed"
    DISMISSED = "dismissed"
    ADVISORY = "advisory"


#: What a verdict says of a claim that nobody killed.
_ENDS = frozenset({ClaimState.UPHELD, ClaimState.FIXED, ClaimState.DISMISSED, ClaimState.ADVISORY})

#: Where a claim may go from each state; a state without successors is final. A killed claim
#: stays dead. What a test reproduced is dismissed only where the lead overrides the test, which is recorded. A test
#: that decides nothing leaves its claim promoted.
CLAIM_TRANSITIONS: dict[ClaimState, frozenset[ClaimState]] = {
    ClaimState.PROPOSED: frozenset({ClaimState.CANDIDATE, ClaimState.CONTESTED, ClaimState.ADVISORY}),
    ClaimState.CANDIDATE: frozenset({ClaimState.PROMOTED}) | _ENDS,
    ClaimState.CONTESTED: frozenset({ClaimState.KILLED, ClaimState.PROMOTED}) | _ENDS,
    ClaimState.KILLED: frozenset(),
    ClaimState.PROMOTED: frozenset({ClaimState.REPRODUCED, ClaimState.NOT_REPRODUCED, ClaimState.UNPROVABLE})
    | _ENDS,
    ClaimState.REPRODUCED: frozenset({ClaimState.UPHELD, ClaimState.FIXED, ClaimState.DISMISSED}),
    ClaimState.NOT_REPRODUCED: frozenset({ClaimState.DISMISSED}),
    ClaimState.UNPROVABLE: _ENDS,
    ClaimState.UPHELD: frozenset(),
    ClaimState.FIXED: frozenset(),
    ClaimState.DISMISSED: frozenset(),
    ClaimState.ADVISORY: frozenset(),
}


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Findings that say the same thing. `agreement` and `weighted_agreement` are two numbers and never one
    "confidence"; both are shares of the reviewers who returned a valid review.

    `passes_seen` counts the passes in which the claim was seen, over all heads; `self_consistency` is the
    share of its flaggers' own passes in which they saw it. It says how steady a head is and nothing about
    how many heads there are, so it enters neither agreement.
    """

    claim_id: str
    text: str
    category: str
    severity: Severity
    span: Span
    finding_ids: tuple[str, ...]
    flagged_by: tuple[str, ...]
    families: tuple[str, ...]
    agreement: float
    weighted_agreement: float
    passes_seen: int = 1
    self_consistency: float = 1.0


def may_become(state: ClaimState, following: ClaimState) -> bool:
    """Whether a claim may go from `state` to `following`."""
    return following in CLAIM_TRANSITIONS[state]


def is_noise(claim: Claim) -> bool:
    """Whether one head alone saw the claim, in one of several passes: what repeated passes are there to sift."""
    return claim.passes_seen == 1 and claim.self_consistency < 1


def route(claim: Claim, *, has_refuter: bool) -> ClaimState:
    """Where a counted claim goes (PANEL §3): single votes and severity high or above are contested.

    Without a refuter nobody could contest them: noise between passes ends as advisory at once, and the rest
    is left to the quorum and the gate.
    """
    if has_refuter and (len(claim.flagged_by) == 1 or claim.severity >= GATED_SEVERITY):
        return ClaimState.CONTESTED
    return ClaimState.ADVISORY if is_noise(claim) else ClaimState.CANDIDATE
