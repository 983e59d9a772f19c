"""The lead's version of the code is run: do the tests of reproduced claims pass, does what was green stay so?"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from workers.core.artefact import Files
from workers.core.judgement import FixCheck, FixWord
from workers.core.proof import GATE_FOLDER, Proof, green, passes, test_names
from workers.core.receipt import TestReceipt
from workers.core.run import Stage
from workers.stages.seat import Work
from workers.stages.trials import NoCageError, Trial, guard_tests, try_out


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """`broken`: tests that passed on the coder's code and do not pass on this one. `kept`: the runs, for the ledger."""

    fixes: tuple[FixCheck, ...] = ()
    tests: TestReceipt | None = None
    broken: tuple[str, ...] = ()
    kept: tuple[dict[str, Any], ...] = ()


def check_rewrite(work: Work, signed: Files) -> Checked:
    """Run what has to be run on the signed code; nothing where no claim was reproduced and no tests are asked for."""
    claims = _reproduced(work)
    if not claims and not work.team.policy.coder_tests:
        return Checked()
    candidate = work.results[Stage.CODER, "coder"]["files"]
    guarding = guard_tests(work)
    if signed == candidate and not work.team.policy.coder_tests:
        return Checked(fixes=tuple(_stands(claim_id, "the code is unchanged") for claim_id in claims))
    if not claims and not guarding:
        return Checked()
    try:
        return _run(work, candidate, signed, guarding, claims)
    except NoCageError as error:
        return Checked(
            fixes=tuple(
                FixCheck(claim_id=claim_id, word=FixWord.UNCHECKED, detail=error.detail)
                for claim_id in claims
            ),
            tests=_receipt(work, frozenset(), frozenset(), guarding, problem=error.detail)
            if guarding
            else None,
        )


def _run(
    work: Work, candidate: Files, signed: Files, guarding: Mapping[str, str], claims: Mapping[str, str]
) -> Checked:
    before: Trial | None = try_out(work, "code", candidate, guarding) if guarding else None
    paths = {f"{GATE_FOLDER}test_{claim_id.lower()}.py": claim_id for claim_id in claims}
    deciding = {path: claims[claim_id] for path, claim_id in paths.items()}
    after = try_out(work, "signed", signed, {**guarding, **deciding})
    was_green = green(before.runs, guarding) if before else frozenset()
    is_green = green(after.runs, guarding)
    return Checked(
        fixes=tuple(_fix(after, path, claim_id, claims[claim_id]) for path, claim_id in paths.items()),
        tests=_receipt(work, was_green, is_green, guarding) if guarding else None,
        broken=tuple(sorted(was_green - is_green)),
        kept=(*(before.kept if before else ()), *after.kept),
    )


def _reproduced(work: Work) -> dict[str, str]:
    """Claim → the source of the test that reproduced it."""
    return {
        result["claim"]: result["test"]
        for (stage, _), result in sorted(work.results.items())
        if stage is Stage.GATE and result["proof"] == Proof.REPRODUCED
    }


def _fix(after: Trial, path: str, claim_id: str, source: str) -> FixCheck:
    problem = next((run.problem for run in after.runs if run.problem), "")
    repeats = [repeat for run in after.runs for repeat in run.files.get(path, ())]
    if repeats and all(passes(repeat, test_names(source)) for repeat in repeats):
        return FixCheck(claim_id=claim_id, word=FixWord.FIXED, detail="its test passes on the signed code")
    return _stands(claim_id, problem or "its test does not pass on the signed code")


def _stands(claim_id: str, detail: str) -> FixCheck:
    return FixCheck(claim_id=claim_id, word=FixWord.STANDS, detail=detail)


def _receipt(
    work: Work,
    before: frozenset[str],
    after: frozenset[str],
    guarding: Mapping[str, str],
    *,
    problem: str = "",
) -> TestReceipt:
    known = {f"{path}::{name}" for path, source in guarding.items() for name in test_names(source)}
    red = () if problem else tuple(sorted(known - after))
    return TestReceipt(
        green_before=tuple(sorted(before)),
        green_after=tuple(sorted(after)),
        red_after=red,
        red_submitted=tuple(name for name in red if name.partition("::")[0] in work.material.tests),
        is_rewrite_discarded=False,
        problem=problem,
    )
