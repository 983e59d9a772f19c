"""Which runs are copies of which."""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.agentlens.steps import shell, trajectory, view
from workers.agentlens.duplicates import (
    Content,
    actions,
    content_digest,
    earlier_episodes,
    originals,
)
from workers.agentlens.duplicates import (
    copies as counted_elsewhere,
)
from workers.agentlens.trajectory import Trajectory

STEPS = (view("a.py"), shell("pytest", seen="1 passed"))


def given_run(path: str, **more: Any) -> Trajectory:
    name = path.rpartition("/")[2].removesuffix(".json")
    return dataclasses.replace(trajectory(*more.pop("steps", STEPS), name=name, **more), path=path)


def copies(*runs: Trajectory) -> dict[str, str]:
    contents = [Content.of(run) for run in runs]
    return {contents[position].path: original.path for position, original in originals(contents).items()}


def test_a_file_beside_its_copy_counts_once_under_its_shorter_name() -> None:
    assert copies(given_run("t/run (copy).json"), given_run("t/run.json")) == {
        "t/run (copy).json": "t/run.json"
    }


@pytest.mark.parametrize("known", [{"thought": "hm"}, {"timestamp": 1.0}, {"observation": "x"}])
def test_one_kind_of_trace_is_enough_to_tell_a_copy(known: dict[str, Any]) -> None:
    steps = (dataclasses.replace(view("a.py"), **known),)
    one, other = given_run("a.json", steps=steps), given_run("b.json", steps=steps)
    assert copies(one, other) == {"b.json": "a.json"}
    bare = (view("a.py"),)
    assert copies(given_run("a.json", steps=bare), given_run("b.json", steps=bare)) == {}


def test_the_copy_that_knows_its_problem_and_outcome_counts() -> None:
    lonely = given_run("x.json", problem=None, outcome="unknown")
    at_home = given_run("trials/1/trajectory.json", problem="p")
    assert copies(lonely, at_home) == {"x.json": "trials/1/trajectory.json"}


@pytest.mark.parametrize("field", ["problem", "model", "outcome"])
def test_runs_that_contradict_each_other_are_no_copies(field: str) -> None:
    values: dict[str, tuple[Any, Any]] = {
        "problem": ("p", "q"),
        "model": ("alpha", "beta"),
        "outcome": ("passed", "failed"),
    }
    one, two = (given_run(f"{n}.json", **{field: value}) for n, value in enumerate(values[field]))
    assert copies(one, two) == {}


@pytest.mark.parametrize(
    "changed",
    [
        {"observation": "2 passed"},
        {"thought": "hm"},
        {"timestamp": 1.0},
        {"tokens_in": 7},
        {"exit_code": 1},
        {"content_digest": "x"},
    ],
)
def test_runs_that_went_otherwise_in_anything_are_no_copies(changed: dict[str, Any]) -> None:
    other = (STEPS[0], dataclasses.replace(STEPS[1], **changed))
    assert copies(given_run("a.json"), given_run("b.json", steps=other)) == {}


def test_an_id_of_the_logs_own_tells_runs_apart() -> None:
    one, two = (
        dataclasses.replace(given_run(f"{n}/trajectory.json"), trajectory_id=f"session-{n}") for n in range(2)
    )
    assert copies(one, two) == {}
    assert copies(one, dataclasses.replace(two, trajectory_id="session-0")) != {}


def test_logs_that_cannot_tell_copies_from_equals_are_left_alone() -> None:
    silent = (view("a.py"), shell("pytest"))
    assert copies(given_run("a.json", steps=silent), given_run("b.json", steps=silent)) == {}
    assert copies(given_run("a.json", steps=()), given_run("b.json", steps=())) == {}


RUNS = st.lists(
    st.tuples(
        st.sampled_from([b"x", b"y"]),
        st.sampled_from([None, "p", "q"]),
        st.sampled_from(["", "alpha"]),
        st.sampled_from(["passed", "failed", "unknown"]),
    ),
    max_size=8,
)


@given(RUNS, st.randoms(use_true_random=False))
def test_who_counts_depends_on_no_order_and_counts_himself(rows: list[Any], shuffle: random.Random) -> None:
    runs = [
        Content(
            content=content,
            path=f"{n}.json",
            trajectory_id=str(n),
            problem=problem,
            model=model,
            outcome=outcome,
        )
        for n, (content, problem, model, outcome) in enumerate(rows)
    ]
    found = {runs[position].path: original.path for position, original in originals(runs).items()}
    mixed = shuffle.sample(runs, len(runs))
    assert {mixed[position].path: original.path for position, original in originals(mixed).items()} == found
    assert not set(found) & set(found.values())
    by_path = {run.path: run for run in runs}
    for copy, original in ((by_path[a], by_path[b]) for a, b in found.items()):
        assert copy.content == original.content
        for a, b in ((copy.problem, original.problem), (copy.model, original.model)):
            assert not a or not b or a == b
    # and no two that count could be copies of each other
    counted = [run for run in runs if run.path not in found]
    for a in counted:
        for b in counted:
            if a is not b and a.content == b.content:
                known = [(a.problem, b.problem), (a.model, b.model)]
                known.append(tuple(None if r.outcome == "unknown" else r.outcome for r in (a, b)))  # type: ignore[arg-type]
                assert any(x and y and x != y for x, y in known)


def test_the_digest_is_of_the_text_whatever_text_it_is() -> None:
    odd = (STEPS[0], dataclasses.replace(STEPS[1], observation="\udc80"))
    assert content_digest(given_run("a.json", steps=odd)) == content_digest(given_run("b.json", steps=odd))


def test_of_a_growing_export_the_longest_row_counts() -> None:
    def episode(number: int, *steps: Any, path: str = "t.traces.json", **more: Any) -> Trajectory:
        return dataclasses.replace(trajectory(*steps, name=f"trial#episode-{number}", **more), path=path)

    first, second, third = view("a.py"), shell("pytest", seen="1 passed"), shell("ls", seen="b")
    unanswered = shell("pytest")
    runs = [
        episode(0, first),
        episode(1, first, unanswered),  # its last call has no answer yet
        episode(2, first, second, third),
        episode(3, third),  # after the context was summed up the export starts anew
        episode(4, third, first),
        episode(0, first, path="other.traces.json"),
        episode(1, first, second, outcome="failed"),
        dataclasses.replace(
            trajectory(first, name="trial#1"), path="t.traces.json"
        ),  # an attempt, no episode
    ]
    contents = [Content.of(run) for run in runs]
    found = earlier_episodes(contents, lambda n: actions(runs[n].states))
    assert {position: of.trajectory_id for position, of in found.items()} == {
        0: "trial#episode-2",
        1: "trial#episode-2",
        3: "trial#episode-4",
    }


def test_a_copied_export_leads_to_the_one_row_that_counts() -> None:
    steps = (view("a.py"), shell("pytest", seen="1 passed"))
    runs = [
        dataclasses.replace(trajectory(*steps[: n + 1], name=f"t#episode-{n}"), path=path)
        for path in ("t.json", "t (copy).json")
        for n in range(2)
    ]
    contents = [Content.of(run) for run in runs]
    found = counted_elsewhere(contents, lambda n: actions(runs[n].states))
    assert sorted(found) == [0, 2, 3]
    assert {(of.path, of.trajectory_id) for of in found.values()} == {("t.json", "t#episode-1")}
