"""Consensus: code clusters and counts; a model may propose merges and better words, which code then verifies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from workers.core.answers import ConsensusAnswer, to_proposals
from workers.core.claim import Claim
from workers.core.consensus import tally
from workers.core.finding import Review
from workers.core.run import Stage
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
    counted = tally(reviews, files)
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
            claims=claim_lines(counted.claims)
            or "(none: the reviewers found nothing that the code bears out)",
            reviews="",
        ),
    )
    counted = tally(reviews, files, proposals=to_proposals(answered.answer))
    return "consensus.counted", {
        "seat": work.key.seat,
        "summary": answered.answer.summary,
        **tally_data(counted),
        **provenance_of(answered),
    }


def reviews_of(results: Mapping[tuple[Stage, str], Any]) -> list[Review]:
    """The panel's valid reviews."""
    return [review_of(result) for (stage, _), result in sorted(results.items()) if stage is Stage.PANEL]


def claim_lines(claims: Iterable[Claim]) -> str:
    """Claims as models read them: one JSON object a line."""
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
                "weighted_agreement": claim.weighted_agreement,
            },
            ensure_ascii=False,
        )
        for claim in claims
    )
