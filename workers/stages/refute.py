"""One refuter tries to kill one bare claim. It sees the claim and the code: no names, votes or reasons.

That it is blind is a matter of how the prompt is made: `bare_line` is all that it gets of the claim."""

from __future__ import annotations

import json
from typing import Any

from workers.core.answers import RefutationAnswer, to_refutation
from workers.core.claim import Claim
from workers.core.finding import Evidenced
from workers.core.refutation import weigh
from workers.core.run import Stage
from workers.stages.ask import ask, provenance_of
from workers.stages.seat import Work
from workers.stages.seating import claim_at
from workers.stages.shown import left_out_data, shown_to


def refute_claim(work: Work) -> tuple[str, dict[str, Any]]:
    """The refuter's answer, and what it is worth."""
    claim = claim_at(work.key.seat, work.results)
    files = work.results[Stage.CODER, "coder"]["files"]
    began = work.context.now()
    shown, selection = shown_to(work, files, first=[claim.span])
    answered = ask(
        work,
        answer_type=RefutationAnswer,
        render_user=lambda: work.context.render("claim.md", claim=bare_line(claim), files=shown),
    )
    refutation = to_refutation(answered.answer, claim, family=answered.link.family)
    worth = weigh(refutation, claim, Evidenced(files))
    return "claim.refuted", {
        "seat": work.key.seat,
        "claim": claim.claim_id,
        "verdict": refutation.word,
        "ground": refutation.ground,
        "reason": refutation.reason,
        "evidence": [
            {"path": item.path, "line": item.line, "quote": item.quote} for item in refutation.evidence
        ],
        "least_quote_characters": refutation.least_quote_characters,
        "standing": worth.standing,
        "void": worth.void,
        "same_family": worth.is_same_family,
        "seconds": round((work.context.now() - began).total_seconds(), 3),
        **left_out_data(selection),
        **provenance_of(answered),
    }


def bare_line(claim: Claim) -> str:
    """The claim without who said it, how many did, and how grave they think it is: one JSON object."""
    return json.dumps(
        {
            "id": claim.claim_id,
            "claim": claim.text,
            "path": claim.span.path,
            "lines": [claim.span.start, claim.span.end],
        },
        ensure_ascii=False,
    )
