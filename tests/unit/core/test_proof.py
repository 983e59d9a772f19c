"""The gate as arithmetic: what a test's runs on the code and on its control are allowed to say (PANEL §4)."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.factories import make_claim
from workers.core.finding import Severity
from workers.core.proof import (
    TEST_PATH,
    CageRun,
    FileRun,
    Judged,
    Outcome,
    Proof,
    TestCase,
    Told,
    control_problem,
    green,
    guards,
    hangs,
    is_rule_of,
    judge,
    passes,
    reads_source,
    setup_fault,
    test_names,
    to_prove,
)
from workers.core.team import Policy

SOURCE = "from a import add\n\ndef test_one():\n    assert add(1, 2) == 3\n"
GUARD = {"test_guard.py": "def test_guard():\n    pass\n"}
SPEC = "Write add(a, b), which returns the sum of two numbers."


def case(outcome: Outcome = "passed", name: str = "test_one", **changes: str) -> TestCase:
    return TestCase(name=name, outcome=outcome, **changes)


def failing(name: str = "test_one", message: str = "assert -1 == 3", **changes: str) -> TestCase:
    return case(
        "failed", name, **{"error": "AssertionError", "message": message, "raised_in": TEST_PATH, **changes}
    )


def ran(*cases: TestCase, has_reached: bool | None = True) -> FileRun:
    return FileRun(told=Told.REPORTED, cases=cases, has_reached=has_reached)


def cages(*repeats: FileRun, guard: TestCase | None = None) -> list[CageRun]:
    """Two cages that both see these repeats of the deciding test, and the guard."""
    kept = ran(guard or case(name="test_guard"))
    return [CageRun(files={TEST_PATH: repeats, "test_guard.py": (kept,)}) for _ in range(2)]


def judged(code: list[CageRun], control: list[CageRun], source: str = SOURCE) -> Judged:
    return judge(code=code, control=control, source=source, tests=GUARD, spec=SPEC)


def word(code: list[CageRun], control: list[CageRun], source: str = SOURCE) -> tuple[str, str]:
    found = judged(code, control, source)
    return found.proof.value, found.reason


BAD, GOOD = cages(ran(failing())), cages(ran(case()))


def test_a_test_that_fails_on_the_code_and_passes_on_the_control_reproduces() -> None:
    found = judged(BAD, GOOD)

    assert (found.proof, found.reason, found.detail) == (
        Proof.REPRODUCED,
        "fails_on_code",
        "assert -1 == 3",
    )


def test_the_four_ways_that_a_steady_test_can_end() -> None:
    other = cages(ran(failing(message="assert -3 == 3")))
    assert judged(BAD, GOOD) == Judged(
        proof=Proof.REPRODUCED, reason="fails_on_code", detail="assert -1 == 3"
    )
    assert judged(GOOD, GOOD) == Judged(
        proof=Proof.NOT_REPRODUCED, reason="passes_on_code", detail="the test passes on the code as it is"
    )
    assert judged(GOOD, BAD) == Judged(
        proof=Proof.INCONCLUSIVE,
        reason="control_fails",
        detail="the test passes on the code and fails on the control",
    )
    assert judged(BAD, other) == Judged(
        proof=Proof.INCONCLUSIVE,
        reason="fails_everywhere",
        detail="the test fails on the code and on the control alike",
    )


def test_the_same_message_everywhere_is_one_set_up_fault() -> None:
    assert word(BAD, BAD) == ("inconclusive", "setup_fault")
    assert judged(BAD, BAD).detail == "every test ends with the same message: assert -1 == 3"
    hung = cages(FileRun(told=Told.HUNG))
    assert word(hung, hung) == ("inconclusive", "fails_everywhere"), "two that hang have said nothing"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        ("\n assert -1 == 3\n  where -1 = <object at 0x7f>", "assert -1 == 3"),
        ("m" * 400, "m" * 300),
        ("", "AssertionError"),
    ],
)
def test_what_a_failure_says_is_its_first_line_and_bounded(message: str, shown: str) -> None:
    code = cages(ran(case(name="test_two"), failing(message=message)))
    control = cages(ran(case(name="test_two"), case()))
    assert judged(code, control).detail == shown


def test_one_run_on_each_side_is_enough_to_judge() -> None:
    assert word(BAD[:1], GOOD[:1]) == ("reproduced", "fails_on_code")


def test_a_named_test_that_is_collected_nowhere_shows_nothing() -> None:
    other = cages(ran(case(name="test_other")))
    assert word(other, other) == ("inconclusive", "setup_fault")


def test_a_failure_without_a_word_is_still_a_failure() -> None:
    assert judged(cages(ran(failing(message="", error=""))), GOOD).detail == "the test fails"
    alone = cages(ran(case(name="test_other")))
    assert judged(alone, GOOD).detail == "no test was collected"


@pytest.mark.parametrize(
    ("cases", "detail"),
    [
        ((), "no test was collected"),
        ((case("skipped"),), "a test was skipped"),
        ((case("skipped"), failing()), "a test was skipped"),
        ((case("error", message="boom"),), "the test does not get as far as the code: boom"),
        ((case("error", error="OSError"),), "the test does not get as far as the code: OSError"),
        # One of them is a failure, but with the very words of the fixture that broke.
        (
            (case("error", message="boom", error="E"), failing("test_two", "boom", error="E")),
            "every test ends with the same message: boom",
        ),
        ((case("error", message="boom", error="E"), failing("test_two", "bang", error="E")), ""),
        ((case("error", message="boom", error="E"), failing("test_two", "boom", error="F")), ""),
        ((failing("test_one", "boom"), failing("test_two", "boom")), ""),
        ((failing(),), ""),
    ],
)
def test_a_set_up_fault_is_told_in_its_own_words(cases: tuple[TestCase, ...], detail: str) -> None:
    assert setup_fault(ran(*cases), SPEC) == detail


def test_what_hangs_has_no_set_up_fault() -> None:
    assert setup_fault(FileRun(told=Told.HUNG), SPEC) == ""
    assert hangs([CageRun(files={TEST_PATH: (ran(case()), FileRun(told=Told.HUNG))})])
    assert not hangs([CageRun(files={TEST_PATH: (ran(case()),)}), CageRun(files={})])
    assert not hangs([CageRun(files={"test_guard.py": (FileRun(told=Told.HUNG),)})]), "that is not the test"


@pytest.mark.parametrize(
    "code",
    [
        cages(ran(failing()), ran(case())),
        [cages(ran(failing()))[0], cages(ran(case()))[0]],
    ],
    ids=["between repeats", "between cages"],
)
def test_a_test_that_changes_its_mind_is_flaky(code: list[CageRun]) -> None:
    assert word(code, GOOD) == ("inconclusive", "flaky")
    assert word(BAD, code) == ("inconclusive", "flaky")
    assert judged(code, GOOD).detail == "on the code the test does not end the same way every time"
    assert judged(BAD, code).detail == "on the control the test does not end the same way every time"


@pytest.mark.parametrize("where", ["code", "control"])
def test_a_process_that_ends_itself_proves_nothing(where: str) -> None:
    died = cages(FileRun(told=Told.DIED))
    code, control = (died, GOOD) if where == "code" else (BAD, died)

    assert word(code, control) == ("inconclusive", "broken")
    assert judged(code, control).detail == f"on the {where} the process ended without a report of its tests"


@pytest.mark.parametrize("where", ["code", "control"])
def test_who_interferes_with_its_test_is_named_and_proves_nothing(where: str) -> None:
    tampered = cages(ran(case()), FileRun(told=Told.TAMPERED))
    code, control = (tampered, GOOD) if where == "code" else (BAD, tampered)

    found = judged(code, control)
    assert (found.proof, found.reason) == (Proof.INCONCLUSIVE, f"{where}_tampers")
    assert found.detail == f"the {where} interfered with its test"


def test_a_cage_without_a_report_proves_nothing() -> None:
    ended = CageRun(problem="the cage ended with timed out")
    for code, control in (([ended], GOOD), (BAD, [ended])):
        found = judged(code, control)
        assert (found.proof, found.reason) == (Proof.INCONCLUSIVE, "broken")
        assert found.detail == "the cage ended with timed out"
    assert judged([CageRun(problem="p" * 500)], GOOD).detail == "p" * 400
    kept = {"test_guard.py": GOOD[0].files["test_guard.py"]}
    for nothing in (CageRun(files={**kept, TEST_PATH: ()}), CageRun(files=kept)):
        for code, control in (([nothing], GOOD), (BAD, [nothing])):
            assert word(code, control) == ("inconclusive", "broken")
            assert judged(code, control).detail == "the test was not run"


def test_a_code_that_never_ends_is_reproduced_by_a_test_that_ends_on_the_control() -> None:
    found = judged(cages(FileRun(told=Told.HUNG)), GOOD)

    assert (found.proof, found.detail) == (Proof.REPRODUCED, "the test does not end")


def test_a_test_that_never_came_near_the_lines_shows_nothing_false() -> None:
    away = cages(ran(case(), has_reached=False))

    assert word(away, GOOD) == ("inconclusive", "lines_not_reached")
    assert judged(away, GOOD).detail == "the test passes on the code without reaching its lines"
    unwatched = cages(ran(case(), has_reached=None))
    assert word(unwatched, GOOD) == ("not_reproduced", "passes_on_code")


def test_a_control_that_breaks_a_green_test_is_no_control() -> None:
    broken = cages(ran(case()), guard=failing("test_guard"))

    found = judged(BAD, broken)

    assert (found.proof, found.reason) == (Proof.UNPROVABLE, "control_breaks_tests")
    assert "test_guard.py::test_guard" in found.detail


def test_a_guard_that_was_red_before_need_not_be_green_after() -> None:
    red = failing("test_guard")

    assert word(cages(ran(failing()), guard=red), cages(ran(case()), guard=red))[0] == "reproduced"


@pytest.mark.parametrize(
    ("failure", "is_fault"),
    [
        (failing(), False),
        (case("error", message="ModuleNotFoundError: No module named 'nope'"), True),
        (
            failing(error="ImportError", message="cannot import name 'helper' from 'a' (/workspace/a.py)"),
            True,
        ),
        (failing(error="ImportError", message="cannot import name 'add' from 'a' (/workspace/a.py)"), False),
        (failing(error="AttributeError", message="module 'add' has no attribute 'helper'"), True),
        (failing(error="AttributeError", message="module 'helper' has no attribute 'add'"), False),
        (failing(error="ModuleNotFoundError", message="No module named 'package.add'"), False),
        (failing(error="ModuleNotFoundError", message="No module named 'add.helper'"), True),
        (failing(error="SyntaxError", message="invalid syntax"), True),
        (failing(error="ImportError", message="cannot import name 'add"), False),
        (failing(error="NameError", message="name 'ad' is not defined"), True),
        (failing(error="NameError", message="name 'x' is not defined", raised_in="a.py"), False),
        (failing(error="NameError", message="name 'x' is not defined"), True),
        (case("skipped"), True),
    ],
)
def test_a_test_that_does_not_get_as_far_as_the_code_is_a_set_up_fault(
    failure: TestCase, is_fault: bool
) -> None:
    """A name that the code lacks is its fault only where the spec asks for that name."""
    expected = ("inconclusive", "setup_fault") if is_fault else ("reproduced", "fails_on_code")

    assert word(cages(ran(failure)), GOOD) == expected


def test_a_report_without_the_named_test_does_not_pass() -> None:
    names = test_names(SOURCE)

    assert passes(ran(case()), names)
    assert passes(ran(case(name="test_one[1-2]")), names)
    assert not passes(ran(), names)
    assert not passes(ran(case(name="test_other")), names)
    assert not passes(ran(case(), case("skipped", "test_two")), names)
    assert not passes(ran(case()), ())
    assert not passes(FileRun(told=Told.DIED, cases=(case(),)), names)


ENDS = st.sampled_from(["passed", "failed", "error", "skipped"])
RUNS = st.builds(
    lambda told, outcomes, reached: FileRun(
        told=told,
        cases=tuple(case(outcome, message="m") for outcome in outcomes) if told is Told.REPORTED else (),
        has_reached=reached,
    ),
    st.sampled_from(Told),
    st.lists(ENDS, max_size=2),
    st.sampled_from([True, False, None]),
)


@given(st.lists(RUNS, min_size=1, max_size=3), st.lists(RUNS, min_size=1, max_size=3))
def test_nothing_is_reproduced_unless_every_run_fails_on_the_code_and_passes_on_the_control(
    code: list[FileRun], control: list[FileRun]
) -> None:
    names = test_names(SOURCE)
    found = judged(cages(*code), cages(*control))

    if found.proof is Proof.REPRODUCED:
        assert not any(passes(run, names) for run in code)
        assert all(passes(run, names) for run in control)
    if found.proof is Proof.NOT_REPRODUCED:
        assert all(passes(run, names) for run in (*code, *control))


def test_green_is_what_passes_in_every_run_of_every_cage() -> None:
    once = CageRun(files={"test_guard.py": (ran(case(name="test_guard")), ran(failing("test_guard")))})
    always = CageRun(files={"test_guard.py": (ran(case(name="test_guard")),)})

    assert green([always, always], GUARD) == {"test_guard.py::test_guard"}
    assert green([always, once], GUARD) == frozenset()
    assert green([always, CageRun(problem="gone")], GUARD) == frozenset()
    assert green([CageRun(files={})], GUARD) == frozenset()
    two = {**GUARD, "test_more.py": "def test_more():\n    pass\n"}
    both = CageRun(files={**always.files, "test_more.py": (ran(case(name="test_more")),)})
    assert green([both], two) == {"test_guard.py::test_guard", "test_more.py::test_more"}


def test_named_tests_are_found_without_running_anything() -> None:
    source = (
        "class TestA:\n    def test_x(self): ...\n    def help(self): ...\nasync def test_y(): ...\nx = 1\n"
    )

    assert test_names(source) == ("TestA::test_x", "test_y")
    assert test_names("def test_z(): ...\n" + source) == ("test_z", "TestA::test_x", "test_y")
    assert test_names("def test_(") == ()


def test_guards_are_the_files_that_pytest_would_collect() -> None:
    given_tests = {"test_a.py": SOURCE, "help.py": SOURCE, "test_b.txt": SOURCE, "test_c.py": "x = 1\n"}
    later = {"deep/x_test.py": SOURCE, "deep/test_y.py": SOURCE, "test_/y.py": SOURCE, TEST_PATH: SOURCE}

    assert list(guards(given_tests, later)) == ["deep/test_y.py", "deep/x_test.py", "test_a.py"]


@pytest.mark.parametrize(
    ("quote", "holds"),
    [
        ("returns the sum", True),
        ("returns  the\nsum", True),
        ("returns the product", False),
        ("the", False),
        ("the sum ", False),  # seven
        ("sum of t", True),  # eight
        ("", False),
    ],
)
def test_the_rule_must_stand_in_the_spec(quote: str, holds: bool) -> None:
    assert is_rule_of(quote, SPEC) is holds


@pytest.mark.parametrize(
    ("source", "by"),
    [
        ("import inspect", "inspect"),
        ("from ast import parse", "ast"),
        ("import importlib.metadata, ast.x", "ast.x"),
        ("from . import a", None),
        ("print(__spec__)", "__spec__"),
        ("import a\nopen(a.__file__)", "__file__"),
        ("import os, subprocess as s", "subprocess"),
        (SOURCE, None),
    ],
)
def test_a_test_may_not_look_at_the_code_s_text(source: str, by: str | None) -> None:
    assert reads_source(source) == by


def test_a_control_changes_what_the_code_does() -> None:
    code = {"a.py": "def f():\n    return 1\n"}

    assert control_problem(code, {"a.py": "def f():\n    return 2\n"}) is None
    same = "the control is the code: nothing in it changes what it does"
    assert control_problem(code, dict(code)) == same
    assert "is the code" in str(control_problem(code, {"a.py": code["a.py"] + "# mended\n"}))
    assert "lacks 'a.py'" in str(control_problem(code, {"b.py": "x = 1\n"}))


def test_costly_and_agreed_claims_are_tested_first_and_low_or_killed_ones_never() -> None:
    lone = make_claim("C1")
    agreed = make_claim("C2", flagged_by=("left", "right"))
    high = make_claim("C3", severity=Severity.HIGH)
    low = make_claim("C4", severity=Severity.LOW, flagged_by=("left", "right"))
    dead = make_claim("C5", severity=Severity.CRITICAL)
    claims = (lone, agreed, high, low, dead)

    chosen, left_out = to_prove(claims, {"C5"}, Policy(max_proofs=2))

    assert [claim.claim_id for claim in chosen] == ["C3", "C2"]
    assert [claim.claim_id for claim in left_out] == ["C1"]
    assert to_prove(claims, (), Policy(gate="off")) == ((), ())


def test_claims_are_tested_by_cost_then_agreement_then_number() -> None:
    both = ("left", "right")
    claims = (
        make_claim("C1", severity=Severity.HIGH, flagged_by=both, weighted_agreement=0.5),
        make_claim("C2", severity=Severity.CRITICAL),
        make_claim("C3", severity=Severity.CRITICAL, flagged_by=both, weighted_agreement=0.5),
        make_claim("C4", severity=Severity.HIGH, flagged_by=both, weighted_agreement=0.75),
        make_claim(
            "C5", severity=Severity.HIGH, flagged_by=("left", "right", "third"), weighted_agreement=0.5
        ),
        make_claim("C10", severity=Severity.HIGH, flagged_by=both, weighted_agreement=0.5),
        make_claim("C6", severity=Severity.MEDIUM, flagged_by=both, weighted_agreement=0.9),
        make_claim("C7", severity=Severity.MEDIUM, flagged_by=("left",), weighted_agreement=0.9),
    )
    chosen, left_out = to_prove(claims[::-1], (), Policy())

    assert [claim.claim_id for claim in chosen] == ["C3", "C4", "C1", "C5", "C10", "C2"]
    assert [claim.claim_id for claim in left_out] == ["C6", "C7"]


def test_the_order_of_claims_does_not_change_who_is_tested() -> None:
    claims = [make_claim(f"C{number}", severity=Severity.HIGH) for number in range(1, 5)]

    assert {to_prove(order, (), Policy(max_proofs=2)) for order in itertools.permutations(claims)} == {
        (tuple(claims[:2]), tuple(claims[2:]))
    }
