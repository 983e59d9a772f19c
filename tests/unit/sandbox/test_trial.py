"""What is taken for a report of tests, and what is not."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from tests.cages import NoCage, TestsCage, passed, result
from workers.core.artefact import Span
from workers.core.proof import TEST_PATH, CageRun, Told
from workers.sandbox.base import CageResult, Ending, Limits, Unprovable, Workspace
from workers.sandbox.trial import REPEATS, read_report, run_tests

LIMITS = Limits()
ONE = {TEST_PATH: 1}


def report(value: Any) -> bytes:
    return json.dumps(value).encode()


def read(stdout: bytes, **changes: Any) -> CageRun:
    return read_report(result(stdout, LIMITS, **changes), ONE)


WHOLE = {TEST_PATH: [passed("test_one")]}


def test_the_keepers_one_line_is_a_report() -> None:
    run = read(report(WHOLE) + b"\n")

    assert run.problem == ""
    assert run.files[TEST_PATH][0].told is Told.REPORTED
    assert run.files[TEST_PATH][0].cases[0].outcome == "passed"


@pytest.mark.parametrize(
    "stdout",
    [
        b"",
        b"1 passed in 0.01s\n",
        report(WHOLE) + b"\n" + report(WHOLE),
        b"x" + report(WHOLE),
        report({}),
        report({TEST_PATH: []}),
        report({TEST_PATH: [passed("test_one")] * 2}),
        report({**WHOLE, "other.py": []}),
        report({TEST_PATH: [{"told": "reported", "cases": [{"name": "a", "outcome": "xpassed"}]}]}),
        report({TEST_PATH: [{"told": "trust me"}]}),
        report([WHOLE]),
    ],
    ids=range(11),
)
def test_anything_else_is_none(stdout: bytes) -> None:
    assert read(stdout).problem == "what the cage wrote is not its keeper's report"


def test_an_exit_code_or_an_ending_that_is_not_clean_spoils_a_whole_report() -> None:
    assert "exit code 137" in read(report(WHOLE), exit_code=137).problem
    assert read(report(WHOLE), ending=Ending.TIMED_OUT).problem == "the cage ended with timed out"


def test_deciding_tests_are_repeated_and_guard_tests_are_not() -> None:
    cage = TestsCage(lambda _, __: passed("test_one"))

    tried = run_tests(cage, {"a.py": "x = 1\n"}, {TEST_PATH: "t", "test_g.py": "g"}, LIMITS)

    assert not isinstance(tried, Unprovable)
    assert {path: len(runs) for path, runs in tried[0].files.items()} == {TEST_PATH: REPEATS, "test_g.py": 1}


def test_the_tests_lie_on_top_of_whatever_the_code_brings() -> None:
    cage = TestsCage(lambda _, __: passed("test_one"))

    run_tests(
        cage,
        {TEST_PATH: "forged", "a.py": "x = 1\n"},
        {TEST_PATH: "true"},
        LIMITS,
        watch=Span(path="a.py", start=1, end=1),
    )

    assert cage.seen == [{TEST_PATH: "true", "a.py": "x = 1\n"}]


def test_without_a_cage_nothing_is_run() -> None:
    assert isinstance(run_tests(NoCage(), {}, {TEST_PATH: "t"}, LIMITS), Unprovable)


class RecordingCage(TestsCage):
    """Remembers what it was told to run, and how it was to look at it."""

    def run(self, workspace: Workspace, command: Sequence[str], limits: Limits) -> CageResult | Unprovable:
        self.command, self.limits = tuple(command), limits
        return super().run(workspace, command, limits)


def test_the_keeper_is_told_what_to_run_how_often_how_long_and_what_to_watch() -> None:
    cage = RecordingCage(lambda _, __: {**passed("test_one"), "has_reached": True})
    limits = Limits(timeout_seconds=20)
    code = {"a.py": "1", "a.pyc": "2", "a.so": "3", "consensus_gate/b.py": "4", "consensus_gate/b.pyc": "5"}
    ended = run_tests(
        cage,
        code,
        {TEST_PATH: "deciding", "test_guard.py": "guard"},
        limits,
        watch=Span(path="a.py", start=2, end=7),
    )
    assert cage.seen == [{"a.py": "1", TEST_PATH: "deciding", "test_guard.py": "guard"}]
    assert (cage.command[:3], cage.limits) == (("python", "-P", "-c"), limits)
    # 20 s less 3 for the keeper, over four runs of the one file and one of the other: 3.4 s each.
    assert json.loads(cage.command[4]) == {
        "repeats": {TEST_PATH: 4, "test_guard.py": 1},
        "seconds": 3.4,
        "watch": {"path": "a.py", "start": 2, "end": 7},
        "watched_by": TEST_PATH,
    }
    assert not isinstance(ended, Unprovable)
    assert ended[0].files[TEST_PATH][3].has_reached is True


def test_the_shortest_time_of_a_run_is_half_a_second() -> None:
    cage = RecordingCage(lambda _, __: passed("test_one"))
    run_tests(cage, {}, {TEST_PATH: "deciding"}, Limits(timeout_seconds=4))
    assert json.loads(cage.command[4]) | {"repeats": None} == {
        "repeats": None,
        "seconds": 0.5,
        "watch": None,
        "watched_by": TEST_PATH,
    }
