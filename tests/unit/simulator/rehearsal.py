"""One run of the demo's team without queue, database or HTTP: the real prompts, the simulator's own answers,
and the pure arithmetic that a real run uses."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workers.core import answers
from workers.core.artefact import numbered
from workers.core.claim import Claim
from workers.core.consensus import Proposal, Tally, tally
from workers.core.finding import Review
from workers.core.reply_repair import repair
from workers.core.team import Policy
from workers.core.verdict import Case, Verdict, decide
from workers.providers.simulator.catalogue import load_catalogue
from workers.providers.simulator.roles import answer
from workers.teams import prompt_environment

ROOT = Path(__file__).parents[3]
CODER = "sim-alder-large"
REVIEWERS = {
    "rigor": "sim-birch-large",
    "edges": "sim-cedar-large",
    "safety": "sim-birch-small",
    "spec": "sim-cedar-small",
    "craft": "sim-alder-small",
}
CONSENSUS = "sim-birch-large"
LEAD = "sim-cedar-large"

PROMPTS = prompt_environment()


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rehearsal:
    """What came of a spec: `counted` is the panel as code alone counts it, `final` with the proposals."""

    candidate: Mapping[str, str]
    reviews: Sequence[Review]
    counted: Tally
    proposals: Sequence[Proposal]
    final: Tally
    lead: answers.LeadAnswer
    verdict: Verdict


def examples(name: str) -> list[dict[str, Any]]:
    """The lines of a file of examples."""
    lines = (ROOT / "examples" / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def example_specs() -> dict[str, str]:
    return {line["id"]: line["spec"] for line in examples("specs.jsonl")}


def system_prompt(role: str) -> str:
    return PROMPTS.get_template(f"{role}.md").render()


def material(
    spec: str, *, files: Mapping[str, str] | None = None, claims: str = "", reviews: str = ""
) -> str:
    return PROMPTS.get_template("material.md").render(
        spec=spec, files=files or {}, tests={}, claims=claims, reviews=reviews
    )


def ask(role: str, user: str, *, model: str, seed: int = 0) -> str:
    return answer(system_prompt(role), user, model=model, seed=seed, catalogue=load_catalogue())


def claim_lines(claims: Sequence[Claim]) -> str:
    return "\n".join(
        json.dumps(
            {
                "id": claim.claim_id,
                "claim": claim.text,
                "severity": claim.severity.word,
                "path": claim.span.path,
                "lines": [claim.span.start, claim.span.end],
                "symbol": None,
                "flagged_by": list(claim.flagged_by),
                "agreement": claim.agreement,
                "weighted_agreement": claim.weighted_agreement,
            }
        )
        for claim in claims
    )


def review_of(reviewer: str, spec: str, files: Mapping[str, str], *, seed: int = 0) -> Review:
    model = REVIEWERS[reviewer]
    shown = {path: numbered(text) for path, text in files.items()}
    text = ask("reviewer", material(spec, files=shown), model=model, seed=seed)
    return answers.to_review(
        answers.parse(answers.ReviewAnswer, repair(text).value),
        reviewer=reviewer,
        model=model,
        family=model.rpartition("-")[0],
    )


def rehearse(spec: str, *, seed: int = 0) -> Rehearsal:
    """The run of a spec through the team that `teams/consensus.yaml` describes, without its persistence."""
    written = ask("coder", material(spec), model=CODER, seed=seed)
    files = answers.parse(answers.CoderAnswer, repair(written).value).files
    reviews = [review_of(reviewer, spec, files, seed=seed) for reviewer in REVIEWERS]
    counted = tally(reviews, files)
    merged = ask(
        "consensus",
        material(spec, files=files, claims=claim_lines(counted.claims)),
        model=CONSENSUS,
        seed=seed,
    )
    proposals = answers.to_proposals(answers.parse(answers.ConsensusAnswer, repair(merged).value))
    final = tally(reviews, files, proposals=proposals)
    signed = ask("lead", material(spec, files=files, claims=claim_lines(final.claims)), model=LEAD, seed=seed)
    lead = answers.parse(answers.LeadAnswer, repair(signed).value)
    verdict = decide(
        Case(
            policy=Policy(),
            panel_size=len(REVIEWERS),
            coder_model=CODER,
            candidate=files,
            signed=lead.files,
            reviews=reviews,
            abstentions=(),
            tally=final,
            rulings=answers.to_rulings(lead),
        )
    )
    return Rehearsal(
        candidate=files,
        reviews=reviews,
        counted=counted,
        proposals=proposals,
        final=final,
        lead=lead,
        verdict=verdict,
    )
