"""One reviewer looks at the candidate. It never raises for a model's sake: a dead reviewer abstains."""

from __future__ import annotations

import dataclasses
from typing import Any

from workers.core.answers import ReviewAnswer, to_review
from workers.core.artefact import Span, numbered
from workers.core.finding import Evidence, Finding, Review, Severity
from workers.core.run import Stage
from workers.stages.ask import Answered, ask, provenance_of
from workers.stages.rounds import killed_digest
from workers.stages.seat import Work


def review_candidate(work: Work) -> tuple[str, dict[str, Any]]:
    """This seat's findings about the candidate, in as many passes as the team asks for."""
    passes = [_look(work, number) for number in range(1, work.team.policy.passes + 1)]
    answered, first = passes[0]
    findings = [finding for _, review in passes for finding in review.findings]
    return "review.arrived", {
        "seat": work.key.seat,
        "findings": [finding_data(finding) for finding in findings],
        "summary": "\n".join(review.summary for _, review in passes if review.summary) or first.summary,
        **({"passes": len(passes)} if len(passes) > 1 else {}),
        **provenance_of(answered),
        "simulated": any(answered.is_simulated for answered, _ in passes),
    }


def _look(work: Work, pass_number: int) -> tuple[Answered[ReviewAnswer], Review]:
    candidate = work.results[Stage.CODER, "coder"]
    answered = ask(
        work,
        answer_type=ReviewAnswer,
        render_user=lambda: (
            work.context.render(
                "material.md",
                spec=work.material.spec,
                files={path: numbered(text) for path, text in candidate["files"].items()},
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
