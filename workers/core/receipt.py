"""What the refuters and the gate did and cost, counted for the verdict (PANEL §3, §5)."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Literal

from workers.core.claim import ClaimState
from workers.core.consensus import Tally
from workers.core.judgement import JudgedClaim
from workers.core.proof import Proof
from workers.core.refutation import Standing
from workers.core.weights import Record

#: Why no further round was opened.
Stopped = Literal["signed", "round_limit", "oscillation", "nothing_reproduced", "coder_missing"]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RefuterReceipt:
    """`unanswered`: claims whose refuter could not be asked; they stay as they were. `void`: kills without evidence."""

    asked: int
    killed: int
    void: int
    same_family: int
    kill_rate: float
    unanswered: tuple[str, ...]
    left_out: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class GateReceipt:
    """`undecided`: claim and reason, for each that no test decided. `left_out`: claims above the team's number.
    `unguarded`: claims that were reproduced while no submitted or coder's test guarded the control."""

    tested: int
    reproduced: int
    not_reproduced: int
    inconclusive: int
    unprovable: int
    undecided: tuple[tuple[str, str], ...]
    left_out: tuple[str, ...]
    unguarded: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What the claims of one state took. `cost_usd` is None where any part of it has no known price."""

    state: ClaimState
    claims: int
    cost_usd: float | None
    seconds: float
    cage_seconds: float


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class TestReceipt:
    """The submitted and the coder's tests in the cage. `red_submitted`: those that came with the spec and do not
    pass on the signed code. `problem`: why they were not run, or empty."""

    __test__ = False  # pytest would collect it

    green_before: tuple[str, ...]
    green_after: tuple[str, ...]
    red_after: tuple[str, ...]
    red_submitted: tuple[str, ...]
    is_rewrite_discarded: bool
    problem: str = ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class RoundsReceipt:
    count: int
    stopped: Stopped


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WeightReceipt:
    """What a reviewer's word weighed, and how its model's earlier findings had ended at the gate by then."""

    reviewer: str
    weight: float
    upheld: int
    refuted: int


def weights_used(counted: Tally) -> tuple[WeightReceipt, ...]:
    """Empty where every reviewer was new: then all weigh the same."""
    if not counted.records:
        return ()
    return tuple(
        WeightReceipt(reviewer=name, weight=round(weight, 3), upheld=record.upheld, refuted=record.refuted)
        for name, weight in sorted(counted.weights.items())
        for record in (counted.records.get(name, Record()),)
    )


def count_refutations(
    judged: Sequence[JudgedClaim], *, unanswered: Iterable[str], left_out: Iterable[str]
) -> RefuterReceipt | None:
    """None where no claim was sent to a refuter."""
    answers = [item.refuted for item in judged if item.refuted is not None]
    silent, beyond = tuple(sorted(unanswered)), tuple(sorted(left_out))
    if not answers and not silent and not beyond:
        return None
    killed = sum(answer.standing is Standing.KILLED for answer in answers)
    return RefuterReceipt(
        asked=len(answers) + len(silent),
        killed=killed,
        void=sum(bool(answer.void) for answer in answers),
        same_family=sum(answer.is_same_family for answer in answers),
        kill_rate=round(killed / len(answers), 3) if answers else 0.0,
        unanswered=silent,
        left_out=beyond,
    )


def count_proofs(judged: Sequence[JudgedClaim], *, left_out: Iterable[str]) -> GateReceipt | None:
    """None where no claim was sent to the gate."""
    proofs = [item.proved for item in judged if item.proved is not None]
    beyond = tuple(sorted(left_out))
    if not proofs and not beyond:
        return None
    count = Counter(proof.proof for proof in proofs)
    return GateReceipt(
        tested=len(proofs),
        reproduced=count[Proof.REPRODUCED],
        not_reproduced=count[Proof.NOT_REPRODUCED],
        inconclusive=count[Proof.INCONCLUSIVE],
        unprovable=count[Proof.UNPROVABLE],
        undecided=tuple(
            (proof.claim_id, proof.reason)
            for proof in proofs
            if proof.proof in {Proof.INCONCLUSIVE, Proof.UNPROVABLE}
        ),
        left_out=beyond,
        unguarded=tuple(proof.claim_id for proof in proofs if proof.is_unguarded),
    )


def costs(judged: Sequence[JudgedClaim]) -> tuple[Cost, ...]:
    """Cost and time by the state in which claims ended, of those on which anything was spent."""
    found = []
    for state in ClaimState:
        spent = [item.spent for item in judged if item.state is state and item.spent is not None]
        if spent:
            prices = [item.cost_usd for item in spent]
            known = [price for price in prices if price is not None]
            found.append(
                Cost(
                    state=state,
                    claims=len(spent),
                    cost_usd=round(sum(known), 6) if len(known) == len(prices) else None,
                    seconds=round(sum(item.seconds for item in spent), 3),
                    cage_seconds=round(sum(item.cage_seconds for item in spent), 3),
                )
            )
    return tuple(found)
