"""One claim is decided by a test: a prover writes it, somebody of another family mends the code, the cage runs both.

The whole seat works in the `sandbox` queue: its two questions wait in a thread like any other, and one row with one
lease holds the work together. Nothing is asked of a model while there is no cage."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from workers.core.answers import ControlAnswer, ProofAnswer
from workers.core.claim import Claim
from workers.core.proof import (
    TEST_PATH,
    CageRun,
    Judged,
    Proof,
    control_problem,
    green,
    hangs,
    is_rule_of,
    judge,
    reads_source,
    test_names,
)
from workers.core.run import Stage
from workers.core.team import Seat
from workers.errors import CageError
from workers.stages.ask import Answered, ask, provenance_of
from workers.stages.refute import bare_line
from workers.stages.seat import Work
from workers.stages.seating import claim_at, control_for
from workers.stages.shown import to_rewrite
from workers.stages.trials import NoCageError, Trial, guard_tests, try_out
from workers.stages.walk import SeatFailedError

#: A test that seemed to hang is given that many times longer before its claim counts as reproduced.
_PATIENCE = 4


def prove_claim(work: Work) -> tuple[str, dict[str, Any]]:
    """What the gate says of the claim. A missing cage, prover or control is an answer too: unprovable."""
    claim = claim_at(work.key.seat, work.results)
    began = work.context.now()
    proving = _Proving(work, claim)
    judged = proving.judged()
    return "claim.tested", {
        "seat": work.key.seat,
        "claim": claim.claim_id,
        "proof": judged.proof,
        "reason": judged.reason,
        "detail": judged.detail,
        "seconds": round((work.context.now() - began).total_seconds(), 3),
        **proving.record,
    }


class _Proving:
    """The steps of one proof; `record` gathers what the ledger keeps of them."""

    def __init__(self, work: Work, claim: Claim) -> None:
        self._work = work
        self._claim = claim
        self._code = work.results[Stage.CODER, "coder"]["files"]
        self._fixed: frozenset[str] = frozenset()
        self.record: dict[str, Any] = {"simulated": False}

    def judged(self) -> Judged:
        try:
            self._look_for_a_cage()
            return self._proved()
        except NoCageError as error:
            return _unprovable(error.reason, error.detail)

    def _look_for_a_cage(self) -> None:
        """No model is paid for a test that nobody can run. Raises: NoCageError."""
        try:
            refused = self._work.context.cage.check()
        except CageError as error:
            raise NoCageError("cage_failed", str(error)) from error
        if refused is not None:
            raise NoCageError("no_sandbox", refused.sentence)

    def _proved(self) -> Judged:
        try:
            proof = self._ask(ProofAnswer, "prover")
        except SeatFailedError as error:
            return _unprovable("no_prover", f"{error.cause}: {error.detail}")
        source = proof.answer.test
        self.record |= {"test": source, "spec_quote": proof.answer.spec_quote}
        if not is_rule_of(proof.answer.spec_quote, self._work.material.spec):
            return _unprovable("no_rule", "the sentence that the test is said to check is not in the spec")
        if not test_names(source):
            return _unprovable("no_test", "the prover's file defines no test")
        reader = reads_source(source)
        if reader:
            return _unprovable("reads_source", f"the test looks at the code's text by {reader}")
        control = self._control(proof)
        return control if isinstance(control, Judged) else self._tried(source, control)

    def _control(self, proof: Answered[ProofAnswer]) -> dict[str, str] | Judged:
        seat = control_for(self._work.team, proof.link.family)
        try:
            answered = self._ask(ControlAnswer, "control", seat=seat)
        except SeatFailedError as error:
            return _unprovable("no_control", f"{error.cause}: {error.detail}")
        # A file that it was shown only in part stays as it is.
        returned = answered.answer.files.items()
        files = {**self._code, **{path: text for path, text in returned if path not in self._fixed}}
        self.record["control_files"] = {
            path: text for path, text in files.items() if self._code.get(path) != text
        }
        if answered.link.family == proof.link.family:
            return _unprovable("same_family_control", f"prover and control are both {answered.link.family}")
        problem = control_problem(self._code, files)
        return _unprovable("no_control", problem) if problem else files

    def _tried(self, source: str, control: dict[str, str]) -> Judged:
        guarding = guard_tests(self._work)
        tests = {TEST_PATH: source, **guarding}
        on_code = try_out(self._work, "code", self._code, tests, watch=self._claim.span)
        self._keep(on_code)
        on_control = try_out(self._work, "control", control, tests)
        self._keep(on_control)
        guards = green(on_code.runs, guarding) & green(on_control.runs, guarding)
        self.record["guards"] = len(guards)
        judged = self._judge(on_code.runs, on_control.runs, source, guarding)
        if judged.proof is not Proof.REPRODUCED or not hangs(on_code.runs):
            return judged
        # A busy machine is slow for everybody: what hangs must hang however long one waits.
        patient = try_out(self._work, "code", self._code, tests, cages=1, patience=_PATIENCE)
        self._keep(patient)
        return self._judge((*on_code.runs, *patient.runs), on_control.runs, source, guarding)

    def _judge(
        self,
        code: Sequence[CageRun],
        control: Sequence[CageRun],
        source: str,
        guarding: Mapping[str, str],
    ) -> Judged:
        return judge(code=code, control=control, source=source, tests=guarding, spec=self._work.material.spec)

    def _keep(self, trial: Trial) -> None:
        self.record["runs"] = [*self.record.get("runs", ()), *trial.kept]
        self.record["cage_seconds"] = round(self.record.get("cage_seconds", 0.0) + trial.seconds, 3)

    def _ask(self, answer_type: Any, role: str, seat: Seat | None = None) -> Answered[Any]:
        work = self._work
        if seat is not None:
            work = dataclasses.replace(work, place=dataclasses.replace(work.place, seat=seat))
        shown, self._fixed = to_rewrite(work, first=[self._claim.span], beside=[bare_line(self._claim)])
        answered = ask(
            work,
            answer_type=answer_type,
            role=role,
            render_user=lambda: work.context.render(
                "material.md",
                spec=work.material.spec,
                files=shown,
                tests=guard_tests(work),
                claims=bare_line(self._claim),
                reviews="",
            ),
        )
        who = provenance_of(answered)
        self.record["simulated"] = self.record["simulated"] or who["simulated"]
        self.record[role] = who
        return answered


def _unprovable(reason: str, detail: str) -> Judged:
    return Judged(proof=Proof.UNPROVABLE, reason=reason, detail=detail[:400])
