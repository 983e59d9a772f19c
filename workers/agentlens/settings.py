"""Every constant of the scorer in one value, and the version of the rules they belong to (AGENTLENS, head).

A stored assessment carries both, so that two numbers are only ever compared if the same rules made them."""

from __future__ import annotations

import dataclasses

from workers.agentlens.profiles import PROFILES

SCORING_VERSION = "1.1"


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class ScoringSettings:
    """The scorer's constants. The defaults are the product's rules; another value is an experiment.

    profile: which profile drives tiers, mechanisms and exports.
    donors: k, passing runs of the same problem in one reference (§4).
    draws: how many references are drawn and averaged (§5); draw 0 serves divergence, waste and picture.
    seed: of the draws.
    match_threshold: θ, the least confidence at which two states are the same step (§3).
    line_overlap: least Jaccard index of two line ranges (§3, level 3).
    lookahead: how many tree levels a run may skip before it counts as diverged (§9).
    divergence_patience: how many states in a row must leave the reference before it counts as diverged.
    minimal_steps, brute_force_severity, excessive_steps: cut-offs of C1, C2 and C4 (§8).
    consensus_share: share of donors that must edit a file or scope for it to be consensus (C3).
    edit_agreement_little: Φedit under which a pass with a good process is a C5 candidate (§5).
    """

    profile: str = "paper"
    donors: int = 5
    draws: int = 4
    seed: int = 0
    match_threshold: float = 0.70
    line_overlap: float = 0.30
    lookahead: int = 3
    divergence_patience: int = 3
    minimal_steps: int = 8
    brute_force_severity: float = 0.30
    excessive_steps: int = 40
    consensus_share: float = 0.5
    edit_agreement_little: float = 10.0

    def __post_init__(self) -> None:
        if self.donors < 2:
            raise ValueError(f"donors is {self.donors}: a reference needs at least 2 passing runs")
        if self.draws < 1:
            raise ValueError(f"draws is {self.draws}: at least 1 reference must be drawn")
        if self.profile not in PROFILES:
            raise ValueError(f"profile is {self.profile!r}: it must be one of {', '.join(PROFILES)}")
        if not 0 < self.match_threshold <= 1:
            raise ValueError(f"match_threshold is {self.match_threshold}: it must lie in (0, 1]")


DEFAULT_SETTINGS = ScoringSettings()
