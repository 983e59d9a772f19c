"""What every waste detector owes: located, repeatable, blind to names and outcomes, silent on good runs."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.agentlens.steps import edit, listing, run, shell, think, undo, view
from tests.unit.agentlens.waste_patterns import SHOWN, found
from workers.agentlens.trace import Trace
from workers.agentlens.trajectory import Intent, State
from workers.agentlens.waste import CATEGORIES, DETECTORS, charge
from workers.agentlens.waste.finding import Finding

Find = Callable[[Trace], list[Finding]]
ALL = pytest.mark.parametrize("find", DETECTORS, ids=CATEGORIES)

STRAIGHT = (
    listing("src"),
    view("src/a.py", (1, 50)),
    shell("python repro.py", intent=Intent.E, outcome="error", seen="boom"),
    think(),
    edit("src/a.py", "x", "y"),
    shell("python repro.py", seen="fine"),
    shell("pytest tests", seen="1 passed"),
)

# What the report says of it: the pattern, how many times beyond the first, the sentence, the advice.
SAID: dict[str, tuple[str, int, str, str]] = {
    "blind_retry": (
        "check|t",
        2,
        "check t was tried 2 more time(s) without news",
        "read the error or look at something new before trying again",
    ),
    "regression_loop": (
        "a.py",
        2,
        "a.py was edited in the same place 3 times, the check still failing",
        "find out why the check fails before the next edit",
    ),
    "redundant_step": (
        "view|a.py",
        1,
        "view a.py was looked at 1 more time(s), unchanged",
        "use what the first look showed",
    ),
    "unnecessary_exploration": (
        "b.py c.py",
        2,
        "2 steps explored b.py, c.py after the patch had been verified",
        "stop when the verified patch answers the problem",
    ),
    "cyclic_pattern": (
        "view|a.py > view|b.py",
        2,
        "2 actions were gone through 3 times in a row",
        "change the plan after the first round",
    ),
}
PATTERNS = [pytest.param(c, id=c) for c in CATEGORIES]


@pytest.mark.parametrize("category", PATTERNS)
def test_its_pattern_is_found_at_the_steps_counted_by_hand(category: str) -> None:
    states, steps = SHOWN[category]
    (finding,) = found(category, states)
    assert finding.steps == steps
    assert (finding.pattern, finding.repeats, finding.evidence, finding.hint) == SAID[category]


@ALL
def test_a_straight_run_wastes_nothing(find: Find) -> None:
    assert find(run(*STRAIGHT).trace) == []


@ALL
def test_an_empty_run_wastes_nothing(find: Find) -> None:
    assert find(run().trace) == []


@pytest.mark.parametrize("category", PATTERNS)
def test_a_pattern_that_a_donor_shows_as_often_is_not_waste(category: str) -> None:
    states, _ = SHOWN[category]
    mine = run(*states)
    counted = charge(mine.trace, mine.findings, donors=[mine.findings])
    assert [f for f in counted.findings if f.category == category] == []


STEPS = st.sampled_from(
    [
        view("a.py"),
        view("a.py", (1, 40)),
        view("b.py"),
        listing("src"),
        edit("a.py", "x", "y"),
        edit("a.py", "y", "x"),
        edit("a.py", "x", "z", outcome="error"),
        edit("b.py", "p", "q", at=(3, 9)),
        undo("a.py"),
        shell("pytest t", seen="ok"),
        shell("pytest t", outcome="error", seen="E"),
        shell("grep foo a.py", intent=Intent.E),
        think(),
    ]
)
RUNS = st.lists(STEPS, max_size=25)


@ALL
@given(states=RUNS)
def test_findings_are_located_named_and_never_empty(find: Find, states: list[State]) -> None:
    trace = run(*states).trace
    for finding in find(trace):
        assert finding.category in CATEGORIES
        assert finding.steps
        assert list(finding.steps) == sorted(set(finding.steps))
        assert set(finding.steps) <= set(trace.acting)
        assert finding.repeats >= 1


@ALL
@given(states=RUNS)
def test_the_same_run_gives_the_same_findings_whatever_its_name_and_outcome(
    find: Find, states: list[State]
) -> None:
    one = run(*states, name="x-pass-1", outcome="passed")
    other = run(*states, name="x-fail-1", outcome="failed")
    assert find(one.trace) == find(other.trace)


@given(RUNS, RUNS)
def test_severity_is_the_share_of_the_union_of_wasted_steps(mine: list[State], donor: list[State]) -> None:
    candidate, other = run(*mine), run(*donor)
    wasted = charge(candidate.trace, candidate.findings, donors=[other.findings])
    assert 0.0 <= wasted.severity <= 1.0
    assert set(wasted.steps) == {step for finding in wasted.findings for step in finding.steps}
    assert wasted.severity == (len(wasted.steps) / len(mine) if mine else 0.0)
