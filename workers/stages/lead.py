"""The lead fixes what it can and signs the final code."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from workers.core.answers import LeadAnswer, to_rulings
from workers.core.run import Stage
from workers.stages.ask import ask, provenance_of
from workers.stages.consensus import claim_lines, reviews_of, tally_of
from workers.stages.seat import Work
from workers.stages.shown import shown_to


def sign(work: Work) -> tuple[str, dict[str, Any]]:
    """Final files and a ruling a claim. With consensus dead the lead arbitrates on the raw reviews."""
    candidate = work.results[Stage.CODER, "coder"]
    counted = work.results.get((Stage.CONSENSUS, "consensus"))
    claims = tally_of(counted).claims if counted else ()
    lines = claim_lines(claims) if counted else ""
    files, fixed = candidate["files"], frozenset[str]()
    if work.material.existing is not None:
        files, selection = shown_to(
            work, candidate["files"], first=[claim.span for claim in claims], beside=[lines]
        )
        # A file that the lead has seen only in part would come back as that part.
        fixed = frozenset(
            path
            for path, text in candidate["files"].items()
            if path in work.material.existing.parts or not selection.is_whole(path, text)
        )
    answered = ask(
        work,
        answer_type=LeadAnswer,
        always_escalates=True,
        render_user=lambda: work.context.render(
            "material.md",
            spec=work.material.spec,
            files=files,
            tests=work.material.tests,
            claims=lines,
            reviews="" if counted else _review_lines(work),
        ),
    )
    return "lead.signed", {
        "seat": work.key.seat,
        # A file that the lead left out stays as it was; dropping one silently is not a fix.
        "files": {
            **candidate["files"],
            **{path: text for path, text in answered.answer.files.items() if path not in fixed},
        },
        "rulings": [dataclasses.asdict(ruling) for ruling in to_rulings(answered.answer)],
        "summary": answered.answer.summary,
        **provenance_of(answered),
    }


def _review_lines(work: Work) -> str:
    """The raw reviews, one JSON object a line."""
    return "\n".join(
        json.dumps(
            {
                "reviewer": review.reviewer,
                "findings": [
                    {
                        "claim": finding.claim,
                        "severity": finding.severity.word,
                        "path": finding.span.path,
                        "lines": [finding.span.start, finding.span.end],
                    }
                    for finding in review.findings
                ],
            },
            ensure_ascii=False,
        )
        for review in reviews_of(work.results)
    )
