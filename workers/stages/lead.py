"""The lead decides and signs: it explains, fixes and orders. What stands is worked out by code afterwards.

Its version is run before it is taken: one that breaks a test which passed before is sent back once, and if the next one
does so too, the coder's code stays."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from workers.core.answers import LeadAnswer, to_rulings
from workers.core.artefact import Files
from workers.core.judgement import FixWord
from workers.core.receipt import TestReceipt
from workers.core.run import Stage
from workers.stages.ask import Answered, ask, provenance_of
from workers.stages.consensus import claim_lines, reviews_of
from workers.stages.rewrite import Checked, check_rewrite
from workers.stages.seat import Work
from workers.stages.seating import refuted_in
from workers.stages.shown import to_rewrite
from workers.stages.tallied import tally_of


def sign(work: Work) -> tuple[str, dict[str, Any]]:
    """Final files and a ruling a claim. With consensus dead the lead arbitrates on the raw reviews."""
    candidate = work.results[Stage.CODER, "coder"]["files"]
    prompt = _Prompt.of(work)
    answered = prompt.ask("")
    files = prompt.rewritten(answered)
    checked = check_rewrite(work, files)
    kept = list(checked.kept)
    if checked.broken:
        answered = prompt.ask(_broken_lines(checked))
        files = prompt.rewritten(answered)
        checked = check_rewrite(work, files)
        kept += checked.kept
    if checked.broken:
        files, checked = candidate, _discarded(checked, work)
    return "lead.signed", {
        "seat": work.key.seat,
        "files": files,
        "rulings": [dataclasses.asdict(ruling) for ruling in to_rulings(answered.answer)],
        "decision": answered.answer.decision,
        "fixes": [dataclasses.asdict(fix) for fix in checked.fixes],
        "tests": dataclasses.asdict(checked.tests) if checked.tests else None,
        **({"runs": kept} if kept else {}),
        "summary": answered.answer.summary,
        **provenance_of(answered),
    }


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class _Prompt:
    """What the lead is shown, and which files it may not change: those that it sees only in part."""

    work: Work
    files: Files
    fixed: frozenset[str]
    claims: str
    reviews: str

    @classmethod
    def of(cls, work: Work) -> _Prompt:
        counted = work.results.get((Stage.CONSENSUS, "consensus"))
        lines = _claim_lines(work) if counted else ""
        first = [claim.span for claim in tally_of(counted).claims] if counted else []
        files, fixed = to_rewrite(work, first=first, beside=[lines])
        return cls(
            work=work, files=files, fixed=fixed, claims=lines, reviews="" if counted else _review_lines(work)
        )

    def ask(self, complaint: str) -> Answered[LeadAnswer]:
        return ask(
            self.work,
            answer_type=LeadAnswer,
            always_escalates=True,
            render_user=lambda: (
                self.work.context.render(
                    "material.md",
                    spec=self.work.material.spec,
                    files=self.files,
                    tests=self.work.material.tests,
                    claims=self.claims,
                    reviews=self.reviews,
                )
                + complaint
            ),
        )

    def rewritten(self, answered: Answered[LeadAnswer]) -> dict[str, str]:
        """A file that the lead left out stays as it was; dropping one silently is not a fix."""
        returned = answered.answer.files.items()
        candidate = self.work.results[Stage.CODER, "coder"]["files"]
        return {
            **candidate,
            **{
                path: _ended_as(candidate.get(path), text)
                for path, text in returned
                if path not in self.fixed
            },
        }


def _ended_as(before: str | None, text: str) -> str:
    """`text` with the line break that ended the file before: numbered lines do not show it to whoever rewrites them."""
    is_cut = before is not None and before.endswith("\n") and text and not text.endswith("\n")
    return text + "\n" if is_cut else text


def _broken_lines(checked: Checked) -> str:
    return (
        "\n\nYour last version broke these tests, which pass on the code above. Sign a version that keeps them green:\n"
        + "\n".join(checked.broken)
    )


def _discarded(checked: Checked, work: Work) -> Checked:
    """The rewrite is thrown away: what it mended is not mended."""
    return dataclasses.replace(
        checked,
        fixes=tuple(
            dataclasses.replace(fix, word=FixWord.STANDS, detail="the lead's version was discarded")
            for fix in checked.fixes
        ),
        tests=_receipt_of_candidate(checked.tests, work) if checked.tests else None,
    )


def _receipt_of_candidate(tests: TestReceipt, work: Work) -> TestReceipt:
    """What the runs say of the coder's code, which is what is signed now."""
    known = {*tests.green_before, *tests.green_after, *tests.red_after}
    red = tuple(sorted(known - {*tests.green_before}))
    return dataclasses.replace(
        tests,
        green_after=tests.green_before,
        red_after=red,
        red_submitted=tuple(name for name in red if name.partition("::")[0] in work.material.tests),
        is_rewrite_discarded=True,
    )


def _claim_lines(work: Work) -> str:
    """The claims with what refuters and gate said of them."""
    refuted = {item.claim_id: item for item in refuted_in(work.results)}
    proofs = {result["claim"]: result for (stage, _), result in work.results.items() if stage is Stage.GATE}
    lines = []
    for line in claim_lines(tally_of(work.results[Stage.CONSENSUS, "consensus"]).claims).splitlines():
        claim = json.loads(line)
        found, proof = refuted.get(claim["id"]), proofs.get(claim["id"])
        if found is not None:
            claim |= {"refuter": found.standing, "refuter_reason": found.reason}
        if proof is not None:
            claim |= {"gate": proof["proof"], "gate_detail": proof["detail"], "test": proof.get("test", "")}
        lines.append(json.dumps(claim, ensure_ascii=False))
    return "\n".join(lines)


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
