"""What a reviewer's word weighs: earned from gate outcomes, shared within a family, frozen with the tally
(PANEL §2.3). `docs/decisions/0016-what-a-record-is-made-of.md` says why these outcomes and no others."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from workers.core.claim import Claim
from workers.core.finding import Review
from workers.core.judgement import Proved
from workers.core.proof import Proof

#: The weight of a reviewer that has not yet earned another.
NEW_REVIEWER_WEIGHT = 0.5
#: Findings that must be resolved before a record speaks.
RESOLVED_BEFORE_EARNED = 20
LEAST_WEIGHT, GREATEST_WEIGHT = 0.5, 1.5
#: Most that one submission adds to a record: half of what a record needs, so that none makes one alone.
MOST_OF_ONE_SUBMISSION = RESOLVED_BEFORE_EARNED // 2


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """How a reviewer's earlier findings ended at the gate: `upheld` were reproduced, `refuted` were not.

    What stayed unprovable is not resolved and counts on neither side. Raises ValueError for negative counts.
    """

    upheld: int = 0
    refuted: int = 0

    def __post_init__(self) -> None:
        if self.upheld < 0 or self.refuted < 0:
            raise ValueError(f"a record counts findings from 0 on, not {self.upheld} and {self.refuted}")

    def __add__(self, other: Record) -> Record:
        return Record(upheld=self.upheld + other.upheld, refuted=self.refuted + other.refuted)

    @property
    def resolved(self) -> int:
        return self.upheld + self.refuted

    def within(self, most: int) -> Record:
        """At most `most` resolved findings, the share of upheld ones kept to the nearest whole finding."""
        if self.resolved <= most:
            return self
        upheld = round(self.upheld * most / self.resolved)
        return Record(upheld=upheld, refuted=most - upheld)

    def precision(self, *, prior: float = 0.5, strength: float = 2.0) -> float:
        """Share of resolved findings that were upheld, as if `strength` more had come at the rate `prior`.

        The defaults are Laplace's rule of succession, (upheld + 1) / (resolved + 2).
        """
        return (self.upheld + prior * strength) / (self.resolved + strength)


def earned_weight(record: Record) -> float:
    """0.5 for a new reviewer; from 20 resolved findings on the smoothed precision, kept within 0.5 to 1.5."""
    if record.resolved < RESOLVED_BEFORE_EARNED:
        return NEW_REVIEWER_WEIGHT
    return min(GREATEST_WEIGHT, max(LEAST_WEIGHT, record.precision()))


def resolve(
    claims: Iterable[Claim], proofs: Iterable[Proved], models: Mapping[str, str]
) -> dict[str, Record]:
    """By model: how the findings of one round ended at the gate. `models`: the reviewers whose word counts here.

    A claim resolves one finding of each model among its flaggers, however many seats or findings of that model are
    in it. What decided no claim (inconclusive, tampered with, unprovable) resolves nothing, nor does a test beside
    which no test of somebody else was green on code and control alike: counted on one side only, such proofs would
    lift or sink every record of a team that is given no tests.
    """
    by_id = {claim.claim_id: claim for claim in claims}
    found: dict[str, Record] = {}
    for proved in proofs:
        claim = by_id.get(proved.claim_id)
        if claim is None or not proved.guards:
            continue
        if proved.proof not in {Proof.REPRODUCED, Proof.NOT_REPRODUCED}:
            continue
        is_upheld = proved.proof is Proof.REPRODUCED
        one = Record(upheld=int(is_upheld), refuted=int(not is_upheld))
        for model in {models[name] for name in claim.flagged_by if name in models}:
            found[model] = found.get(model, Record()) + one
    return found


def effective_weights(reviews: Sequence[Review], weights: Mapping[str, float]) -> dict[str, float]:
    """Each reviewer's weight after its family's single unit is shared among the family's valid reviewers.

    Reviewers of one family that all say the same say together what one of them would have said alone, so no
    number of clones lifts a claim above what its family says when it is of one mind (Sybil resistance).
    """
    members: dict[str, int] = {}
    for review in reviews:
        members[review.family] = members.get(review.family, 0) + 1
    return {
        review.reviewer: weights.get(review.reviewer, NEW_REVIEWER_WEIGHT) / members[review.family]
        for review in reviews
    }


def agreement(flagged_by: Iterable[str], valid_reviewers: int) -> float:
    """Share of valid reviewers who flagged a claim: `round(min(len(flagged), n) / n, 3)`; n = 0 gives 0.0."""
    if valid_reviewers <= 0:
        return 0.0
    return round(min(len(set(flagged_by)), valid_reviewers) / valid_reviewers, 3)


def weighted_agreement(flagged_by: Iterable[str], effective: Mapping[str, float]) -> float:
    """Share of the panel's effective weight that flagged a claim, to three places; no weight gives 0.0."""
    names = set(flagged_by)
    total = sum(effective.values())
    if total <= 0:
        return 0.0
    flagged = sum(weight for name, weight in effective.items() if name in names)
    return round(min(1.0, flagged / total), 3)
