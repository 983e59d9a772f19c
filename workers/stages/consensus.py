"""Consensus: code clusters and counts; a model may propose merges and better words, which code then verifies."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workers.core.answers import ConsensusAnswer, to_proposals
from workers.core.claim import Claim
from workers.core.consensus import tally
from workers.core.finding import Review
from workers.core.run import Stage
from workers.core.team import bare_model
from workers.core.weights import Record, earned_weight
from workers.provenance.repository import records as gate_records
from workers.stages.ask import ask, provenance_of
from workers.stages.panel import review_of
from workers.stages.seat import Work
from workers.stages.tallied import tally_data
from workers.stages.triage import tally_of_alarms, triaged


def count_panel(work: Work) -> tuple[str, dict[str, Any]]:
    """The tally of the panel. With no valid review there is nothing to ask a model about."""
    reviews = reviews_of(work.results)
    files = work.results[Stage.CODER, "coder"]["files"]
    if work.results[Stage.CODER, "coder"].get("alarms"):
        # There is nothing to merge: the claims are the scanner's.
        counted = tally_of_alarms(triaged(work.results, reviews, work.team), reviews)
        return "consensus.counted", {"seat": work.key.seat, "simulated": False, **tally_data(counted)}
    records = _records(work, reviews)
    weights = {name: earned_weight(record) for name, record in records.items()}
    counted = dataclasses.replace(tally(reviews, files, weights=weights), records=records)
    if not reviews:
        return "consensus.counted", {"seat": work.key.seat, "simulated": False, **tally_data(counted)}
    answered = ask(
        work,
        answer_type=ConsensusAnswer,
        render_user=lambda: work.context.render(
            "material.md",
            spec=work.material.spec,
            files={},
            tests={},
            # What may be merged depends on no weight, and weights may be others by the time that a lost worker's
            # question is asked again: it must stay the question that its answer is on record for.
            claims=claim_lines(counted.claims, by_weight=False)
            or "(none: the reviewers found nothing that the code bears out)",
            reviews="",
        ),
    )
    proposals = to_proposals(answered.answer)
    counted = dataclasses.replace(
        tally(reviews, files, proposals=proposals, weights=weights), records=records
    )
    return "consensus.counted", {
        "seat": work.key.seat,
        "summary": answered.answer.summary,
        **tally_data(counted),
        **provenance_of(answered),
    }


def reviews_of(results: Mapping[tuple[Stage, str], Any]) -> list[Review]:
    """The panel's valid reviews."""
    return [review_of(result) for (stage, _), result in sorted(results.items()) if stage is Stage.PANEL]


def models_of(results: Mapping[tuple[Stage, str], Any], reviews: Iterable[Review]) -> dict[str, str]:
    """By reviewer: the model that looked, whoever served it. What is rehearsed against a simulator is nobody's record,
    whatever the name of the model."""
    return {
        review.reviewer: bare_model(review.model)
        for review in reviews
        if not results[Stage.PANEL, review.reviewer]["simulated"]
    }


def _records(work: Work, reviews: Sequence[Review]) -> dict[str, Record]:
    """By reviewer: how its model's findings ended at the gate in the tenant's earlier runs; new models are left out."""
    models = models_of(work.results, reviews)
    if not models:
        return {}
    with work.context.database.begin() as connection:
        known = gate_records.read(connection, work.key.run_id, models.values())
    return {name: known[model] for name, model in sorted(models.items()) if model in known}


def claim_lines(claims: Iterable[Claim], *, by_weight: bool = True) -> str:
    """Claims as models read them: one JSON object a line, with the weighted agreement if asked for."""
    return "\n".join(
        json.dumps(
            {
                "id": claim.claim_id,
                "claim": claim.text,
                "severity": claim.severity.word,
                "path": claim.span.path,
                "lines": [claim.span.start, claim.span.end],
                "flagged_by": list(claim.flagged_by),
                "agreement": claim.agreement,
                **({"weighted_agreement": claim.weighted_agreement} if by_weight else {}),
            },
            ensure_ascii=False,
        )
        for claim in claims
    )
