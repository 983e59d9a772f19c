"""Refuter, prover and control as the simulator plays them: what they say of planted bugs holds, run for run."""

from __future__ import annotations

import json
import sys
from types import ModuleType
from typing import Any

import pytest

from tests.unit.simulator.rehearsal import PROMPTS, ask, material
from workers.core.artefact import numbered
from workers.core.proof import control_problem, is_rule_of, reads_source, test_names
from workers.providers.simulator.catalogue import load_catalogue
from workers.providers.simulator.problem import Problem, Variant

PROBLEMS = {problem.name: problem for problem in load_catalogue().by_digest.values()}
BUGS = [(problem, name) for problem in PROBLEMS.values() for name in problem.bugs]
INVENTIONS = [(problem, name) for problem in PROBLEMS.values() for name in problem.inventions]


def ids(value: Any) -> str:
    return value.name if isinstance(value, Problem) else str(value)


def asked(
    role: str, problem: Problem, files: dict[str, str], claim: str, *, model: str = "sim-birch-large"
) -> Any:
    line = json.dumps({"id": "C1", "claim": claim, "path": problem.path, "lines": [1, 1]})
    user = material(problem.spec, files=files, claims=line)
    if role == "refuter":
        shown = {path: numbered(text) for path, text in files.items()}
        user = PROMPTS.get_template("claim.md").render(claim=line, files=shown)
    return json.loads(ask(role, user, model=model))


def holds(problem: Problem, code: str, test: str) -> bool:
    """Whether every test of the file passes over the code. Both are files of this repository."""
    module = ModuleType(problem.path.removesuffix(".py"))
    sys.modules[module.__name__] = module
    try:
        exec(compile(code, problem.path, "exec"), module.__dict__)  # noqa: S102
        space: dict[str, Any] = {}
        exec(compile(test, "test.py", "exec"), space)  # noqa: S102
        for name in test_names(test):
            space[name]()
    except (AssertionError, ValueError, pytest.fail.Exception):
        return False
    finally:
        del sys.modules[module.__name__]
    return True


@pytest.mark.parametrize(("problem", "name"), BUGS, ids=ids)
def test_a_planted_bug_survives_is_proved_and_is_mended(problem: Problem, name: str) -> None:
    planted = problem.code_of(Variant(name="", bugs=(name,)))
    files, claim = {problem.path: planted}, problem.bugs[name].agreed

    proof = asked("prover", problem, files, claim)
    control = asked("control", problem, files, claim)["files"]

    assert asked("refuter", problem, files, claim)["verdict"] == "survives"
    assert is_rule_of(proof["spec_quote"], problem.spec)
    assert reads_source(proof["test"]) is None
    assert not holds(problem, planted, proof["test"])
    assert holds(problem, control[problem.path], proof["test"])
    assert control == {problem.path: problem.solution}
    assert control_problem(files, control) is None


@pytest.mark.parametrize(("problem", "name"), INVENTIONS, ids=ids)
def test_an_invention_is_killed_with_a_line_that_stands_there(problem: Problem, name: str) -> None:
    files, claim = {problem.path: problem.solution}, problem.inventions[name].agreed

    answer = asked("refuter", problem, files, claim)

    assert answer["verdict"] == "killed"
    assert answer["evidence"][0]["quote"] in problem.solution


def test_of_a_claim_that_nobody_planted_the_simulator_knows_nothing() -> None:
    problem = PROBLEMS["roman"]
    files = {problem.path: problem.solution}

    assert asked("refuter", problem, files, "It is slow.")["verdict"] == "cannot_tell"
    assert asked("prover", problem, files, "It is slow.")["spec_quote"] == ""
    assert asked("control", problem, files, "It is slow.")["files"] == files


def test_the_lead_sends_back_what_a_test_reproduced_and_it_leaves_alone() -> None:
    problem = PROBLEMS["safe_join"]
    files = {problem.path: problem.code_of(Variant(name="", bugs=("sibling-prefix",)))}
    claim = {"id": "C1", "claim": problem.bugs["sibling-prefix"].agreed, "path": problem.path}

    def decision(**more: str) -> str:
        user = material(problem.spec, files=files, claims=json.dumps({**claim, **more}))
        return str(json.loads(ask("lead", user, model="sim-cedar-large"))["decision"])

    assert (decision(), decision(gate="unprovable"), decision(gate="reproduced")) == (
        "sign",
        "sign",
        "send_back",
    )


def test_a_coder_that_gets_its_code_back_mends_what_was_reproduced() -> None:
    problem = PROBLEMS["safe_join"]
    files = {problem.path: problem.code_of(Variant(name="", bugs=("sibling-prefix",)))}

    answer = asked("coder", problem, files, problem.bugs["sibling-prefix"].agreed)

    assert answer["files"] == {problem.path: problem.solution}
