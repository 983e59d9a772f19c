"""What a run that ends teaches of its reviewers' models (PANEL §2.3)."""

from __future__ import annotations

from collections.abc import Sequence

from workers.core.run import Stage
from workers.core.weights import MOST_OF_ONE_SUBMISSION, Record, resolve
from workers.provenance.repository.stages import SeatRow
from workers.stages.case import proofs_of
from workers.stages.consensus import models_of, reviews_of
from workers.stages.seating import results_of, tally_at


def earned_in(rounds: Sequence[Sequence[SeatRow]]) -> dict[str, Record]:
    """By model: how the findings of a run were resolved by the gates of all its rounds. A proof that was rehearsed
    against a simulator is none.

    A claim that was reproduced, mended and gone in the next round was right all the same.
    """
    found: dict[str, Record] = {}
    for rows in rounds:
        results = results_of(rows)
        counted = tally_at(results)
        if counted is None:
            continue
        tested = [
            row for row in rows if row.key.stage is Stage.GATE and row.result and not row.result["simulated"]
        ]
        models = models_of(results, reviews_of(results))
        for model, record in resolve(counted.claims, proofs_of(tested), models).items():
            found[model] = found.get(model, Record()) + record
    return {model: record.within(MOST_OF_ONE_SUBMISSION) for model, record in found.items()}
