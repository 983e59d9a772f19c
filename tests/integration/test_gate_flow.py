"""Runs through refuters, gate and lead on real servers. The cage is in memory; `tests/sandbox` has a real one."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from sqlalchemy import func, text, update

from tests.cages import NoCage, TestsCage, failed, passed
from tests.factories import make_team
from tests.integration.conftest import Bench, pause
from tests.integration.model_server import CANDIDATE, GOOD, Behaviour, ModelServer, error_500
from workers.celery_app import app
from workers.core.proof import test_names as names_in
from workers.core.run import Stage
from workers.core.submission import check_reviewed
from workers.core.team import Team
from workers.enqueue import send_seat
from workers.errors import CageError, UnavailableError
from workers.provenance import ledger
from workers.provenance.models import stages
from workers.provenance.repository.stages import SeatKey
from workers.sandbox.base import CageResult, Limits, Unprovable, Workspace

BROKEN = {"a.py": "def add(a, b): ...\n"}
MENDED = {"a.py": "def add(a, b):\n    return b + a\n"}


def finding(severity: str = "medium", claim: str = "negative numbers get the wrong sign") -> dict[str, Any]:
    return {
        "claim": claim,
        "severity": severity,
        "location": {"path": "a.py", "start": 2, "end": 2},
        "evidence": [{"path": "a.py", "line": 2, "quote": "return a + b"}],
    }


def says(value: Mapping[str, Any]) -> Behaviour:
    return lambda _, __, ___: json.dumps(value)


def by_role(**answers: Mapping[str, Any]) -> Behaviour:
    """A model that sits in several seats."""
    return lambda role, _, __: json.dumps({**GOOD, **answers}[role])


def complains(*findings: dict[str, Any]) -> Behaviour:
    return by_role(reviewer={"findings": list(findings), "summary": "wrong"})


def gated_team(**policy: Any) -> Team:
    """Two reviewers of two families (birch, cedar), an alder coder; prover and control seats of their own."""

    def seat(model: str) -> dict[str, Any]:
        return {"models": [f"local/{model}"], "timeout_seconds": 5, "max_tokens": 256}

    return make_team(
        refuter=seat("dogwood-1"),
        prover=seat("elm-1"),
        control=seat("fir-1"),
        policy={"quorum": {"heads": 2, "families": 2}, "retries": 0, **policy},
    )


def names(workspace: Workspace, path: str) -> tuple[str, ...]:
    return names_in(str(workspace[path]))


def fails_on_candidate(workspace: Workspace, path: str) -> dict[str, Any]:
    """Every test fails on the coder's code and passes on anything else."""
    is_candidate = workspace["a.py"] == CANDIDATE["a.py"]
    return failed(*names(workspace, path)) if is_candidate else passed(*names(workspace, path))


def passes_everywhere(workspace: Workspace, path: str) -> dict[str, Any]:
    return passed(*names(workspace, path))


Give = Callable[[Any], None]


@pytest.fixture
def both_complain(models: ModelServer) -> ModelServer:
    models.behave["birch-1"] = complains(finding("high"))
    models.behave["cedar-1"] = complains(finding("high"))
    return models


def test_a_reproduced_claim_of_high_severity_rejects(
    bench: Bench, both_complain: ModelServer, caged: Give
) -> None:
    caged(TestsCage(fails_on_candidate))

    verdict = bench.verdict(bench.submit(gated_team()))

    (judged,) = verdict["claims"]
    assert (verdict["outcome"], judged["state"], judged["stands"]) == ("rejected", "upheld", True)
    assert judged["proved"]["proof"] == "reproduced"
    # Nobody else's test guards the control.
    assert (judged["band"], verdict["notes"]) == ("reproduced", ["unguarded_proof"])
    assert (verdict["gate"]["reproduced"], verdict["gate"]["unguarded"]) == (1, ["C1"])
    assert verdict["coverage"]["ungated_claims"] == []


def test_unanimity_is_overruled_by_one_test(bench: Bench, both_complain: ModelServer, caged: Give) -> None:
    caged(TestsCage(passes_everywhere))

    verdict = bench.verdict(bench.submit(gated_team()))

    (judged,) = verdict["claims"]
    assert (verdict["outcome"], judged["is_agreed"]) == ("accepted", True)
    assert (judged["state"], judged["why"]) == (
        "dismissed",
        "shown false: the test passes on the code as it is",
    )


def test_without_a_cage_no_model_is_asked_for_a_test_and_the_claim_is_advisory(
    bench: Bench, both_complain: ModelServer, caged: Give
) -> None:
    caged(NoCage())

    verdict = bench.verdict(bench.submit(gated_team()))

    (judged,) = verdict["claims"]
    assert (verdict["outcome"], judged["state"]) == ("accepted", "advisory")
    assert judged["proved"]["reason"] == "no_sandbox"
    assert verdict["coverage"]["ungated_claims"] == ["C1"]
    assert both_complain.requests["elm-1"] == both_complain.requests["fir-1"] == 0


def test_a_team_that_requires_the_gate_is_degraded_without_a_cage(
    bench: Bench, both_complain: ModelServer, caged: Give
) -> None:
    caged(NoCage())

    verdict = bench.verdict(bench.submit(gated_team(gate="required")))

    assert [(item["code"], item["cause"]) for item in verdict["reasons"]] == [("gate_missing", "no_sandbox")]


def test_a_kill_needs_a_quote_that_stands_in_the_code(bench: Bench, models: ModelServer, caged: Give) -> None:
    caged(NoCage())
    models.behave["birch-1"] = complains(finding())
    kill = {
        "verdict": "killed",
        "ground": "intended",
        "reason": "it adds",
        "evidence": [{"quote": "return a + b"}],
    }
    models.behave["dogwood-1"] = says(kill)
    killed = bench.verdict(bench.submit(gated_team()))
    models.behave["dogwood-1"] = says({**kill, "evidence": [{"quote": "return a - b"}]})
    void = bench.verdict(bench.submit(gated_team()))

    assert killed["claims"][0]["state"] == "killed"
    assert killed["refutation"] == {
        "asked": 1,
        "killed": 1,
        "void": 0,
        "same_family": 0,
        "kill_rate": 1.0,
        "unanswered": [],
        "left_out": [],
    }
    assert [item["state"] for item in killed["costs"]] == ["killed"]
    assert void["claims"][0]["state"] == "advisory"
    assert void["refutation"]["void"] == 1


def test_a_refuter_sees_the_bare_claim_and_the_code_and_nothing_else(
    bench: Bench, both_complain: ModelServer, caged: Give
) -> None:
    caged(NoCage())

    bench.verdict(bench.submit(gated_team()))

    (asked,) = [body for body in both_complain.bodies if body["model"] == "dogwood-1"]
    text = json.dumps(asked["messages"])
    assert "negative numbers get the wrong sign" in text
    assert "return a + b" in text
    for word in ("flagged_by", "agreement", "left", "right", "high", "Add two numbers", "wrong sign because"):
        assert word not in text.replace("right thing", ""), word


def test_a_dead_refuter_leaves_the_claim_as_it_was_and_a_dead_prover_makes_it_unprovable(
    bench: Bench, both_complain: ModelServer, caged: Give
) -> None:
    caged(TestsCage(fails_on_candidate))
    both_complain.behave["dogwood-1"] = both_complain.behave["elm-1"] = error_500

    verdict = bench.verdict(bench.submit(gated_team()))

    (judged,) = verdict["claims"]
    assert verdict["outcome"] == "accepted"
    assert verdict["refutation"]["unanswered"] == ["C1"]
    assert (judged["proved"]["proof"], judged["proved"]["reason"]) == ("unprovable", "no_prover")
    assert judged["state"] == "advisory"


@pytest.mark.parametrize(
    ("model", "answer", "reason"),
    [
        ("elm-1", {"prover": {**GOOD["prover"], "spec_quote": "Multiply two numbers."}}, "no_rule"),
        ("elm-1", {"prover": {**GOOD["prover"], "test": "x = 1\n"}}, "no_test"),
        ("fir-1", {"control": {"files": CANDIDATE}}, "no_control"),
    ],
)
def test_a_proof_without_its_parts_is_no_proof(
    model: str,
    answer: dict[str, Any],
    reason: str,
    bench: Bench,
    both_complain: ModelServer,
    caged: Give,
) -> None:
    caged(TestsCage(fails_on_candidate))
    both_complain.behave[model] = by_role(**answer)

    verdict = bench.verdict(bench.submit(gated_team()))

    assert verdict["claims"][0]["proved"]["reason"] == reason
    assert verdict["claims"][0]["state"] == "advisory"


def test_prover_and_control_of_one_family_prove_nothing(
    bench: Bench, both_complain: ModelServer, caged: Give
) -> None:
    caged(TestsCage(fails_on_candidate))
    both_complain.behave["elm-1"] = error_500
    prover = gated_team().prover.model_copy(update={"models": ("local/elm-1", "local/fir-2")})  # type: ignore[union-attr]
    team = gated_team().model_copy(update={"prover": prover})

    verdict = bench.verdict(bench.submit(team))

    assert verdict["claims"][0]["proved"]["reason"] == "same_family_control"


def test_a_fix_is_believed_when_the_claim_s_test_passes_on_it(
    bench: Bench, both_complain: ModelServer, caged: Give
) -> None:
    caged(TestsCage(fails_on_candidate))
    both_complain.behave["cedar-2"] = by_role(lead={"files": MENDED, "rulings": [], "summary": "mended"})

    verdict = bench.verdict(bench.submit(gated_team()))

    (judged,) = verdict["claims"]
    assert (verdict["outcome"], judged["state"]) == ("accepted", "fixed")
    assert verdict["files"] == MENDED
    assert "fix_unverified" not in verdict["notes"]


def test_a_rewrite_that_breaks_a_green_test_twice_is_discarded(
    bench: Bench, both_complain: ModelServer, caged: Give
) -> None:
    guard = {"test_a.py": "def test_guard():\n    pass\n"}

    def runs(workspace: Workspace, path: str) -> dict[str, Any]:
        if path != "test_a.py":
            return fails_on_candidate(workspace, path)
        return failed("test_guard") if workspace["a.py"] == BROKEN["a.py"] else passed("test_guard")

    caged(TestsCage(runs))
    both_complain.behave["cedar-2"] = by_role(lead={"files": BROKEN, "rulings": [], "summary": "rewritten"})

    run_id = bench.submit(gated_team(), tests=guard)
    verdict = bench.verdict(run_id)

    assert both_complain.requests["cedar-2"] == 2
    assert verdict["files"] == CANDIDATE
    assert (verdict["outcome"], verdict["notes"]) == ("rejected", ["rewrite_discarded"])
    assert verdict["tests"]["green_before"] == ["test_a.py::test_guard"]
    second = [body for body in both_complain.bodies if body["model"] == "cedar-2"][1]
    assert "test_a.py::test_guard" in second["messages"][1]["content"]


def test_the_lead_sends_back_with_what_was_reproduced_and_the_next_round_ends_the_run(
    bench: Bench, both_complain: ModelServer, caged: Give
) -> None:
    caged(TestsCage(fails_on_candidate))

    def coder(_: str, __: dict[str, Any], before: int) -> str:
        return json.dumps({**GOOD["coder"], "files": CANDIDATE if before == 0 else MENDED})

    def reviewer(_: str, body: dict[str, Any], __: int) -> str:
        is_bad = "return a + b" in json.dumps(body["messages"])
        return json.dumps({"findings": [finding("high")] if is_bad else [], "summary": ""})

    def lead(_: str, body: dict[str, Any], __: int) -> str:
        files = CANDIDATE if "return a + b" in json.dumps(body["messages"]) else MENDED
        word = "send_back" if files is CANDIDATE else "sign"
        return json.dumps({"files": files, "rulings": [], "decision": word, "summary": word})

    both_complain.behave |= {"alder-1": coder, "birch-1": reviewer, "cedar-1": reviewer, "cedar-2": lead}

    run_id = bench.submit(gated_team(rounds=3))
    verdict = bench.verdict(run_id)

    assert (verdict["outcome"], verdict["files"]) == ("accepted", MENDED)
    assert verdict["rounds"] == {"count": 2, "stopped": "signed"}
    second = [body for body in both_complain.bodies if body["model"] == "alder-1"][1]
    assert '"gate": "reproduced"' in second["messages"][1]["content"]
    with bench.database.begin() as connection:
        kinds = [entry.kind for entry in ledger.read(connection, run_id)]
    assert kinds.count("round.opened") == 1


def test_a_coder_who_walks_in_a_circle_is_stopped(
    bench: Bench, both_complain: ModelServer, caged: Give
) -> None:
    caged(TestsCage(fails_on_candidate))
    both_complain.behave["cedar-2"] = by_role(lead={**GOOD["lead"], "decision": "send_back"})

    verdict = bench.verdict(bench.submit(gated_team(rounds=5)))

    assert verdict["rounds"] == {"count": 2, "stopped": "oscillation"}
    assert (verdict["outcome"], verdict["notes"]) == (
        "rejected",
        ["unguarded_proof", "oscillation"],
    )
    assert both_complain.requests["alder-1"] == 2


def test_what_was_killed_is_not_to_be_proposed_again_in_the_next_round(
    bench: Bench, both_complain: ModelServer, caged: Give
) -> None:
    caged(TestsCage(fails_on_candidate))
    lone = finding(claim="tabs are used where the style guide asks for blanks everywhere")
    both_complain.behave["birch-1"] = complains(finding("high"), lone)

    def refuter(_: str, body: dict[str, Any], __: int) -> str:
        is_lone = "tabs are used" in json.dumps(body["messages"])
        kill = {"verdict": "killed", "ground": "correctness", "evidence": [{"quote": "return a + b"}]}
        return json.dumps({**kill, "reason": "blanks"} if is_lone else GOOD["refuter"])

    both_complain.behave["dogwood-1"] = refuter
    both_complain.behave["cedar-2"] = by_role(lead={**GOOD["lead"], "decision": "send_back"})

    bench.verdict(bench.submit(gated_team(rounds=2)))

    first, second = (
        json.dumps(body["messages"]) for body in both_complain.bodies if body["model"] == "cedar-1"
    )
    assert "tabs are used" not in first
    assert "tabs are used where the style guide asks for blanks everywhere (correctness: blanks)" in second


def test_a_team_that_runs_the_submitted_tests_rejects_code_that_fails_one(
    bench: Bench, models: ModelServer, caged: Give
) -> None:
    def runs(workspace: Workspace, path: str) -> dict[str, Any]:
        return failed("test_guard") if path == "test_spec.py" else passed("test_own")

    caged(TestsCage(runs))
    own = {"test_own.py": "def test_own():\n    pass\n"}
    models.behave["alder-1"] = by_role(coder={**GOOD["coder"], "tests": own})
    given = {"test_spec.py": "def test_guard():\n    pass\n"}

    verdict = bench.verdict(bench.submit(gated_team(coder_tests=True), tests=given))

    assert (verdict["outcome"], verdict["claims"], verdict["notes"]) == ("rejected", [], ["tests_failing"])
    assert verdict["tests"]["green_after"] == ["test_own.py::test_own"]
    assert verdict["tests"]["red_submitted"] == ["test_spec.py::test_guard"]


def test_a_reviewer_looks_as_often_as_the_team_asks(bench: Bench, models: ModelServer, caged: Give) -> None:
    caged(NoCage())
    models.behave["birch-1"] = complains(finding())

    run_id = bench.submit(gated_team(passes=3, refute=False))
    bench.verdict(run_id)

    assert (models.requests["birch-1"], models.requests["cedar-1"]) == (3, 3)
    with bench.database.begin() as connection:
        reviews = [
            entry.payload for entry in ledger.read(connection, run_id) if entry.kind == "review.arrived"
        ]
    found = [item["finding_id"] for review in reviews for item in review["findings"]]
    assert found == ["left/1/1", "left/2/1", "left/3/1"]


def test_a_fault_of_ours_in_the_gate_leaves_the_claim_unprovable_and_the_run_ends(
    bench: Bench, both_complain: ModelServer, caged: Give
) -> None:
    def breaks(_: Workspace, __: str) -> dict[str, Any]:
        raise RuntimeError("a fault of ours")

    caged(TestsCage(breaks))

    verdict = bench.verdict(bench.submit(gated_team()))

    (judged,) = verdict["claims"]
    assert (verdict["outcome"], judged["state"]) == ("accepted", "advisory")
    assert (judged["proved"]["proof"], judged["proved"]["reason"]) == ("unprovable", "internal_error")


def test_a_cage_that_breaks_twice_is_none(bench: Bench, both_complain: ModelServer, caged: Give) -> None:
    tried = []

    def breaks(_: Workspace, __: str) -> dict[str, Any]:
        tried.append(1)
        raise CageError("the engine went away")

    caged(TestsCage(breaks))

    verdict = bench.verdict(bench.submit(gated_team()))

    assert verdict["claims"][0]["proved"]["reason"] == "cage_failed"
    assert len(tried) == 2


def test_what_hangs_must_hang_however_long_one_waits(
    bench: Bench, both_complain: ModelServer, caged: Give
) -> None:
    """The code's first two cages are slow, the patient third is not: that is a busy machine, no defect."""
    cages = 0

    def runs(workspace: Workspace, path: str) -> dict[str, Any]:
        nonlocal cages
        cages += workspace["a.py"] == CANDIDATE["a.py"]
        # Four repeats a cage.
        is_slow = workspace["a.py"] == CANDIDATE["a.py"] and cages <= 8
        return {"told": "hung"} if is_slow else passed(*names(workspace, path))

    caged(TestsCage(runs))

    verdict = bench.verdict(bench.submit(gated_team()))

    assert verdict["claims"][0]["proved"]["reason"] == "flaky"


def test_submitted_code_is_refuted_and_tested_and_never_sent_back(
    bench: Bench, both_complain: ModelServer, caged: Give
) -> None:
    caged(TestsCage(fails_on_candidate))
    both_complain.behave["cedar-2"] = by_role(lead={"files": {}, "rulings": [], "decision": "send_back"})
    files, existing = check_reviewed(CANDIDATE, diff=None, left_out=[])

    verdict = bench.verdict(bench.submit(gated_team(rounds=3), files=files, review=existing.as_data()))

    (judged,) = verdict["claims"]
    assert (verdict["outcome"], judged["state"]) == ("rejected", "upheld")
    assert (verdict["refutation"]["asked"], verdict["gate"]["reproduced"]) == (1, 1)
    assert verdict["rounds"] == {"count": 1, "stopped": "coder_missing"}
    assert verdict["changed_files"] == []
    assert "alder-1" not in both_complain.requests


def test_a_control_cannot_rewrite_a_file_that_it_has_seen_in_part(
    bench: Bench, both_complain: ModelServer, caged: Give
) -> None:
    caged(TestsCage(fails_on_candidate))
    lines = CANDIDATE["a.py"].splitlines()
    hunk = f"@@ -1,{len(lines)} +1,{len(lines)} @@\n-old\n+{lines[0]}\n" + "".join(
        f" {line}\n" for line in lines[1:]
    )
    files, existing = check_reviewed({}, diff=f"--- a/a.py\n+++ b/a.py\n{hunk}", left_out=[])
    assert existing.parts

    verdict = bench.verdict(bench.submit(gated_team(), files=files, review=existing.as_data()))

    assert verdict["claims"][0]["proved"]["reason"] == "no_control"


@dataclasses.dataclass
class DyingCage:
    """A worker dies in the middle of its first run: it answers nothing, and its lease runs out."""

    cage: TestsCage
    deaths: int = 1

    def run(self, workspace: Workspace, command: Sequence[str], limits: Limits) -> CageResult | Unprovable:
        if self.deaths:
            self.deaths -= 1
            raise UnavailableError("the worker was killed")
        return self.cage.run(workspace, command, limits)

    def check(self) -> Unprovable | None:
        return None


def test_a_gate_that_is_delivered_again_asks_nobody_again(
    bench: Bench, both_complain: ModelServer, caged: Give
) -> None:
    cage = DyingCage(TestsCage(fails_on_candidate))
    caged(cage)
    both_complain.behave["oak-1"] = error_500
    prover = gated_team().prover.model_copy(update={"models": ("local/oak-1", "local/elm-1")})  # type: ignore[union-attr]

    run_id = bench.submit(gated_team().model_copy(update={"prover": prover}))
    gate = SeatKey(run_id=run_id, round=1, stage=Stage.GATE, seat="claim-C1")
    while cage.deaths:
        assert not bench.run(run_id).has_ended
        pause()
    lose_lease(bench, gate)
    send_seat(app, run_id, 1, Stage.GATE, gate.seat)
    verdict = bench.verdict(run_id)

    assert verdict["claims"][0]["proved"]["proof"] == "reproduced"
    assert [both_complain.requests[model] for model in ("oak-1", "elm-1", "fir-1")] == [1, 1, 1]
    # Nor does the record forget whom it asked first.
    with bench.database.begin() as connection:
        (tested,) = [
            entry.payload for entry in ledger.read(connection, run_id) if entry.kind == "claim.tested"
        ]
    (failure,) = tested["prover"]["fallback"]
    assert failure["model"] == "local/oak-1"
    assert "boom" in failure["detail"]
    assert "fallback" not in tested["control"]


def lose_lease(bench: Bench, key: SeatKey) -> None:
    """As if the time of the seat's worker had run out."""
    lost = (
        update(stages)
        .where(stages.c.run_id == key.run_id, stages.c.stage == key.stage)
        .values(lease_expires_at=func.now() - text("interval '1 second'"))
    )
    with bench.database.begin() as connection:
        assert connection.execute(lost).rowcount == 1
