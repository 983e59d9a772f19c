"""One reviewer looks at the candidate. It never raises for a model's sake: a dead reviewer abstains."""

from __future__ import annotations

import dataclasses
from typing import Any

from workers.core.answers import ReviewAnswer, to_review
from workers.core.artefact import Files, Span
from workers.core.consensus import merge_passes
from workers.core.finding import Evidence, Finding, Review, Severity
from workers.core.run import Stage
from workers.stages.ask import Answered, ask, provenance_of
from workers.stages.rounds import killed_digest
from workers.stages.seat import Work
from workers.stages.shown import left_out_data, shown_to
from workers.stages.triage import judge_alarms


def review_candidate(work: Work) -> tuple[str, dict[str, Any]]:
    """This seat's findings about the candidate, in as many passes as the team asks for, or its judgements of the alarms
    that came with it."""
    if work.results[Stage.CODER, "coder"].get("alarms"):
        return judge_alarms(work)
    files, selection = shown_to(work, work.results[Stage.CODER, "coder"]["files"])
    passes = [_look(work, files, number) for number in range(1, work.team.policy.passes + 1)]
    answered = passes[0][0]
    review = merge_passes([review for _, review in passes])
    return "review.arrived", {
        "seat": work.key.seat,
        "findings": [finding_data(finding) for finding in review.findings],
        "summary": review.summary,
        **({"passes": review.passes} if review.passes > 1 else {}),
        **left_out_data(selection),
        **provenance_of(answered),
        "simulated": any(answered.is_simulated for answered, _ in passes),
    }


def _look(work: Work, files: Files, pass_number: int) -> tuple[Answered[ReviewAnswer], Review]:
    answered = ask(
        work,
        earlier=pass_number - 1,
        answer_type=ReviewAnswer,
        render_user=lambda: (
            work.context.render(
                "material.md",
                spec=work.material.spec,
                files=files,
                tests=work.material.tests,
                claims="",
                reviews="",
            )
            + _killed_before(work)
        ),
    )
    review = to_review(
        answered.answer,
        reviewer=work.key.seat,
        model=f"{answered.link.provider}/{answered.link.model}",
        family=answered.link.family,
        pass_number=pass_number,
    )
    return answered, review


def _killed_before(work: Work) -> str:
    """What refuters killed in the round before, so that nobody proposes it again; empty in the first."""
    killed = killed_digest(work.previous) if work.previous else []
    return work.context.render("killed.md", killed=killed) if killed else ""


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
        passes=result.get("passes", 1),
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
