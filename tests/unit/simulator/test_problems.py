"""Everything the simulator knows is real: solutions that pass, defects that fail, fixes that mend."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.unit.simulator.problem_checks import GOOD, SHOWS, Check
from tests.unit.simulator.rehearsal import example_specs, examples
from workers.providers.simulator.catalogue import load_catalogue, spec_digest
from workers.providers.simulator.edit import line_range, replace_block
from workers.providers.simulator.problem import MODELS, Problem, Variant, family

PROBLEMS = {problem.name: problem for problem in load_catalogue().by_digest.values()}
VARIANTS = [(problem, variant) for problem in PROBLEMS.values() for variant in problem.variants]
BUGS = [(problem, name) for problem in PROBLEMS.values() for name in problem.bugs]


def load(code: str, folder: Path) -> ModuleType:
    """The program as a module; its own file, so that a failing check shows its lines."""
    path = folder / "program.py"
    path.write_text(code, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fails(check: Check, program: ModuleType) -> bool:
    """Whether the program fails the check: wrong answer, good input refused, bad input taken."""
    try:
        check(program)
    except (AssertionError, ValueError, pytest.fail.Exception):
        return True
    return False


def with_bugs(problem: Problem, *names: str) -> str:
    return problem.code_of(Variant(name="planted", bugs=names))


@pytest.fixture(autouse=True)
def _no_bytecode(monkeypatch: pytest.MonkeyPatch) -> None:
    # A test writes several programs to one path within one second: a cached one would be run again.
    monkeypatch.setattr(sys, "dont_write_bytecode", True)


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=lambda problem: problem.name)
def test_the_good_solution_passes_every_check(problem: Problem, tmp_path: Path) -> None:
    program = load(problem.solution, tmp_path)
    assert [check for check in GOOD[problem.name] if fails(check, program)] == []


@pytest.mark.parametrize(("problem", "bug"), BUGS, ids=lambda value: getattr(value, "name", value))
def test_a_planted_bug_fails_its_own_check_and_no_other(problem: Problem, bug: str, tmp_path: Path) -> None:
    program = load(with_bugs(problem, bug), tmp_path)
    failing = [check for check in GOOD[problem.name] if fails(check, program)]
    assert failing == [SHOWS[problem.name, bug]]


@pytest.mark.parametrize(("problem", "variant"), VARIANTS, ids=lambda value: getattr(value, "name", value))
def test_a_variant_fails_exactly_the_checks_of_its_bugs(
    problem: Problem, variant: Variant, tmp_path: Path
) -> None:
    program = load(problem.code_of(variant), tmp_path)
    failing = {check for check in GOOD[problem.name] if fails(check, program)}
    assert failing == {SHOWS[problem.name, bug] for bug in variant.bugs}


@pytest.mark.parametrize(("problem", "bug"), BUGS, ids=lambda value: getattr(value, "name", value))
def test_the_fix_of_a_bug_gives_the_good_solution_back(problem: Problem, bug: str) -> None:
    planted = problem.bugs[bug]
    assert replace_block(with_bugs(problem, bug), planted.planted, planted.good) == problem.solution


def test_every_bug_has_a_check_and_every_check_of_a_bug_is_among_those_of_its_problem() -> None:
    assert set(SHOWS) == {(problem.name, bug) for problem, bug in BUGS}
    assert set(GOOD) == set(PROBLEMS)
    assert all(check in GOOD[name] for (name, _), check in SHOWS.items())


def test_the_examples_are_the_problems_word_for_word() -> None:
    specs = {**example_specs(), **{line["id"]: line["spec"] for line in examples("teams.jsonl")}}
    assert len(specs) >= 13
    assert {spec_digest(spec) for spec in specs.values()} == set(load_catalogue().by_digest)
    assert all(5 <= len(spec.splitlines()) <= 15 for spec in specs.values())


def test_every_model_sees_some_bugs_and_misses_others() -> None:
    seen = {model: sum(model in problem.bugs[bug].seen_by for problem, bug in BUGS) for model in MODELS}
    assert all(0 < count < len(BUGS) for count in seen.values()), seen
    eyes = {model: [model in problem.bugs[bug].seen_by for problem, bug in BUGS] for model in MODELS}
    assert len({tuple(sees) for sees in eyes.values()}) == len(MODELS), "two models see with the same eyes"


def test_only_one_model_invents_findings_once_with_a_quote_that_stands_nowhere() -> None:
    inventions = [
        (problem, invention) for problem in PROBLEMS.values() for invention in problem.inventions.values()
    ]
    assert {model for _, invention in inventions for model in invention.seen_by} == {"sim-alder-small"}
    absent = [
        problem.name
        for problem, invention in inventions
        if line_range(problem.solution, (invention.quoted,)) is None
    ]
    assert absent == ["word_wrap"]
    assert len(inventions) == 2


def test_families_use_words_of_their_own_for_a_bug() -> None:
    for problem, name in BUGS:
        words = problem.bugs[name].wordings
        assert set(words) == {family(model) for model in MODELS}, (problem.name, name)
        assert len(set(words.values())) == len(words), (problem.name, name)
