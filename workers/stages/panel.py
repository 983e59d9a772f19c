"""One reviewer looks at the candidate. It never raises for a model's sake: a dead reviewer abstains."""

from __future__ import annotations

import dataclasses
from typing import Any

from workers.core.answers import ReviewAnswer, to_review
from workers.core.artefact import Span
from workers.core.finding import Evidence, Finding, Review, Severity
from workers.core.run import Stage
from workers.stages.ask import ask, provenance_of
from workers.stages.seat import Work
from workers.stages.shown import left_out_data, shown_to
from workers.stages.triage import judge_alarms


def review_candidate(work: Work) -> tuple[str, dict[str, Any]]:
    """This seat's findings about the candidate, or its judgements of the alarms that came with it."""
    if work.results[Stage.CODER, "coder"].get("alarms"):
        return judge_alarms(work)
    files, selection = shown_to(work, work.results[Stage.CODER, "coder"]["files"])
    answered = ask(
        work,
        answer_type=ReviewAnswer,
        render_user=lambda: work.context.render(
            "material.md",
            spec=work.material.spec,
            files=files,
            tests=work.material.tests,
            claims="",
            reviews="",
        ),
    )
    review = to_review(
        answered.answer,
        reviewer=work.key.seat,
        model=f"{answered.link.provider}/{answered.link.model}",
        family=answered.link.family,
    )
    return "review.arrived", {
        "seat": work.key.seat,
        "findings": [finding_data(finding) for finding in review.findings],
        "summary": review.summary,
        **left_out_data(selection),
        **provenance_of(answered),
    }


def finding_data(finding: Finding) -> dict[str, Any]:
    """A finding as plain data."""
    return {**dataclasses.asdict(finding), "severity": finding.severity.word}


def review_of(result: dict[str, Any]) -> Review:
    """The review back from a stage's result."""
    return Review(
        reviewer=result["seat"],
        model=f"{result['provider']}/{result['model']}",
        family=result["family"],
        findings=tuple(_finding(item) for item in result["findings"]),
        summary=result["summary"],
    )


def _finding(item: dict[str, Any]) -> Finding:
    return Finding(
        **{
            **item,
            "severity": Severity[item["severity"].upper()],
            "span": Span(**item["span"]),
            "evidence": tuple(Evidence(**evidence) for evidence in item["evidence"]),
        }
    )
